// Calls the public API in JSON over the Connect protocol, with the visitor's token. The token is kept only in memory: a
// reload forgets it.
let token = ''
let namespace = ''

// Dispatches 'caller' when the visitor signed in or out, and 'connection' when `answers` changed.
export const events = new EventTarget()

// Whether the server answered the last request.
export let answers = true

export class CallError extends Error {
  constructor(code, message, { field = '', applied = 'NO' } = {}) {
    super(message)
    Object.assign(this, { code, field, applied })
  }
}

// Throws a CallError when a header cannot hold the text.
export function setCaller(newToken, newNamespace) {
  if (!/^[\x21-\x7e]*$/.test(newToken)) throw new CallError('invalid_argument', 'token: must be ASCII without spaces')
  if (!/^[\x20-\x7e]*$/.test(newNamespace)) throw new CallError('invalid_argument', 'namespace: must be ASCII')
  token = newToken
  namespace = newNamespace
  events.dispatchEvent(new Event('caller'))
}

export function getCaller() {
  return { token, namespace }
}

function setAnswers(now) {
  if (now === answers) return
  answers = now
  events.dispatchEvent(new Event('connection'))
}

function headers() {
  return { ...(token && { authorization: `Bearer ${token}` }), ...(namespace && { 'lockstock-namespace': namespace }) }
}

async function ask(path, options) {
  let response
  try {
    response = await fetch(path, { ...options, cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' })
  } catch (error) {
    if (error.name === 'AbortError') throw error
    setAnswers(false)
    throw new CallError('unreachable', 'this server does not answer', { applied: options.method === 'POST' ? 'MAYBE' : 'NO' })
  }
  setAnswers(true)
  if (response.ok) return response
  const told = await response.json().catch(() => ({}))
  throw new CallError(told.code ?? 'unknown', told.message ?? `the server answered with status ${response.status}`, told)
}

// Calls "LockService/List". Throws a CallError.
export async function call(method, request = {}, signal = undefined) {
  const response = await ask(`/lockstock.v1.${method}`, {
    method: 'POST', body: JSON.stringify(request), signal, headers: { ...headers(), 'content-type': 'application/json', 'connect-protocol-version': '1' },
  })
  return response.json()
}

// A page of the server as text. Throws a CallError.
export async function readText(path, signal) {
  return (await ask(path, { signal, headers: headers() })).text()
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`
}

// The same call as a shell command: with curl, and with lockstock. Neither contains the token.
export function asCurl(method, request) {
  const fields = [
    token && '-H "Authorization: Bearer $TOKEN"',
    namespace && `-H ${quoted(`Lockstock-Namespace: ${namespace}`)}`,
  ].filter(Boolean)
  return ['curl', ...fields, '-d', quoted(JSON.stringify(request)), quoted(`${location.origin}/lockstock.v1.${method}`)].join(' ')
}

export function asCommand(method, request) {
  const [service, name] = method.split('/')
  const dashed = (text) => text.replace(/([a-z])([A-Z])/g, '$1-$2').toLowerCase()
  const flags = [namespace && `--namespace ${quoted(namespace)}`, token && '--token-file FILE'].filter(Boolean)
  return ['lockstock', ...flags, dashed(service.replace(/Service$/, '')), dashed(name), `--json=${quoted(JSON.stringify(request))}`].join(' ')
}
