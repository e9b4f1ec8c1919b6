// The dialog before anything is changed: what will happen, the name to type, a reason, and the same call as a command.
import { asCommand, asCurl, call } from './api.js'
import { code, field, h, setText } from './dom.js'
import { notice } from './live.js'

// Shows an element as a modal dialog until it is closed; then the focus returns to where it was.
export function openDialog(title, ...children) {
  const heading = h('h2', { id: 'dialog-title' }, title)
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, heading, ...children)
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

// title and text: what will happen. name: what must be typed. method and request(inputs): the call. inputs: further
// controls as { key: { title, control } }. reason: false where the call has none. done(answer) runs after success.
export function confirmCall({ title, text, name, method, request, inputs = {}, reason = true, done = () => {} }) {
  const typed = h('input', { autocomplete: 'off', spellcheck: 'false' })
  const why = h('input', { autocomplete: 'off', maxlength: 256 })
  const at = notice()
  const command = code('The same call in a shell')
  const go = h('button', { class: 'danger', disabled: true }, title)
  const form = h('form', {},
    h('p', {}, text),
    Object.values(inputs).map((input) => field(input.title, input.control)),
    field(`Type ${name} to confirm`, typed),
    reason && field('Reason, for the log', why),
    h('details', {}, h('summary', {}, 'The same call in a shell'), command), at.element,
    h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), go))

  function whole() {
    const values = Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input.control.value]))
    return { ...request(values), ...(reason && { reason: why.value }) }
  }

  function look() {
    go.disabled = typed.value !== name || (reason && !why.value.trim()) || !form.checkValidity()
    setText(command, `${asCommand(method, whole())}\n${asCurl(method, whole())}`)
  }

  form.addEventListener('input', look)
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    look()
    if (go.disabled) return
    go.disabled = true
    try {
      const answer = await call(method, whole())
      dialog.close()
      done(answer)
    } catch (failure) {
      at.show(failure)
      look()
    }
  })
  const dialog = openDialog(title, form)
  look()
}
