// A screen that lists names with a prefix, one page at a time, next to the chosen one.
import { call } from './api.js'
import { field, h, link, remember, table } from './dom.js'
import { live, notice } from './live.js'
import { pages } from './pages.js'

// key: the field that names a row in its group ('sku'), also in the address. method: answers with `rows` ('items').
// columns: of the table, after the name. details({ group, [key] }) shows one; returns { element, stop }. Returns a
// function that closes the screen.
export function openSearch(main, parameters, { screen, caption, label, title, key, columns, empty, method, rows, details }) {
  const at = notice()
  const prefix = h('input', { type: 'search', value: parameters.get('prefix') ?? '', spellcheck: 'false', autocomplete: 'off' })
  const name = { title, cell: (row, element) => link(row[key], screen, { prefix: prefix.value, group: row.group, [key]: row[key] }, element) }
  const found = table(caption, [name, ...columns], (row) => JSON.stringify([row.group, row[key]]), empty)
  const list = pages(
    (pageToken, signal) => call(method, { prefix: prefix.value, pageSize: 50, pageToken }, signal),
    (answer) => answer[rows] ?? [], () => polled.again(), found.update)
  const chosen = parameters.get(key) && details({ group: parameters.get('group') ?? '', [key]: parameters.get(key) })

  main.append(h('form', { role: 'search', onsubmit: (event) => event.preventDefault() }, field(label, prefix)),
    at.element, h('div', { class: 'columns' }, h('section', {}, found.element, list.element), chosen && chosen.element))
  const polled = live(at, list.read)
  prefix.addEventListener('input', () => {
    remember(screen, { prefix: prefix.value, group: parameters.get('group'), [key]: parameters.get(key) })
    list.restart()
  })
  return () => {
    polled.stop()
    if (chosen) chosen.stop()
  }
}
