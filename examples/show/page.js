// Draws the state of the show, at most ten times a second, with functions of the console.
import { bar, facts, h, number, setText } from './dom.js'

const KEYS = { s: 'Kill a server', r: 'Kill Redis', c: 'Kill a client', f: 'Freeze the holders' }
const NEWS = 6
const FACTS = ['Bought', 'Told sold out', 'Waiting', 'No answer at all', '9 of 10 waited']
const byId = (id) => document.getElementById(id)
const part = (kind, value) => ({ kind, value })

function shopOf(id, heading, names) {
  const title = h('h2', {}, heading)
  const verdict = h('p', { class: 'verdict' })
  const stock = bar(heading, [])
  const what = facts([...FACTS, ...names])
  byId(id).replaceChildren(title, verdict, stock, what.element)
  return {
    show(text, parts, side, more) {
      setText(verdict, text)
      bar(heading, parts, stock)
      const waited = side.waited_ms === null ? '–' : `${number(side.waited_ms)} ms`
      const values = [...[side.bought, side.sold_out, side.waiting, side.gave_up].map(number), waited, ...more.map(number)]
      what.element.querySelectorAll('dd').forEach((dd, i) => setText(dd, values[i]))
    },
  }
}

const naive = shopOf('naive', 'By hand', ['Left, as it counts', 'In doubt, tried anew'])
const exact = shopOf('exact', 'lockstock: Deduct, by an order id', ['Answer lost', '… and then known', 'Late writes refused'])
byId('keys').append(...Object.entries(KEYS).map(([key, text]) => h('button', { onclick: () => fetch(`press/${key}`, { method: 'POST' }) }, text)))

function handVerdict(state, hand) {
  if (state.stuck) return 'No buyer gets in: its lock has no end'
  return hand.oversold > 0 ? `${number(hand.oversold)} oversold` : `${number(hand.twice)} sold twice`
}

function draw(state) {
  const [hand, ours] = state.sides
  setText(byId('title'), `${number(state.buyers)} buyers want one of ${number(state.phones)} phones, in two shops at once`)
  setText(byId('naive').querySelector('h2'), `By hand: ${state.form}`)
  naive.show(handVerdict(state, hand), [part('sold', hand.bought - hand.twice), part('twice', hand.twice), part('available', hand.left)],
    hand, [hand.left, hand.lost])
  exact.show(state.why ? `Not exact: ${state.why}` : `${number(ours.oversold)} oversold`,
    [part('sold', ours.bought), part('available', state.phones - ours.bought)], ours, [ours.lost, ours.known, state.late])
  setText(byId('caption'), state.over ? state.verdict : state.news.at(-1) ?? `${number(state.here)} have come to both`)
  byId('news').replaceChildren(...state.news.slice(-NEWS).reverse().map((line) => h('li', {}, line)))
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
    if (state.sides) draw(state)
    if (state.over) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

run()
