// One idempotency key: the state of its work, and the size of its stored result. The result itself is not shown.
import { call } from './api.js'
import { facts, field, h, number, bytes, remember, time, word } from './dom.js'
import { live, notice } from './live.js'

export const title = 'Idempotency'

function sizeOf(base64 = '') {
  return Math.floor((base64.replaceAll('=', '').length * 3) / 4)
}

function show(what, record) {
  const result = record.result
  what.set('State', word(record.state, 'RECORD_STATE_'))
  what.set('Attempt', number(record.attempt))
  what.set('Lease left', record.leaseMs ? time(record.leaseMs) : '–')
  what.set('Kept for', record.retainMs ? time(record.retainMs) : '–')
  what.set('Result', result ? `code ${result.code ?? 0}, ${bytes(sizeOf(result.body))}, ${number(result.headers?.length)} headers` : 'none')
  what.set('Fingerprint', record.fingerprint || 'none')
  what.set('Failure', record.detail || '–')
}

export function open(main, parameters) {
  const at = notice()
  const input = (name, required) =>
    h('input', { value: parameters.get(name) ?? '', spellcheck: 'false', autocomplete: 'off', required })
  const scope = input('scope', true)
  const key = input('key', true)
  const group = input('group', false)
  const asked = () => ({ scope: scope.value, key: key.value, group: group.value })
  const what = facts(['State', 'Attempt', 'Lease left', 'Kept for', 'Result', 'Fingerprint', 'Failure'])
  const form = h('form', { role: 'search' }, field('Scope', scope), field('Key', key), field('Group', group), h('button', {}, 'Look'))
  let polled

  function look() {
    polled?.stop()
    polled = live(at, async (signal) => {
      what.element.hidden = true
      const { record } = await call('IdempotencyService/Get', asked(), signal)
      show(what, record)
      what.element.hidden = false
    })
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    remember('idempotency', asked())
    look()
  })
  what.element.hidden = true
  main.append(form, at.element, what.element)
  if (key.value) look()
  return () => polled?.stop()
}
