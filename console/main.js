// The frame: selects the screen by the part of the address after #, and shows who is signed in and whether the server
// answers.
import { answers, call, events, getCaller, setCaller } from './api.js'
import { openDialog } from './action.js'
import { field, h, setText } from './dom.js'
import { notice } from './live.js'
import * as idempotency from './idempotency.js'
import * as limits from './limits.js'
import * as locks from './locks.js'
import * as overview from './overview.js'
import * as servers from './servers.js'
import * as stock from './stock.js'
import * as tryout from './tryout.js'
import * as who from './who.js'

const screens = { '': overview, locks, stock, idempotency, limits, servers, who, try: tryout }
const main = document.getElementById('main')
const links = new Map()
let close = () => {}

for (const [name, screen] of Object.entries(screens)) {
  const link = h('a', { href: `#/${name}` }, screen.title)
  links.set(name, link)
  document.querySelector('nav').append(link)
}

// "#/locks?prefix=a" is the screen locks with the parameters { prefix: 'a' }.
function show() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const name = Object.hasOwn(screens, path) ? path : ''
  close()
  document.querySelector('dialog')?.close()
  for (const [each, link] of links) {
    if (each === name) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  document.title = `${screens[name].title} – lockstock`
  main.replaceChildren(h('h1', {}, screens[name].title))
  close = screens[name].open(main, new URLSearchParams(query))
}

const button = document.getElementById('caller')

function signIn() {
  const { token, namespace } = getCaller()
  const tokenInput = h('input', { type: 'password', autocomplete: 'off', value: token })
  const namespaceInput = h('input', { autocomplete: 'off', value: namespace, placeholder: 'default' })
  const at = notice()
  const form = h('form', {},
    h('p', {}, 'The token stays in the memory of this page, until it is reloaded.'),
    field('Token', tokenInput), field('Namespace', namespaceInput), at.element,
    h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), h('button', {}, 'Use')))
  const dialog = openDialog('Sign in', form)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    try {
      setCaller(tokenInput.value.trim(), namespaceInput.value.trim())
      dialog.close()
    } catch (failure) {
      at.show(failure)
    }
  })
}

async function tellCaller() {
  const { token, namespace } = getCaller()
  try {
    const me = await call('AdminService/WhoAmI')
    setText(button, me.policy ? `${me.principal} · ${me.namespace || namespace || 'default'}` : namespace || 'default')
  } catch {
    setText(button, token ? 'Not known: sign in' : 'Sign in')
  }
}

events.addEventListener('caller', () => {
  tellCaller()
  show()
})
events.addEventListener('connection', () => {
  const banner = document.getElementById('connection')
  banner.hidden = answers
  setText(banner, answers ? '' : 'This server does not answer. What is shown is old.')
  if (answers) tellCaller()
})
button.addEventListener('click', signIn)
window.addEventListener('hashchange', show)
tellCaller()
show()
