// The principal of the visitor, as the server sees it.
import { call } from './api.js'
import { facts, table } from './dom.js'
import { live, notice } from './live.js'

export const title = 'Who am I'

export function open(main) {
  const at = notice()
  const what = facts(['Principal', 'Namespace', 'Token ends'])
  const yes = (value) => (value ? 'yes' : 'no')
  const rights = table('Rights', [
    { title: 'Service', cell: (right) => (right.service === '*' ? 'every service' : right.service) },
    { title: 'Read', cell: (right) => yes(right.read) },
    { title: 'Write', cell: (right) => yes(right.write) },
    { title: 'Administer', cell: (right) => yes(right.admin) },
  ], (right) => right.service, 'This principal has no rights.')
  const polled = live(at, async (signal) => {
    const me = await call('AdminService/WhoAmI', {}, signal)
    what.set('Principal', me.policy ? me.principal : 'anybody: this server has no policy')
    what.set('Namespace', me.namespace || 'chosen by the caller')
    what.set('Token ends', me.tokenEndsAtMs ? new Date(Number(me.tokenEndsAtMs)).toLocaleString() : 'never')
    rights.update(me.policy ? (me.rights ?? []) : [{ service: '*', read: true, write: true, admin: true }])
  })

  main.append(at.element, what.element, rights.element)
  return polled.stop
}
