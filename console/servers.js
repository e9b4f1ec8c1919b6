// This server and its store: roles, replicas and their lag, memory, disk, and why it is not ready.
import { call } from './api.js'
import { bytes, facts, h, number, table, time, word } from './dom.js'
import { live, notice } from './live.js'
import { Readings } from './metrics.js'
import { conditionList } from './overview.js'

export const title = 'Servers and store'

function showServer(what, status, readings) {
  what.set('Version', `${status.version} ${status.commit ? `(${status.commit})` : ''}`)
  what.set('Running for', time(status.upMs))
  what.set('Resident memory', bytes(readings.sum('process_resident_memory_bytes')))
  what.set('Memory for calls', `${bytes(readings.sum('lockstock_memory_held_bytes'))} of ${bytes(readings.sum('lockstock_memory_limit_bytes'))}`)
  what.set('Descriptors', `${number(readings.sum('process_open_fds'))} of ${number(readings.sum('process_max_fds'))}`)
  what.set('CPU', `${number(100 * readings.rate('process_cpu_seconds_total'))} %`)
}

function showStore(what, { store }, readings) {
  const max = readings.sum('lockstock_store_memory_bytes', { kind: 'max' })
  what.set('Kind', `${word(store.kind, 'STORE_KIND_')}${store.cluster ? ', cluster' : ''}`)
  what.set('Redis', store.version || '–')
  what.set('Ready', store.ready ? 'yes' : `no: ${store.reason}`)
  what.set('Persistence', `${word(store.persistence, 'PERSISTENCE_') || 'unknown'}, fsync ${word(store.fsync, 'FSYNC_') || 'unknown'}`)
  what.set('Fails over', store.failsOver ? `yes, waits for ${number(store.waitReplicas)} replicas` : 'no')
  what.set('Sentinels', store.sentinels ? `${number(store.sentinelsAnswering)} of ${number(store.sentinels)} answer` : '–')
  what.set('Memory', `${bytes(readings.sum('lockstock_store_memory_bytes', { kind: 'used' }))}${max ? ` of ${bytes(max)}` : ', no limit'}`)
  what.set('File', bytes(readings.sum('lockstock_store_file_bytes')))
  const free = readings.sum('lockstock_store_disk_free_bytes')
  what.set('Disk free', free === undefined ? 'unknown' : bytes(free))
}

export function open(main) {
  const at = notice()
  const wrong = conditionList()
  const server = facts(['Version', 'Running for', 'Resident memory', 'Memory for calls', 'Descriptors', 'CPU'])
  const store = facts(['Kind', 'Redis', 'Ready', 'Persistence', 'Fails over', 'Sentinels', 'Memory', 'File', 'Disk free'])
  const nodes = table('Nodes of the store', [
    { title: 'Address', cell: (row) => row.address },
    { title: 'Role', cell: (row) => row.role },
    { title: 'Behind', kind: 'time number', cell: (row) => (row.role === 'replica' ? bytes(row.behindBytes) : '') },
    { title: 'Last confirmed', kind: 'time number', cell: (row) => (row.role === 'replica' && row.silentMs !== '-1' ? `${time(row.silentMs)} ago` : '') },
  ], (row) => `${row.role} ${row.address}`, 'The store is not known yet.')
  const readings = new Readings()
  const polled = live(at, async (signal) => {
    const status = await call('AdminService/GetStatus', {}, signal)
    await readings.read(signal)
    wrong.update(status)
    showServer(server, status, readings)
    showStore(store, status, readings)
    nodes.update((status.store.primaries ?? []).flatMap((primary) => [
      { address: primary.address, role: 'primary' },
      ...(primary.replicas ?? []).map((replica) => ({ ...replica, role: 'replica' })),
    ]))
  })

  main.append(at.element, wrong.element, h('h2', {}, 'This server'), server.element, h('h2', {}, 'Its store'), store.element, nodes.element)
  return polled.stop
}
