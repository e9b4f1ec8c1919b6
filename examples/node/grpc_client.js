#!/usr/bin/env node
'use strict'
// lockstock over gRPC:  grpc_client.js HOST:PORT
const path = require('path')
const grpc = require('@grpc/grpc-js')
const loader = require('@grpc/proto-loader')
const protobuf = require('protobufjs')

const files = ['lock', 'stock', 'ratelimit'].map(name => `lockstock/v1/${name}.proto`)
const includeDirs = [path.join(__dirname, '../../proto')]
// 64-bit numbers as strings: a fence is below 2^53 and fits a Number, but others may not.
const contract = grpc.loadPackageDefinition(
  loader.loadSync(files, { includeDirs, longs: String, enums: String, defaults: true })).lockstock.v1

// google.rpc.Status and the details of lockstock that this program reads.
const rpc = protobuf.parse(`syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message BadRequest { message Violation { string field = 1; string description = 2; } repeated Violation violations = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message RetryInfo { Duration retry_delay = 1; }`).root

function explained (error) {
  const [applied] = error.metadata.get('lockstock-applied')
  const [details] = error.metadata.get('grpc-status-details-bin')
  const fields = []
  let retryAfterMs = 0
  for (const { typeUrl, value } of details ? rpc.lookupType('Status').decode(details).details : []) {
    if (typeUrl.endsWith('/google.rpc.BadRequest')) {
      fields.push(...rpc.lookupType('BadRequest').decode(value).violations.map(v => v.field))
    } else if (typeUrl.endsWith('/google.rpc.RetryInfo')) {
      const delay = rpc.lookupType('RetryInfo').decode(value).retryDelay
      retryAfterMs = Number(delay.seconds) * 1000 + delay.nanos / 1e6
    }
  }
  return Object.assign(error, { code: grpc.status[error.code], applied: applied || 'MAYBE', fields, retryAfterMs })
}

const stubs = {}
function call (method, request) {
  const [service, name] = method.split('/')
  stubs[service] ||= new contract[service](process.argv[2], grpc.credentials.createInsecure())
  return new Promise((resolve, reject) => {
    stubs[service][name](request, { deadline: Date.now() + 5000 },
      (error, response) => error ? reject(explained(error)) : resolve(response))
  })
}

require('./calls')(call).finally(() => Object.values(stubs).forEach(stub => stub.close()))
