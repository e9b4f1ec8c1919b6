// Draws the state of the show, at most ten times a second, with functions of the console.
import { bar, h, number, setText, table } from './dom.js'

const KEYS = { s: 'Kill a server', r: 'Kill Redis', c: 'Kill a client', f: 'Freeze the holders' }
const byId = (id) => document.getElementById(id)
const shops = [...document.querySelectorAll('.shops section')].map((section) => {
  const stock = bar('stock', [])
  section.append(stock)
  return { verdict: section.querySelector('.verdict'), stock }
})
const rows = table('What the buyers were told', [
  { title: '', cell: (row) => row[0] },
  { title: 'by hand', kind: 'wide number', cell: (row) => row[1] },
  { title: 'lockstock', kind: 'wide number', cell: (row) => row[2] },
], (row) => row[0], '')
byId('rows').append(rows.element)
byId('keys').append(...Object.entries(KEYS).map(([key, text]) => h('button', { onclick: () => fetch(`press/${key}`, { method: 'POST' }) }, text)))

function draw(state) {
  setText(byId('title'), `${number(state.buyers)} buyers want one of ${number(state.phones)} phones, in two shops at once`)
  shops.forEach(({ verdict, stock }, i) => {
    setText(verdict, state.headlines[i])
    bar('stock', ['sold', 'twice', 'available'].map((kind, part) => ({ kind, value: state.parts[i][part] })), stock)
  })
  rows.update(state.rows)
  setText(byId('caption'), state.end ?? state.news.at(-1) ?? 'The sale is open.')
  byId('news').replaceChildren(...state.news.slice().reverse().map((line) => h('li', {}, line)))
  for (const button of byId('keys').children) button.disabled = state.over
  byId('console').href = state.console
}

async function run() {
  for (;;) {
    const state = await fetch('state').then((response) => response.json(), () => null)
    if (!state) {
      setText(byId('caption'), 'The show has ended.')
      return
    }
    if (state.rows) draw(state)
    if (state.over) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

run()
