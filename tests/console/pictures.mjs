// node tests/console/pictures.mjs LOCKSTOCKD: makes docs/pictures, of a sale under way and of a lock that others wait for.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { Server, launch, openPage } from './world.mjs'

const pictures = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../docs/pictures')
const SALE = '#/stock?group=phone&sku=phone'
const LOCK = '#/locks?group=nightly-report&name=nightly-report'
const wanted = [
  ['stock-light', SALE, { colorScheme: 'light', viewport: { width: 1200, height: 860 } }],
  ['locks-dark', LOCK, { colorScheme: 'dark', viewport: { width: 1200, height: 620 } }],
  ['stock-phone', SALE, { colorScheme: 'light', viewport: { width: 390, height: 844 } }]
]

const server = await new Server(process.argv[2]).start()
const acquire = (name, owner, more) => server.call('LockService/Acquire', { targets: [{ name }], token: `token-of-${owner}-of-${name}`.slice(0, 64), owner, leaseMs: '1800000', ...more })
for (const [sku, onHand] of [['phone', '4000'], ['headphones', '250'], ['charger', '1200'], ['case', '80']]) await server.call('StockService/PutItem', { sku, onHand })
await server.call('StockService/Deduct', { orderId: 'c1', buyerId: 'b', lines: [{ sku: 'case', quantity: '41' }] })
await server.call('StockService/Adjust', { sku: 'phone', delta: '-12', adjustmentId: 'a1', reason: 'twelve were broken' })
for (const [name, owner] of [['nightly-report', 'worker-7'], ['cache-warm', 'worker-2'], ['invoices/2026-11', 'billing-1']]) await acquire(name, owner)
const waiting = ['worker-3', 'worker-9', 'worker-12'].map(owner => acquire('nightly-report', owner, { waitMs: '600000' }).catch(() => {}))

let open = true
async function buy (buyer) {
  for (let i = 0; open; i++) {
    const reserves = i % 9 === 0
    const order = { orderId: `order-${buyer}-${i}`, buyerId: `buyer-${buyer}`, lines: [{ sku: 'phone', quantity: '1' }] }
    await server.call(reserves ? 'StockService/Reserve' : 'StockService/Deduct', reserves ? { ...order, holdMs: '600000' } : order).catch(() => {})
    await new Promise(resolve => setTimeout(resolve, 15 + 5 * Math.sin(i / 20)))
  }
}
const buyers = [1, 2, 3, 4].map(buy)
const browser = await launch()
fs.mkdirSync(pictures, { recursive: true })
const pages = await Promise.all(wanted.map(([, hash, options]) => openPage(browser, server.console + hash, options)))
await new Promise(resolve => setTimeout(resolve, 12000)) // what a picture of twelve seconds shows
for (const [i, [name]] of wanted.entries()) await pages[i].screenshot({ path: path.join(pictures, `${name}.png`) })
open = false
await Promise.all(buyers)
await browser.close()
await server.stop()
await Promise.all(waiting)
