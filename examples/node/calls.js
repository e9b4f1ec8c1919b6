'use strict'
// The calls of both clients. `call(method, request)` returns the response, or throws an error with code, applied, fields and
// retryAfterMs.
const crypto = require('crypto')

const token = () => crypto.randomBytes(16).toString('hex')

async function lock (call) {
  const targets = [{ name: 'printer' }]
  const held = await call('LockService/Acquire', { targets, token: token(), owner: 'me', leaseMs: 10000 })
  console.log(held.outcome === 'ACQUIRE_OUTCOME_ACQUIRED' ? 'lock: mine' : 'lock: taken')
  const other = await call('LockService/Acquire', { targets, token: token(), leaseMs: 10000 })
  console.log('lock: taken by', other.holder.owner)
  const lease = { group: held.group, token: held.token, leaseMs: 20000 }
  const renewed = await call('LockService/Renew', { leases: [lease] })
  console.log(renewed.results[0].outcome === 'RENEW_OUTCOME_RENEWED' ? 'lock: renewed' : 'lock: lost')
  const released = await call('LockService/Release', { group: held.group, token: held.token })
  console.log(released.outcome === 'RELEASE_OUTCOME_RELEASED' ? 'lock: released' : 'lock: was not held')
}

// The order's id makes it safe to send again: the first answer comes back.
async function buy (call) {
  await call('StockService/PutItem', { sku: 'phone', onHand: 10 })
  for (let i = 0; i < 2; i++) {
    const sold = await call('StockService/Deduct', { orderId: 'order-1', lines: [{ sku: 'phone', quantity: 1 }] })
    console.log(`order-1: sold${sold.replayed ? ' before' : ''}, ${sold.lines[0].available} left`)
  }
}

async function limit (call) {
  const twoAnHour = { algorithm: 'ALGORITHM_FIXED_WINDOW', limit: 2, periodMs: 3600000 }
  for (let i = 0; i < 3; i++) {
    const answer = await call('RateLimitService/Check', { rules: [{ limit: twoAnHour, key: 'alice' }] })
    const allowed = answer.outcome === 'CHECK_OUTCOME_ALLOWED'
    console.log(allowed ? `limit: go on, ${answer.rules[0].remaining} left` : 'limit: too often')
  }
}

// applied NO: nothing was changed. MAYBE: send the same call again, with the same id.
async function fail (call) {
  try {
    await call('StockService/Deduct', { orderId: 'order-2', lines: [{ sku: 'phone', quantity: 0 }] })
  } catch (error) {
    console.log(`error: ${error.code}, applied ${error.applied}, ${error.fields.join(', ')}`)
    if (error.retryAfterMs) console.log(`try again in ${error.retryAfterMs} ms`)
  }
}

module.exports = async function calls (call) {
  for (const step of [lock, buy, limit, fail]) await step(call)
}
