// Locks by prefix, one page at a time; for one lock, its holders, and its waiters in their order.
import { call } from './api.js'
import { confirmCall } from './action.js'
import { facts, h, number, setText, table, time, word } from './dom.js'
import { live, notice } from './live.js'
import { openSearch } from './search.js'

export const title = 'Locks'

// A lease as a bar that is full at the longest time it showed.
function lease(ms, element) {
  const cell = element ?? h('div', { class: 'lease' }, h('span'), h('meter', { min: 0, 'aria-label': 'lease left' }))
  const [text, meter] = cell.children
  setText(text, time(ms))
  meter.max = Math.max(meter.max, Number(ms ?? 0))
  meter.value = Number(ms ?? 0)
  return cell
}

// One lock. Returns { element, stop }.
function details({ group, name }) {
  const at = notice()
  const what = facts(['Group', 'Mode', 'Capacity', 'Last fence'])
  const holders = table('Holders', [
    { title: 'Owner', cell: (holder) => holder.owner || '(none given)' },
    { title: 'Fence', kind: 'long', cell: (holder) => holder.fence },
    { title: 'Lease left', kind: 'wide', cell: (holder, element) => lease(holder.leaseMs, element) },
    { title: 'Held for', kind: 'short number', cell: (holder) => time(holder.heldMs) },
    { title: 'Permits', kind: 'number', cell: (holder) => holder.permits ?? '' },
  ], (holder) => holder.fence, 'Nobody holds this lock.')
  const queue = table('Queue', [
    { title: 'Place', kind: 'number', cell: (waiter) => waiter.place },
    { title: 'Owner', cell: (waiter) => waiter.owner || '(none given)' },
    { title: 'Waits since', kind: 'time number', cell: (waiter) => time(waiter.waitedMs) },
    { title: 'Gives up in', kind: 'time number', cell: (waiter) => time(waiter.leftMs) },
  ], (waiter) => String(waiter.place), 'Nobody waits.')
  const waiting = h('h3', {}, 'Queue')
  const release = h('button', { type: 'button', class: 'danger', onclick: ask }, 'Force release')
  const element = h('section', { 'aria-label': `Lock ${name}` },
    h('h2', {}, name), at.element, what.element, h('h3', {}, 'Holders'), holders.element, waiting, queue.element,
    h('p', { class: 'buttons' }, release,
      h('button', { type: 'button', onclick: () => resetFence(name) }, 'Reset the fence of a resource')))

  function ask() {
    confirmCall({
      title: 'Force release', name, method: 'LockService/ForceRelease', request: () => ({ group, name }),
      text: 'The lock is taken away from whoever holds it. Holders are told at once, and their fences keep late writes out.',
      done: () => polled.again(),
    })
  }

  const polled = live(at, async (signal) => {
    const lock = await call('LockService/Inspect', { group, name }, signal)
    const waiters = lock.queue ?? []
    what.set('Group', lock.group ?? '')
    what.set('Mode', word(lock.mode, 'LOCK_MODE_') || 'free')
    what.set('Capacity', lock.capacity ? number(lock.capacity) : '–')
    what.set('Last fence', lock.lastFence ?? 'none')
    holders.update(lock.holders ?? [])
    queue.update(waiters.map((waiter, i) => ({ ...waiter, place: i + 1 })))
    const more = Number(lock.waiters ?? 0) - waiters.length
    setText(waiting, `Queue (${number(lock.waiters)})${more > 0 ? `, the first ${waiters.length}` : ''}`)
    release.disabled = !lock.holders?.length
  })
  return { element, stop: polled.stop }
}

function resetFence(resource) {
  confirmCall({
    title: 'Reset the fence', name: resource, method: 'LockService/ResetFence',
    text: `Sets the register of the resource ${resource}. Lower fences are refused from then on; 0 lets everyone in.`,
    inputs: { fence: { title: 'Highest fence seen', control: h('input', { pattern: '[0-9]+', required: true, value: '0' }) } },
    request: ({ fence }) => ({ resource, fence }),
  })
}

export function open(main, parameters) {
  return openSearch(main, parameters, {
    screen: 'locks', caption: 'Locks', label: 'Names that begin with', title: 'Name', key: 'name', empty: 'No lock.',
    method: 'LockService/List', rows: 'locks', details,
    columns: [
      { title: 'Owner', cell: (row) => row.owner || '(none given)' },
      { title: 'Mode', kind: 'short', cell: (row) => word(row.mode, 'LOCK_MODE_') },
      { title: 'Holders', kind: 'number', cell: (row) => number(row.holders) },
      { title: 'Waiting', kind: 'number', cell: (row) => number(row.waiters) },
      { title: 'Lease left', kind: 'wide', cell: (row, element) => lease(row.leaseMs, element) },
    ],
  })
}
