// console.mjs LOCKSTOCKD LOCKSTOCK: the console in a real browser. Skipped (77) without Chromium or npm's packages.
import assert from 'node:assert'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import zlib from 'node:zlib'
import { Server, axe, digestOf, launch, openPage, signIn } from './world.mjs'

const [lockstockd, lockstock] = process.argv.slice(2)
const HTML = '<img src=x onerror=window.hit=1>'
// Each screen, and a text that it has when its first answers are there.
const screens = {
  '': 'AdminService/GetStatus',
  locks: 'a',
  'locks?group=a&name=a': 'exclusive',
  stock: 'tee',
  'stock?group=tee&sku=tee': 'Proved',
  idempotency: 'Scope',
  limits: 'login',
  servers: 'primary',
  who: 'every service',
  try: 'Call'
}
const browser = await launch()

function shows (page, text, where = 'main') {
  return page.locator(where).getByText(text).first().waitFor()
}

async function close (page) {
  assert.deepStrictEqual(page.wrong, [], 'what the browser complained of')
  await page.context().close()
}

// The text beside a name in a list of facts.
function fact (page, name) {
  return page.locator('dl.facts div').filter({ has: page.locator('dt', { hasText: new RegExp(`^${name}$`) }) }).locator('dd')
}

async function waitForFact (page, name, text) {
  await fact(page, name).filter({ hasText: new RegExp(`^${text}$`) }).waitFor()
}

async function confirm (page, name, reason) {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel(`Type ${name} to confirm`).fill(name)
  if (reason) await dialog.getByLabel('Reason, for the log').fill(reason)
  await dialog.locator('button.danger').click()
}

const tests = {
  async 'a sale is watched to its end while the server is killed' (server) {
    await server.call('StockService/PutItem', { sku: 'phone', onHand: '100' })
    const page = await openPage(browser, `${server.console}#/stock?group=phone&sku=phone`)
    await waitForFact(page, 'Available', '100')
    await shows(page, 'Proved')
    const banner = page.locator('#connection')
    let sold = 0
    await page.evaluate(() => {
      window.moved = []
      const tell = source => `${source.node?.textContent}: ${JSON.stringify([source.previousRect, source.currentRect])}`
      new PerformanceObserver(list => { for (const entry of list.getEntries()) window.moved.push(...entry.sources.map(tell)) }).observe({ type: 'layout-shift' })
    })
    async function buy (i) {
      const answer = await server.callSurely('StockService/Deduct', { orderId: `o${i}`, buyerId: `b${i}`, lines: [{ sku: 'phone', quantity: '1' }] })
      if (answer.outcome === 'DEDUCT_OUTCOME_DEDUCTED') sold++
    }
    for (let wave = 0; wave < 3; wave++) {
      const buyers = Array.from({ length: 60 }, (_, i) => buy(wave * 60 + i))
      await server.kill()
      await banner.filter({ hasText: 'does not answer' }).waitFor()
      await server.start()
      await Promise.all(buyers)
      await banner.waitFor({ state: 'hidden' })
    }
    assert.strictEqual(sold, 100)
    await waitForFact(page, 'Sold', '100')
    await waitForFact(page, 'Oversold', '0')
    await shows(page, '100 initial + 0 adjusted = 0 available + 0 reserved + 100 sold')
    await shows(page, 'the sum of 101 entries of the ledger was what the server said')
    assert.deepStrictEqual(await page.evaluate(() => window.moved), [], 'what moved while it was live')
    await close(page)
  },

  async 'a stuck lock is found and released, and its holder is told' (server) {
    const holder = spawn(lockstock, ['--server', `unix://${server.dir}/socket`, 'run', '--lock', 'jobs/stuck', '--lease', '1h', '--', 'sleep', '1000'], { stdio: 'ignore' })
    const ended = once(holder, 'exit')
    await server.call('LockService/Acquire', { targets: [{ name: 'other' }], token: 'a-token-of-sixteen', leaseMs: '600000' })
    const page = await openPage(browser, `${server.console}#/locks`)
    await page.getByLabel('Names that begin with').fill('jobs/')
    await page.getByRole('link', { name: 'jobs/stuck' }).click()
    await page.getByRole('link', { name: 'other' }).waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Force release' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason, for the log').fill('its host is gone')
    assert(await dialog.locator('button.danger').isDisabled(), 'the name was not typed')
    await confirm(page, 'jobs/stuck', 'its host is gone')
    await shows(page, 'Nobody holds this lock.')
    const [status] = await ended
    assert.strictEqual(status, 120, 'the status of `lockstock run` whose lock was lost')
    assert.match(server.log, /event=audit .*ForceRelease .*name=jobs\/stuck .*owner=\S+ reason="its host is gone"/)
    await close(page)
  },

  async 'the server refuses a principal that may only read' (server) {
    await server.call('LockService/Acquire', { targets: [{ name: 'kept' }], token: 'a-token-of-sixteen', leaseMs: '600000' }, 'writer-token')
    const page = await openPage(browser, `${server.console}#/locks?group=kept&name=kept`)
    await shows(page, 'does not know this caller')
    await signIn(page, 'reader-token')
    await page.getByRole('button', { name: 'reader · default' }).waitFor()
    await shows(page, 'exclusive')
    await page.getByRole('button', { name: 'Force release' }).click()
    await confirm(page, 'kept', 'no')
    await shows(page, 'The server refused', 'dialog')
    await page.keyboard.press('Escape')
    const { holders } = await server.call('LockService/Inspect', { name: 'kept' }, 'writer-token')
    assert.strictEqual(holders.length, 1)
    await page.getByRole('link', { name: 'Who am I' }).click()
    await waitForFact(page, 'Principal', 'reader')
    assert.deepStrictEqual(await page.locator('tbody tr').first().locator('td').allTextContents(), ['LockService', 'yes', 'no', 'no'])
    await page.getByRole('link', { name: 'Overview' }).click()
    await shows(page, 'The server refused')
    await signIn(page, 'writer-token')
    await shows(page, 'Ready: nothing is wrong.')
    await close(page)
  },

  async 'adjusting, changing and deleting ask for the name, and reach the logs' (server) {
    await server.call('StockService/PutItem', { sku: 'tee', onHand: '10' })
    await server.call('RateLimitService/PutPolicy', { name: 'login', limit: { algorithm: 'ALGORITHM_FIXED_WINDOW', limit: '10', periodMs: '60000' } })
    const page = await openPage(browser, `${server.console}#/stock?group=tee&sku=tee`)
    await page.getByRole('button', { name: 'Adjust stock' }).click()
    await page.getByRole('dialog').getByLabel('Units').fill('-3')
    await confirm(page, 'tee', 'three were broken')
    await shows(page, '10 initial − 3 adjusted = 7 available + 0 reserved + 0 sold')
    await shows(page, 'three were broken')
    await page.getByRole('link', { name: 'Limits' }).click()
    await page.getByRole('button', { name: 'Change login' }).click()
    await page.getByRole('dialog').getByLabel('Limit', { exact: true }).fill('20')
    await confirm(page, 'login', 'more logins')
    await shows(page, '20 in 1 min 0 s')
    const check = { rules: [{ policy: 'login', key: 'ann' }] }
    await server.call('RateLimitService/Check', check)
    await page.getByLabel('Policy').fill('login')
    await page.getByLabel('Key', { exact: true }).fill('ann')
    await page.getByRole('button', { name: 'Look' }).click()
    await waitForFact(page, 'Left', '19')
    await page.getByRole('button', { name: 'Delete login' }).click()
    await confirm(page, 'login', 'not used')
    await shows(page, 'No policy is stored.')
    for (const reason of ['more logins', 'not used']) assert(server.log.includes(`reason="${reason}"`), server.log)
    await close(page)
  },

  async 'another namespace has another ledger' (server) {
    await server.call('StockService/PutItem', { sku: 'tee', onHand: '10' })
    await server.call('StockService/PutItem', { sku: 'tee', onHand: '7' }, undefined, 'other')
    const page = await openPage(browser, `${server.console}#/stock?group=tee&sku=tee`)
    await shows(page, '10 initial + 0 adjusted = 10 available')
    await page.click('#caller')
    await page.getByLabel('Namespace').fill('other')
    await page.getByRole('button', { name: 'Use' }).click()
    await shows(page, '7 initial + 0 adjusted = 7 available')
    await shows(page, 'Proved')
    await close(page)
  },

  async 'texts are text: owner, sku, reason, key' (server) {
    await server.call('LockService/Acquire', { targets: [{ name: HTML }], token: 'a-token-of-sixteen', owner: HTML, leaseMs: '600000' })
    await server.call('StockService/PutItem', { sku: HTML, onHand: '5' })
    await server.call('StockService/Adjust', { sku: HTML, delta: '1', adjustmentId: 'a1', reason: HTML })
    await server.call('GuardService/Enter', { group: HTML, once: { scope: HTML, key: HTML }, token: 'another-of-sixteen', leaseMs: '600000' })
    const page = await openPage(browser, `${server.console}#/locks?${new URLSearchParams({ group: HTML, name: HTML })}`)
    await shows(page, HTML, 'td')
    for (const [name, key, first] of [['stock', 'group', 'sku'], ['idempotency', 'scope', 'key']]) {
      await page.goto(`${server.console}#/${name}?${new URLSearchParams({ group: HTML, [key]: HTML, [first]: HTML })}`)
      await waitForFact(page, name === 'stock' ? 'Available' : 'State', name === 'stock' ? '6' : 'in progress')
    }
    await page.goto(`${server.console}#/stock?${new URLSearchParams({ group: HTML, sku: HTML })}`)
    await shows(page, HTML, 'td')
    assert.strictEqual(await page.evaluate(() => window.hit), undefined)
    assert.strictEqual(await page.locator('main img').count(), 0)
    await close(page)
  },

  async 'lists are shown in pages' (server) {
    for (let i = 0; i < 120; i += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, n) => server.call('LockService/Acquire', { targets: [{ name: `many/${i + n}` }], token: `a-token-of-many-${i + n}`, leaseMs: '600000' })))
    }
    const page = await openPage(browser, `${server.console}#/locks?prefix=many/`)
    const seen = new Set()
    const next = page.getByRole('button', { name: 'Next page' })
    for (;;) {
      await page.locator('main tbody tr').first().waitFor()
      const names = await page.locator('main tbody tr td:first-child').allTextContents()
      assert(names.length < 100, `${names.length} rows`)
      for (const name of names) seen.add(name)
      if (await next.isDisabled()) break
      const answered = page.waitForResponse(/LockService\/List/)
      await next.click()
      await answered
      await page.locator('main tbody tr td:first-child').filter({ hasText: names[0] }).first().waitFor({ state: 'detached' })
    }
    assert.strictEqual(seen.size, 120)
    await close(page)
  },

  async 'a form of any method: a read is called, a write is confirmed' (server) {
    const page = await openPage(browser, `${server.console}#/try?method=StockService/PutItem`)
    await page.getByLabel('sku', { exact: true }).fill("o'clock")
    await page.getByLabel('on_hand').fill('4')
    await shows(page, `lockstock stock put-item --json='{"sku":"o'\\''clock","onHand":"4"}'`)
    await page.getByRole('button', { name: 'Call' }).click()
    await confirm(page, 'PutItem')
    await shows(page, '"available": "4"')
    await page.getByLabel('Method').selectOption('StockService/BatchGetItems')
    await page.getByLabel('group').fill("o'clock")
    await page.getByLabel('skus 1').fill("o'clock")
    await page.getByRole('button', { name: 'Call' }).click()
    await shows(page, '"items"')
    await page.getByLabel('Method').selectOption('LockService/Acquire')
    await page.getByLabel('lease_ms').fill('x')
    await page.getByRole('button', { name: 'Call' }).click()
    await confirm(page, 'Acquire')
    await shows(page, 'lease_ms', 'dialog .notice')
    await close(page)
  },

  async 'the keyboard is enough, and a dialog gives the focus back' (server) {
    await server.call('LockService/Acquire', { targets: [{ name: 'a' }], token: 'a-token-of-sixteen', leaseMs: '600000' })
    const page = await openPage(browser, server.console)
    await page.keyboard.press('Tab')
    assert.strictEqual(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content')
    const focus = async text => {
      for (let i = 0; i < 40; i++) {
        if (await page.evaluate(() => document.activeElement.textContent) === text) return
        await page.keyboard.press('Tab')
      }
      assert.fail(`no ${text} by Tab`)
    }
    await focus('Locks')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'a', exact: true }).waitFor()
    await focus('a')
    await page.keyboard.press('Enter')
    await page.locator('button.danger:enabled').waitFor()
    await focus('Force release')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    assert.strictEqual(await page.evaluate(() => document.activeElement.textContent), 'Force release')
    await close(page)
  },

  async 'every screen: no serious finding of axe, no sideways scrolling on a phone, light and dark' (server) {
    await server.call('StockService/PutItem', { sku: 'tee', onHand: '10' })
    await server.call('LockService/Acquire', { targets: [{ name: 'a' }], token: 'a-token-of-sixteen', leaseMs: '600000' })
    await server.call('RateLimitService/PutPolicy', { name: 'login', limit: { algorithm: 'ALGORITHM_FIXED_WINDOW', limit: '10', periodMs: '60000' } })
    for (const options of [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { colorScheme: 'light', viewport: { width: 360, height: 740 } }]) {
      const page = await openPage(browser, server.console, options)
      await page.evaluate(axe.source)
      for (const [screen, text] of Object.entries(screens)) {
        await page.evaluate(hash => { location.hash = hash }, `#/${screen}`)
        await shows(page, text)
        const { violations } = await page.evaluate(() => window.axe.run())
        const serious = violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => [v.id, v.nodes.map(n => n.html)])
        assert.deepStrictEqual(serious, [], `${screen} ${JSON.stringify(options)}`)
        const width = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth)
        assert(width <= 0, `${screen} is ${width} px too wide`)
      }
      await close(page)
    }
  },

  async 'the page is small, is served to links of other sites, and needs --console' (server) {
    const names = fs.readdirSync(fileURLToPath(new URL('../../console', import.meta.url))).filter(name => /\.(html|js|css|svg)$/.test(name))
    let whole = 0
    for (const name of [...names.map(name => name.replace('index.html', '')), 'contract.binpb']) {
      const response = await fetch(`${server.url}/console/${name}`, { headers: { 'sec-fetch-site': 'cross-site' } })
      assert.strictEqual(response.status, 200, name)
      assert.match(response.headers.get('content-security-policy'), /default-src 'none'; .*frame-ancestors 'none'/)
      assert.strictEqual(response.headers.get('x-content-type-options'), 'nosniff')
      whole += zlib.gzipSync(Buffer.from(await response.arrayBuffer())).length
    }
    assert(whole < 60000, `${whole} bytes`)
    const moved = await fetch(`${server.url}/console`, { redirect: 'manual' })
    assert.deepStrictEqual([moved.status, moved.headers.get('location')], [308, '/console/'])
    const call = await fetch(`${server.url}/lockstock.v1.AdminService/WhoAmI`, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json', 'sec-fetch-site': 'cross-site' } })
    assert.strictEqual(call.status, 403)
    await server.kill()
    await server.start('--console=false')
    assert.strictEqual((await fetch(`${server.url}/console/`)).status, 404)
  }
}

const wanted = process.argv[4]
for (const [name, test] of Object.entries(tests)) {
  if (wanted && !name.includes(wanted)) continue
  const server = new Server(lockstockd)
  if (name.includes('principal')) {
    fs.writeFileSync(`${server.dir}/policy`, '[reader]\nLockService = READ\nStockService = READ\n[writer]\n* = READ, WRITE, ADMIN\n')
    fs.writeFileSync(`${server.dir}/tokens`, `${digestOf('reader-token')} reader\n${digestOf('writer-token')} writer\n`)
    server.flags.push('--policy', `${server.dir}/policy`, '--tokens', `${server.dir}/tokens`)
  }
  try {
    await (await server.start(), test(server))
    console.log(`ok: ${name}`)
  } catch (error) {
    console.log(`failed: ${name}: ${error.stack}`)
    process.exitCode = 1
  }
  for (const context of browser.contexts()) await context.close()
  await server.stop()
}
await browser.close()
