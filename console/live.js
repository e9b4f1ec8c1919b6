// Repeats a request while the page is visible, never before the last answer arrived, so that an open page costs the
// server little.
import { h, setText } from './dom.js'

const EVERY_MS = 1000
const REFUSED_MS = 10000

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}

function visible(signal) {
  if (!document.hidden) return undefined
  return new Promise((resolve) => {
    const look = () => document.hidden || resolve()
    document.addEventListener('visibilitychange', look, { signal })
    signal.addEventListener('abort', resolve, { once: true })
  })
}

// Explains a refusal to the visitor.
export function explain(error) {
  if (error.code === 'unauthenticated') return 'The server does not know this caller. Sign in with a token.'
  if (error.code === 'permission_denied') return `The server refused: ${error.message}. "Who am I" lists the rights of this principal.`
  const unsure = error.applied === 'MAYBE' ? ' Whether it was done is not known.' : ''
  return error.code === 'unreachable' ? `This server does not answer.${unsure}` : `${error.code}: ${error.message}.${unsure}`
}

// The place of a screen's error. Returns { element, show(error or undefined) }.
export function notice() {
  const element = h('p', { class: 'notice', role: 'alert', hidden: true })
  return {
    element,
    show(error) {
      element.hidden = !error
      if (error) setText(element, typeof error === 'string' ? error : explain(error))
    },
  }
}

// Runs ask(signal) repeatedly until stop(). ask may return for how many milliseconds its answer may be shown.
// Returns { again, stop }; again() asks now.
export function live(at, ask) {
  let end

  async function once(signal) {
    try {
      const goodMs = await ask(signal)
      if (!signal.aborted) at.show()
      return Math.max(EVERY_MS, goodMs ?? 0)
    } catch (error) {
      if (signal.aborted) return 0
      at.show(error.code === 'unreachable' ? undefined : error) // the frame shows that
      // Each wrong token counts against this address. With another token the screen is opened again.
      if (error.code === 'unauthenticated') return Infinity
      return error.code === 'unreachable' ? EVERY_MS : REFUSED_MS
    }
  }

  async function run(signal) {
    while (!signal.aborted) {
      await visible(signal)
      const next = signal.aborted ? Infinity : await once(signal)
      if (next === Infinity) return
      await pause(next, signal)
    }
  }

  function begin() {
    end?.abort()
    end = new AbortController()
    run(end.signal)
  }

  begin()
  return { again: begin, stop: () => end.abort() }
}
