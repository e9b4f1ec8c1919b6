// Items, one page at a time, and the live sale of one item: its counts, their comparison with the ledger, and the
// newest entries.
import { call } from './api.js'
import { confirmCall } from './action.js'
import { bar, clock, facts, h, number, setText, sparkline, table, time, word } from './dom.js'
import { live, notice } from './live.js'
import { Account, PAGE } from './ledger.js'
import { openSearch } from './search.js'

export const title = 'Stock'

const WAIT_MS = 20000
const TAIL = 12

function partsOf(item) {
  return [
    { kind: 'sold', value: Number(item.sold ?? 0) },
    { kind: 'reserved', value: Number(item.reserved ?? 0) },
    { kind: 'available', value: Number(item.available ?? 0) },
  ]
}

// The sale of one item. The ledger answers only when something happens, so an item without sales costs nothing.
function sale({ group, sku }) {
  const at = notice()
  const whole = bar(sku, [])
  const rate = sparkline('units a second')
  const what = facts(['Available', 'Reserved', 'Sold', 'Oversold', 'Units a second', 'State', 'Of one buyer'])
  const equation = h('p', { class: 'equation' })
  const proof = h('p', { class: 'proof' })
  const tail = table('Newest entries of the ledger', [
    { title: 'Time', kind: 'time', cell: (entry) => (entry.id ? clock(entry.atMs) : '\u00a0') },
    { title: 'What', kind: 'time', cell: (entry) => word(entry.kind, 'LEDGER_KIND_') },
    { title: 'Units', kind: 'number', cell: (entry) => (entry.id ? number(entry.quantity) : '') },
    { title: 'Order', cell: (entry) => entry.orderId ?? '' },
    { title: 'Reason', cell: (entry) => entry.reason ?? '' },
  ], (entry) => entry.place, '')
  const account = new Account(sku)
  let newest = []
  let before

  const element = h('section', { 'aria-label': `Sale of ${sku}` },
    h('h2', {}, sku), at.element, whole,
    h('ul', { class: 'legend' }, ['sold', 'reserved', 'available'].map((kind) => h('li', { class: kind }, kind))),
    what.element, rate.element, equation, proof, h('h3', {}, 'Ledger'), tail.element,
    h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: adjust }, 'Adjust stock')))

  function adjust() {
    const delta = h('input', { pattern: '-?[0-9]+', required: true, value: '0', inputmode: 'numeric' })
    const adjustmentId = crypto.randomUUID?.() ?? `console-${Date.now()}`
    confirmCall({
      title: 'Adjust stock', name: sku, method: 'StockService/Adjust', text: 'Adds units, or with a minus takes them away.',
      inputs: { delta: { title: 'Units', control: delta } },
      request: (values) => ({ group, sku, delta: values.delta, adjustmentId }),
    })
  }

  function showItem(item) {
    const now = performance.now()
    const moved = Number(item.sold ?? 0) + Number(item.reserved ?? 0)
    const perSecond = before ? (Math.max(0, moved - before.moved) * 1000) / (now - before.at) : 0
    before = { moved, at: now }
    bar(sku, partsOf(item), whole)
    rate.push(perSecond)
    what.set('Available', number(item.available))
    what.set('Reserved', number(item.reserved))
    what.set('Sold', number(item.sold))
    what.set('Units a second', number(perSecond))
    what.set('State', stateOf(item))
    what.set('Of one buyer', item.perBuyerLimit ? `at most ${number(item.perBuyerLimit)}` : 'any number')
    what.set('Oversold', number(account.oversold))
    setText(equation, `${number(account.initial)} initial ${account.adjusted < 0 ? '−' : '+'} ${number(Math.abs(account.adjusted))} adjusted = `
      + `${number(item.available)} available + ${number(item.reserved)} reserved + ${number(item.sold)} sold`)
    account.expect(item)
    setText(proof, account.verdict())
    proof.className = `proof ${account.proved ? 'good' : ''}`
  }

  const polled = live(at, async (signal) => {
    const answer = await call('StockService/ReadLedger', { group, after: account.after, limit: PAGE, waitMs: account.caughtUp ? WAIT_MS : 0 }, signal)
    const mine = account.read(answer)
    newest = [...mine.toReversed(), ...newest].slice(0, TAIL)
    tail.update(Array.from({ length: TAIL }, (_, i) => ({ ...newest[i], place: i }))) // rows stay where they are
    showItem((await call('StockService/GetItem', { group, sku }, signal)).item)
  })
  return { element, stop: polled.stop }
}

function stateOf(item) {
  const state = word(item.state, 'ITEM_STATE_')
  if (item.opensInMs) return `${state}, opens in ${time(item.opensInMs)}`
  return item.closesInMs ? `${state}, closes in ${time(item.closesInMs)}` : state
}

export function open(main, parameters) {
  return openSearch(main, parameters, {
    screen: 'stock', caption: 'Items', label: 'Items that begin with', title: 'Item', key: 'sku', empty: 'No item.',
    method: 'StockService/ListItems', rows: 'items', details: sale,
    columns: [
      { title: 'Sold, reserved, available', kind: 'wide', cell: (row, element) => bar(row.sku, partsOf(row), element) },
      { title: 'Available', kind: 'number', cell: (row) => number(row.available) },
      { title: 'Sold', kind: 'number', cell: (row) => number(row.sold) },
      { title: 'State', kind: 'short', cell: (row) => word(row.state, 'ITEM_STATE_') },
    ],
  })
}
