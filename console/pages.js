// A list that the server returns in pages; only the page that is shown is requested.
import { clock, h, setText } from './dom.js'

// A page of the server may have few rows, or none, without being the last. Several pages of the server make one page of
// the screen.
const ROWS = 50
const SEARCH_MS = 1000 // how long to look for them
const REQUEST_MS = 200 // on average a list makes at most five requests a second
const REST = 30 // after a search of t, pauses for 30 t: a search makes the store look at many names

// ask(pageToken, signal) returns an answer with nextPageToken; rowsOf takes its rows; changed() runs when another page
// is wanted; show(rows) gets those of the page that is shown. Returns { element, restart(), read(signal) }; read
// returns for how many milliseconds they may be shown.
export function pages(ask, rowsOf, changed, show) {
  const tokens = [''] // of the pages up to the one that is shown
  let following = ''
  const turn = (move) => () => {
    move()
    changed()
  }
  const previous = h('button', { type: 'button', disabled: true, onclick: turn(() => tokens.pop()) }, 'Previous page')
  const next = h('button', { type: 'button', disabled: true, onclick: turn(() => tokens.push(following)) }, 'Next page')
  const asOf = h('span', { class: 'soft' })

  return {
    element: h('p', { class: 'buttons' }, previous, next, asOf),
    restart() {
      tokens.length = 1
      changed()
    },
    async read(signal) {
      const began = performance.now()
      const rows = []
      let requests = 0
      following = tokens.at(-1)
      do {
        requests++
        const answer = await ask(following, signal)
        rows.push(...rowsOf(answer))
        following = answer.nextPageToken ?? ''
      } while (following && rows.length < ROWS && performance.now() < began + SEARCH_MS)
      previous.disabled = tokens.length === 1
      next.disabled = following === ''
      setText(asOf, rows.length === 0 && following ? 'Nothing so far: the next page searches on.' : `As of ${clock(Date.now()).slice(0, 8)}`)
      show(rows)
      return Math.max(REQUEST_MS * requests, REST * (performance.now() - began))
    },
  }
}
