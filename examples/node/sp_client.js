#!/usr/bin/env node
'use strict'
// lockstock over SP (tcp://):  sp_client.js HOST:PORT
//
// The bytes: a handshake, then messages
//   length of the rest, 8 bytes big-endian | request id, 4 bytes, highest bit set | Frame or Reply
// Frame and Reply are proto/lockstock/rpc/v1/envelope.proto.
const net = require('net')
const path = require('path')
const protobuf = require('protobufjs')

const root = new protobuf.Root()
root.resolvePath = (origin, target) => target.startsWith('google/')
  ? require.resolve('protobufjs/' + target)
  : path.join(__dirname, '../../proto', target)
root.loadSync(['lock', 'stock', 'ratelimit'].map(name => `lockstock/v1/${name}.proto`)
  .concat('lockstock/rpc/v1/envelope.proto'))
const Frame = root.lookupType('lockstock.rpc.v1.Frame')
const Reply = root.lookupType('lockstock.rpc.v1.Reply')

const REQ = Buffer.from([0, 0x53, 0x50, 0, 0, 0x30, 0, 0])
const REP = Buffer.from([0, 0x53, 0x50, 0, 0, 0x31, 0, 0])
const CODES = { 3: 'INVALID_ARGUMENT', 8: 'RESOURCE_EXHAUSTED', 14: 'UNAVAILABLE' }
const APPLIED = ['MAYBE', 'YES', 'NO', 'MAYBE']

function failed (result) {
  return Object.assign(new Error(result.message), {
    code: CODES[result.code] || result.code,
    applied: APPLIED[result.applied],
    fields: result.code === 3 ? [result.message.split(':')[0]] : [],
    retryAfterMs: result.retryAfterMs
  })
}

// Several calls may run at a time; their answers come in any order.
function connect (address) {
  const [, host, port] = address.match(/(.*):(\d+)$/)
  const socket = net.connect({ host, port, noDelay: true })
  const waiting = new Map()
  let data = Buffer.alloc(0)
  let handshakeDone = false
  let lastId = Math.floor(Math.random() * 0x7fffffff)

  function take (reply) {
    const { resolve, reject, type } = waiting.get(reply.readUInt32BE(0)) || {}
    waiting.delete(reply.readUInt32BE(0))
    if (!resolve) return
    const [result] = Reply.decode(reply.subarray(4)).results
    if (result.code) reject(failed(result))
    else resolve(type.toObject(type.decode(result.payload), { longs: String, enums: String, defaults: true }))
  }

  socket.write(REQ)
  socket.on('data', chunk => {
    data = Buffer.concat([data, chunk])
    if (!handshakeDone && data.length >= 8) {
      if (!data.subarray(0, 8).equals(REP)) return socket.destroy(new Error('this is not a lockstock server'))
      handshakeDone = true
      data = data.subarray(8)
    }
    while (handshakeDone && data.length >= 8 && data.length >= 8 + Number(data.readBigUInt64BE(0))) {
      const end = 8 + Number(data.readBigUInt64BE(0))
      take(data.subarray(8, end))
      data = data.subarray(end)
    }
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    for (const { reject } of waiting.values()) {
      reject(Object.assign(new Error('the server is gone'), { code: 'UNAVAILABLE', applied: 'MAYBE', fields: [] }))
    }
  })

  function call (method, request) {
    const [service, name] = method.split('/')
    const described = root.lookupService('lockstock.v1.' + service).methods[name].resolve()
    const request_ = described.resolvedRequestType
    const payload = request_.encode(request_.fromObject(request)).finish()
    const frame = Frame.encode({ calls: [{ method: '/lockstock.v1.' + method, payload, timeoutMs: 5000 }] }).finish()
    const head = Buffer.alloc(12)
    lastId = (lastId + 1) & 0x7fffffff
    head.writeBigUInt64BE(BigInt(4 + frame.length))
    head.writeUInt32BE((lastId | 0x80000000) >>> 0, 8)
    return new Promise((resolve, reject) => {
      waiting.set((lastId | 0x80000000) >>> 0, { resolve, reject, type: described.resolvedResponseType })
      socket.write(Buffer.concat([head, frame]))
    })
  }
  return { call, close: () => socket.end() }
}

const client = connect(process.argv[2])
require('./calls')(client.call).finally(client.close)
