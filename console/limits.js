// The stored policies, including shadow policies, and what one key has left, without charging it.
import { call } from './api.js'
import { confirmCall } from './action.js'
import { facts, field, h, number, table, time, word } from './dom.js'
import { live, notice } from './live.js'
import { pages } from './pages.js'

export const title = 'Limits'

function rateOf(policy) {
  if (policy.unlimited) return 'unlimited'
  const { limit, periodMs, burst } = policy.limit ?? {}
  return `${number(limit)} in ${time(periodMs)}${Number(burst ?? 0) > 0 ? `, burst ${number(burst)}` : ''}`
}

function penaltyOf(policy) {
  const penalty = policy.limit?.penalty
  return penalty ? `after ${number(penalty.after)} refusals, ${time(penalty.banMs)}` : '–'
}

function remove(policy, done) {
  confirmCall({
    title: 'Delete the policy', name: policy.name, method: 'RateLimitService/DeletePolicy', done,
    text: 'Calls that name this policy are refused from then on.',
    request: () => ({ name: policy.name, expectedVersion: policy.version }),
  })
}

function edit(policy, done) {
  const input = (value) => h('input', { pattern: '[0-9]+', required: true, value: value ?? '0', inputmode: 'numeric' })
  const shadow = h('select', {}, h('option', { value: 'false' }, 'refuses'), h('option', { value: 'true' }, 'only watches (shadow)'))
  shadow.value = String(policy.shadow ?? false)
  confirmCall({
    title: 'Change the policy', name: policy.name, method: 'RateLimitService/PutPolicy', done,
    text: `Replaces version ${policy.version}. If somebody else has changed it meanwhile, nothing is changed.`,
    inputs: {
      limit: { title: 'Limit', control: input(policy.limit?.limit) },
      periodMs: { title: 'Period in ms', control: input(policy.limit?.periodMs) },
      burst: { title: 'Burst', control: input(policy.limit?.burst) },
      shadow: { title: 'Effect', control: shadow },
    },
    request: ({ limit, periodMs, burst, shadow: watches }) => ({
      name: policy.name, expectedVersion: policy.version, shadow: watches === 'true',
      limit: { ...policy.limit, limit, periodMs, burst },
    }),
  })
}

// What a key has left of a policy.
function peek() {
  const at = notice()
  const policy = h('input', { required: true, spellcheck: 'false', autocomplete: 'off' })
  const key = h('input', { required: true, spellcheck: 'false', autocomplete: 'off' })
  const what = facts(['A call now would be', 'Left', 'Limit', 'Free again in', 'Banned for'])
  const form = h('form', { role: 'search' }, field('Policy', policy), field('Key', key), h('button', {}, 'Look'))
  let polled

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    polled?.stop()
    const request = { peek: true, rules: [{ policy: policy.value, key: key.value }] }
    polled = live(at, async (signal) => {
      const { rules: [rule] } = await call('RateLimitService/Check', request, signal)
      what.set('A call now would be', word(rule.outcome, 'CHECK_OUTCOME_'))
      what.set('Left', number(rule.remaining))
      what.set('Limit', number(rule.limit))
      what.set('Free again in', time(rule.retryAfterMs))
      what.set('Banned for', rule.bannedMs ? time(rule.bannedMs) : 'not banned')
      what.element.hidden = false
    })
  })
  what.element.hidden = true
  return { element: h('section', { 'aria-label': 'One key' }, h('h2', {}, 'One key'), form, at.element, what.element), stop: () => polled?.stop() }
}

export function open(main) {
  const at = notice()
  const again = () => polled.again()
  const found = table('Policies', [
    { title: 'Name', cell: (row) => row.name },
    { title: 'Effect', cell: (row) => (row.shadow ? 'watches (shadow)' : 'refuses') },
    { title: 'Algorithm', cell: (row) => word(row.limit?.algorithm, 'ALGORITHM_') },
    { title: 'Rate', cell: rateOf },
    { title: 'Ban', cell: penaltyOf },
    { title: 'Version', kind: 'long', cell: (row) => row.version },
    { title: '', kind: 'buttons', cell: (row, element) => element ?? h('span', {},
      !row.unlimited && h('button', { type: 'button', 'aria-label': `Change ${row.name}`, onclick: () => edit(row, again) }, 'Change'),
      h('button', { type: 'button', class: 'danger', 'aria-label': `Delete ${row.name}`, onclick: () => remove(row, again) }, 'Delete')) },
  ], (row) => `${row.name} ${row.version}`, 'No policy is stored.')
  const list = pages((pageToken, signal) => call('RateLimitService/ListPolicies', { pageSize: 50, pageToken }, signal),
    (answer) => answer.policies ?? [], again, found.update)
  const key = peek()
  const polled = live(at, list.read)

  main.append(at.element, found.element, list.element, key.element)
  return () => {
    polled.stop()
    key.stop()
  }
}
