// Any method of the contract: a form for its request, the answer, and the same call in a shell. A call that may change
// something must be confirmed first.
import { asCommand, asCurl, call } from './api.js'
import { confirmCall } from './action.js'
import { readContract } from './descriptors.js'
import { code, field, h, setText } from './dom.js'
import { explain, notice } from './live.js'

export const title = 'Try a method'

const REPEATED = 3 // labels and types of google/protobuf/descriptor.proto
const BOOL = 8
const MESSAGE = 11
const BYTES = 12
const ENUM = 14
const TEXT = 9
let contract

async function getContract() {
  if (!contract) {
    const response = await fetch('/console/contract.binpb')
    contract = readContract(new Uint8Array(await response.arrayBuffer()))
  }
  return contract
}

// A control for one value. Returns { element, value() }; value() is undefined if nothing was entered.
function single(f, title) {
  if (f.type === MESSAGE) {
    const inner = messageForm(contract.types.get(f.typeName))
    return { element: h('fieldset', {}, h('legend', {}, title), inner.element), value: inner.value }
  }
  if (f.type === ENUM || f.type === BOOL) {
    const words = f.type === BOOL ? ['true', 'false'] : contract.enums.get(f.typeName)
    const control = h('select', {}, h('option', { value: '' }, '–'), words.map((w) => h('option', { value: w }, w)))
    const value = () => (control.value === '' ? undefined : f.type === BOOL ? control.value === 'true' : control.value)
    return { element: field(title, control), value }
  }
  const control = h('input', { autocomplete: 'off', spellcheck: 'false', inputmode: f.type === TEXT || f.type === BYTES ? 'text' : 'numeric' })
  return { element: field(title, control, f.type === BYTES ? 'base64' : null), value: () => (control.value === '' ? undefined : control.value) }
}

function many(f) {
  const rows = []
  const list = h('div')
  const add = h('button', { type: 'button', onclick: () => {
    const row = single(f, `${f.name} ${rows.length + 1}`)
    rows.push(row)
    list.append(row.element)
  } }, `Add to ${f.name}`)
  add.click()
  const value = () => {
    const values = rows.map((row) => row.value()).filter((v) => v !== undefined)
    return values.length > 0 ? values : undefined
  }
  return { element: h('div', { class: 'many' }, list, add), value }
}

function messageForm(type) {
  const parts = type.fields.map((f) => ({ name: f.jsonName, part: f.label === REPEATED ? many(f) : single(f, f.name) }))
  return {
    element: h('div', { class: 'message' }, parts.map(({ part }) => part.element)),
    value() {
      const entries = parts.map(({ name, part }) => [name, part.value()]).filter(([, value]) => value !== undefined)
      return entries.length > 0 ? Object.fromEntries(entries) : undefined
    },
  }
}

export function open(main, parameters) {
  const at = notice()
  const place = h('div')
  const answer = code('Answer')
  const shell = code('The same call in a shell')
  const choice = h('select')
  let method
  let form

  const request = () => form.value() ?? {}
  const tell = (told) => setText(answer, JSON.stringify(told, null, 2))
  const look = () => setText(shell, `${asCommand(method.name, request())}\n${asCurl(method.name, request())}`)

  async function send() {
    at.show()
    if (!method.reads) {
      const fixed = request()
      confirmCall({
        title: `Call ${method.name}`, name: method.name.split('/')[1], method: method.name, request: () => fixed,
        reason: false, text: 'This method may change something.', done: tell,
      })
      return
    }
    try {
      tell(await call(method.name, request()))
    } catch (error) {
      at.show(error)
      setText(answer, explain(error))
    }
  }

  function choose() {
    method = contract.methods.find((m) => m.name === choice.value)
    form = messageForm(contract.types.get(method.input))
    const button = h('button', {}, 'Call')
    const whole = h('form', { oninput: look, onclick: look, onsubmit: (event) => (event.preventDefault(), send()) }, form.element, h('p', { class: 'buttons' }, button))
    place.replaceChildren(whole)
    setText(answer, '')
    look()
  }

  getContract().then(() => {
    const names = contract.methods.map((m) => m.name).toSorted()
    choice.append(...names.map((name) => h('option', { value: name }, name)))
    if (names.includes(parameters.get('method'))) choice.value = parameters.get('method')
    choice.addEventListener('change', choose)
    choose()
  }, (error) => at.show(`The descriptors cannot be read: ${error.message}`))
  main.append(field('Method', choice), at.element,
    h('div', { class: 'columns' }, h('section', { 'aria-label': 'Request' }, place),
      h('section', { 'aria-label': 'Answer' }, h('h2', {}, 'Answer'), answer, h('h2', {}, 'In a shell'), shell)))
  return () => {}
}
