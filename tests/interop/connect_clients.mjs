// connect_clients.mjs LOCKSTOCKD SOURCE_DIR: clients of Connect, gRPC-Web and gRPC that are not ours, unmodified, against
// http://: @connectrpc/connect-node and -web with code of protoc-gen-es, and buf curl. Skipped (77) without npm's
// packages.
import assert from 'node:assert'
import { execFileSync, spawn } from 'node:child_process'
import { setMaxListeners } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import readline from 'node:readline'
import { pathToFileURL } from 'node:url'

const [lockstockd, source] = process.argv.slice(2)
const proto = path.join(source, 'proto')
let connect, node, web
try {
  connect = await import('@connectrpc/connect')
  node = await import('@connectrpc/connect-node')
  web = await import('@connectrpc/connect-web')
} catch {
  console.log("skipped: needs npm's packages: npm install, in the source directory")
  process.exit(77)
}
const { Code, ConnectError, createClient } = connect
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'connect-'))
const bin = name => path.join(source, 'node_modules/.bin', name)

async function generate () {
  fs.symlinkSync(path.join(source, 'node_modules'), path.join(dir, 'node_modules'))
  fs.writeFileSync(path.join(dir, 'package.json'), '{"type":"module"}')
  const files = fs.readdirSync(path.join(proto, 'lockstock/v1')).map(name => `lockstock/v1/${name}`)
  execFileSync('protoc', ['-I', proto, `--plugin=protoc-gen-es=${bin('protoc-gen-es')}`, `--es_out=${dir}`,
    '--es_opt=target=js,import_extension=js', 'lockstock/rpc/v1/options.proto', ...files])
  const load = name => import(pathToFileURL(path.join(dir, `lockstock/v1/${name}_pb.js`)))
  return { stock: (await load('stock')).StockService, lock: (await load('lock')).LockService }
}

async function start () {
  const server = spawn(lockstockd, ['--listen', 'http://127.0.0.1:0', '--store', `embedded:${dir}/data`],
    { stdio: ['ignore', 'ignore', 'pipe'] })
  let url
  for await (const line of readline.createInterface({ input: server.stderr })) {
    url = /event=listening url=(\S+)/.exec(line)?.[1] ?? url
    if (/event=ready\b/.test(line)) {
      server.stderr.resume()
      return { server, url }
    }
  }
  throw new Error('lockstockd did not start')
}

async function fails (code, promise) {
  const error = await promise.then(() => assert.fail('it did not fail'), e => e)
  assert(error instanceof ConnectError, String(error))
  assert.strictEqual(Code[error.code], Code[code])
  return error
}

async function calls (services, transport, name) {
  const stock = createClient(services.stock, transport)
  const lock = createClient(services.lock, transport)
  const lines = [{ sku: name, quantity: 1n }]
  await stock.putItem({ sku: name, onHand: 500n })
  assert.strictEqual((await stock.deduct({ orderId: `${name}-1`, lines })).outcome, 1)
  let trailers
  const again = await stock.deduct({ orderId: `${name}-1`, lines },
    { onHeader: h => { trailers ??= h }, onTrailer: t => { if (t.has('lockstock-replayed')) trailers = t } })
  assert.strictEqual(again.replayed, true)
  assert.strictEqual(trailers.get('lockstock-replayed'), 'true')
  assert.strictEqual((await stock.getItem({ sku: name })).item.available, 499n)

  const error = await fails(Code.InvalidArgument, stock.deduct({ orderId: '', lines }))
  assert.match(error.message, /order_id/)
  assert.deepStrictEqual(error.details.map(d => d.type), ['google.rpc.BadRequest', 'google.rpc.ErrorInfo'])
  assert.strictEqual(error.metadata.get('lockstock-applied'), 'NO')
  await fails(Code.NotFound, stock.getItem({ sku: 'no such thing' }))

  const target = token => ({ targets: [{ name }], token: token.repeat(20), owner: token, leaseMs: 60000n })
  await lock.acquire(target('a'))
  // The server ends the wait before the deadline; on a busy machine the client may be first.
  const late = await lock.acquire({ ...target('b'), waitMs: 60000n }, { timeoutMs: 300 }).catch(error => error)
  assert(late.outcome === 3 || late.code === Code.DeadlineExceeded, String(late))
  const gone = new AbortController()
  const waits = fails(Code.Canceled, lock.acquire({ ...target('c'), waitMs: 60000n }, { signal: gone.signal }))
  gone.abort()
  await waits
  await lock.release({ names: [name], token: 'a'.repeat(20) })
  assert.strictEqual((await lock.acquire({ ...target('d'), waitMs: 60000n })).outcome, 1)
}

function bufCurl (url, protocol, method, message, ...more) {
  return JSON.parse(execFileSync(bin('buf'), ['curl', '--schema', proto, '--protocol', protocol, ...more, '-d',
    JSON.stringify(message), `${url}/lockstock.v1.StockService/${method}`], { encoding: 'utf8' }))
}

// HTTP/2 with more fields than a call may have: the answer is one of HTTP, not of gRPC.
async function tooManyFields (url) {
  const { connect: open } = await import('node:http2')
  const session = open(url)
  const request = session.request({ ':method': 'POST', ':path': '/lockstock.v1.StockService/GetItem', 'content-type': 'application/json',
    ...Object.fromEntries([...Array(9).keys()].map(i => [`x-${i}`, 'x'.repeat(2000)])) })
  request.end('{}')
  const status = await new Promise((resolve, reject) => request.on('response', fields => resolve(fields[':status'])).on('error', reject))
  assert.strictEqual(status, 431)
  session.destroy()
}

const metric = async (url, name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())[1])

// A call that waits holds no memory of its request.
async function waitsAreSmall (services, transport, url) {
  const lock = createClient(services.lock, transport)
  const N = 50
  const take = i => ({ targets: [{ name: 'small' }], token: `w${i}`.padEnd(20, '-'), owner: 'w', leaseMs: 60000n })
  await lock.acquire(take('a'))
  const before = await metric(url, 'lockstock_memory_held_bytes')
  const gone = new AbortController()
  setMaxListeners(N, gone.signal)
  const waits = [...Array(N).keys()].map(i => lock.acquire({ ...take(i), waitMs: 60000n }, { signal: gone.signal }).catch(() => {}))
  while (await metric(url, 'lockstock_calls{state="waiting"}'.replace(/[{}]/g, '\\$&')) < N) ;
  const held = (await metric(url, 'lockstock_memory_held_bytes') - before) / N
  assert(held < 2048, `${held} bytes`)
  gone.abort()
  await Promise.all(waits)
}

const services = await generate()
const { server, url: baseUrl } = await start()
try {
  const h1 = { baseUrl, httpVersion: '1.1' }
  const h2 = { baseUrl, httpVersion: '2' }
  const transports = {
    'connect, JSON, HTTP/1.1': node.createConnectTransport({ ...h1, useBinaryFormat: false }),
    'connect, HTTP/1.1, gzip': node.createConnectTransport({ ...h1, sendCompression: node.compressionGzip, compressMinBytes: 1 }),
    'connect, HTTP/2, GET': node.createConnectTransport({ ...h2, useHttpGet: true }),
    'gRPC-Web, HTTP/1.1': node.createGrpcWebTransport(h1),
    'gRPC-Web, JSON, HTTP/2': node.createGrpcWebTransport({ ...h2, useBinaryFormat: false }),
    gRPC: node.createGrpcTransport(h2),
    'connect-web, GET': web.createConnectTransport({ baseUrl, useHttpGet: true }),
    'connect-web, gRPC-Web': web.createGrpcWebTransport({ baseUrl })
  }
  for (const [name, transport] of Object.entries(transports)) {
    await calls(services, transport, name)
    console.log(name)
  }
  for (const [protocol, ...more] of [['connect'], ['grpcweb'], ['grpc', '--http2-prior-knowledge'], ['connect', '--http2-prior-knowledge']]) {
    bufCurl(baseUrl, protocol, 'PutItem', { sku: 'curl', onHand: 5 }, ...more)
    assert.strictEqual(bufCurl(baseUrl, protocol, 'GetItem', { sku: 'curl' }, ...more).item.available, '5')
    console.log('buf curl', protocol, ...more)
  }
  await tooManyFields(baseUrl)
  await waitsAreSmall(services, transports['connect, HTTP/2, GET'], baseUrl)
} finally {
  server.kill()
  fs.rmSync(dir, { recursive: true, force: true })
}
process.exit(0)
