#!/usr/bin/env node
'use strict'
// gRPC's unary interoperability cases with @grpc/grpc-js against a host (promise GC13):
// interop_grpc_js.js INTEROP_HOST PROTO_DIR. Skipped (77) without npm's packages.
const assert = require('assert')
const { spawn } = require('child_process')
const readline = require('readline')
let grpc, loader
try {
  grpc = require('@grpc/grpc-js')
  loader = require('@grpc/proto-loader')
} catch {
  console.log("skipped: needs npm's packages: npm install, in the source directory")
  process.exit(77)
}
const [host, protos] = process.argv.slice(2)
const LIMIT_MS = 60000
const SPECIAL = '\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \u{1f608}\t\n'
const { TestService, UnimplementedService } = grpc.loadPackageDefinition(
  loader.loadSync('grpc/testing/unary.proto', { includeDirs: [protos], defaults: true })).grpc.testing
const held = new grpc.Metadata()
held.set('x-hold', '1')

// `begun` sees the call, to cancel it.
function call (client, method, request, { metadata = new grpc.Metadata(), ms = LIMIT_MS, begun = () => {} } = {}) {
  return new Promise((resolve, reject) => {
    begun(client[method](request, metadata, { deadline: Date.now() + ms },
      (error, response) => error ? reject(error) : resolve(response)))
  })
}

const cases = {
  async empty_unary (client) {
    assert.deepStrictEqual({ ...await call(client, 'emptyCall', {}) }, {})
  },
  async large_unary (client) {
    const { payload } = await call(client, 'unaryCall', { responseSize: 314159, payload: { body: Buffer.alloc(271828) } })
    assert.strictEqual(payload.body.length, 314159)
  },
  async cacheable_unary (client) {
    const first = await call(client, 'cacheableUnaryCall', { responseSize: 3 })
    assert.deepStrictEqual(await call(client, 'cacheableUnaryCall', { responseSize: 3 }), first)
  },
  async custom_metadata (client) {
    const metadata = new grpc.Metadata()
    const seen = []
    metadata.set('x-grpc-test-echo-initial', 'test_initial_metadata_value')
    metadata.set('x-grpc-test-echo-trailing-bin', Buffer.from([0xab, 0xab, 0xab]))
    const status = new Promise(resolve => {
      call(client, 'unaryCall', {}, {
        metadata,
        begun: c => {
          c.on('metadata', m => seen.push(...m.get('x-grpc-test-echo-initial')))
          c.on('status', resolve)
        }
      })
    })
    assert.deepStrictEqual((await status).metadata.get('x-grpc-test-echo-trailing-bin'), [Buffer.from([0xab, 0xab, 0xab])])
    assert.deepStrictEqual(seen, ['test_initial_metadata_value'])
  },
  async status_code_and_message (client) {
    for (const message of ['test status message', SPECIAL]) {
      await assert.rejects(call(client, 'unaryCall', { responseStatus: { code: 2, message } }),
        { code: grpc.status.UNKNOWN, details: message })
    }
  },
  async unimplemented (client, other) {
    for (const c of [client, other]) {
      await assert.rejects(call(c, 'unimplementedCall', {}), { code: grpc.status.UNIMPLEMENTED })
    }
  },
  async timeout_on_sleeping_server (client) {
    await assert.rejects(call(client, 'emptyCall', {}, { metadata: held, ms: 200 }), { code: grpc.status.DEADLINE_EXCEEDED })
  },
  async cancel_after_begin (client) {
    await assert.rejects(call(client, 'emptyCall', {}, { metadata: held, begun: c => c.cancel() }),
      { code: grpc.status.CANCELLED })
  }
}

async function main () {
  const process_ = spawn(host, ['grpc://127.0.0.1:0'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise(resolve => process_.on('exit', resolve))
  const port = await new Promise(resolve => readline.createInterface(process_.stdout).once('line', resolve))
  const clients = [TestService, UnimplementedService].map(
    Service => new Service(`127.0.0.1:${port}`, grpc.credentials.createInsecure()))
  try {
    for (const [name, run] of Object.entries(cases)) {
      await run(...clients)
      console.log(`${name}: passed`)
    }
  } finally {
    clients.forEach(client => client.close())
    process_.stdin.end()
  }
  assert.strictEqual(await ended, 0)
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
