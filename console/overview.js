// The current state of this server: whether it is ready, how many calls run, wait or are refused, and of which methods.
import { call } from './api.js'
import { facts, h, number, setText, sparkline, table, time } from './dom.js'
import { live, notice } from './live.js'
import { Readings } from './metrics.js'

export const title = 'Overview'

// A number with its last minute.
function tile(name) {
  const value = h('strong', {}, '–')
  const line = sparkline(`${name}, the last minute`)
  return {
    element: h('div', { class: 'tile' }, h('span', {}, name), value, line.element),
    show(n, text = number(n)) {
      setText(value, text)
      line.push(n)
    },
  }
}

export function conditionList() {
  const element = h('ul', { class: 'conditions', 'aria-label': 'What is wrong' }, h('li', {}, '–'))
  return {
    element,
    update(status) {
      const told = (status.conditions ?? []).map((c) => `${c.blocks ? 'Not ready' : 'Warning'}: ${c.text}, for ${time(Number(status.atMs) - Number(c.sinceMs))}`)
      const lines = told.length > 0 ? told : ['Ready: nothing is wrong.']
      while (element.children.length > lines.length) element.lastChild.remove()
      while (element.children.length < lines.length) element.append(h('li'))
      lines.forEach((line, i) => setText(element.children[i], line))
      element.classList.toggle('good', told.length === 0)
    },
  }
}

export function open(main) {
  const at = notice()
  const wrong = conditionList()
  const tiles = {
    calls: tile('Calls a second'), refused: tile('Refused a second'), waiting: tile('Waiting now'), trip: tile('Round trip to the store'),
  }
  const what = facts(['Server', 'Running for', 'Store', 'Locks', 'Units sold a second', 'Connections', 'Ready'])
  const methods = table('Methods', [
    { title: 'Method', cell: (row) => row.name },
    { title: 'Calls a second', kind: 'time number', cell: (row) => number(row.rate) },
    { title: 'Errors a second', kind: 'time number', cell: (row) => number(row.errors) },
    { title: 'Took on average', kind: 'time number', cell: (row) => (row.rate > 0 ? time((1000 * row.seconds) / row.rate) : '–') },
  ], (row) => row.name, 'Nobody has called this server.')
  const readings = new Readings()

  function methodRows() {
    return readings.each('grpc_server_started_total').filter((s) => s.value > 0).map(({ labels: { grpc_service, grpc_method } }) => {
      const of = { grpc_service, grpc_method }
      const handled = readings.rate('grpc_server_handled_total', of)
      return {
        name: `${grpc_service.replace(/^.*\./, '')}/${grpc_method}`,
        rate: readings.rate('grpc_server_started_total', of),
        errors: handled - readings.rate('grpc_server_handled_total', { ...of, grpc_code: 'OK' }),
        seconds: readings.rate('grpc_server_handling_seconds_sum', of),
      }
    }).toSorted((a, b) => a.name.localeCompare(b.name))
  }

  const polled = live(at, async (signal) => {
    const status = await call('AdminService/GetStatus', {}, signal)
    await readings.read(signal)
    wrong.update(status)
    if (readings.rates) {
      tiles.calls.show(readings.rate('grpc_server_started_total'))
      tiles.refused.show(readings.rate('lockstock_calls_refused_total'))
    }
    tiles.waiting.show(readings.sum('lockstock_calls', { state: 'waiting' }) ?? 0)
    tiles.trip.show(Number(status.store.roundTripUs ?? 0), `${number(Number(status.store.roundTripUs ?? 0) / 1000)} ms`)
    what.set('Server', `lockstockd ${status.version}`)
    what.set('Running for', time(status.upMs))
    what.set('Store', `${status.store.kind.replace('STORE_KIND_', '').toLowerCase()}, Redis ${status.store.version || '–'}`)
    what.set('Locks', status.lockStore ? `ZooKeeper, ${status.lockStore.ready ? 'ready' : 'not ready'}` : 'in the store')
    what.set('Units sold a second', number(readings.rate('lockstock_call_units_total', { grpc_method: 'Deduct' })))
    what.set('Connections', number(readings.sum('lockstock_connections')))
    what.set('Ready', status.store.ready ? 'yes' : `no: ${status.store.reason}`)
    methods.update(methodRows())
  })

  main.append(at.element, wrong.element, h('div', { class: 'tiles' }, Object.values(tiles).map((t) => t.element)),
    what.element, h('h2', {}, 'Methods'), methods.element)
  return polled.stop
}
