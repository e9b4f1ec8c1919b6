// show.mjs LOCKSTOCKD SHOW CLIENT: the page of ./run.sh show in a real browser. Nothing is said of how often the naive shop
// oversells. Skipped (77) without Chromium or npm's packages.
import assert from 'node:assert'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import readline from 'node:readline'
import { launch, openPage } from './world.mjs'

const [lockstockd, show, client] = process.argv.slice(2)
const browser = await launch()
const player = spawn('/usr/bin/python3', ['-B', show, '--lockstockd', lockstockd, '--client', client, '--lines', '--seconds', '12', '--buyers', '960', '--phones', '750'],
  { stdio: ['ignore', 'pipe', 'inherit'] })
const ended = once(player, 'exit')
const url = await new Promise(resolve => readline.createInterface({ input: player.stdout }).on('line', line => {
  console.log(line)
  const found = /page: (\S+)/.exec(line)
  if (found) resolve(found[1])
}))

const page = await openPage(browser, url)
await page.getByText('960 buyers want one of 750 phones').waitFor()
await page.locator('.verdict.danger').filter({ hasText: /\d+ (sold twice|oversold)/ }).waitFor()
await page.getByRole('button', { name: 'Kill a server' }).click()
await page.locator('#news').getByText(/kill -9 of server|is down already/).first().waitFor()
let shop
while (!shop) { // a server that was killed is away for a moment
  shop = await openPage(browser, await page.getByRole('link', { name: 'the console' }).getAttribute('href')).catch(error => {
    if (!/ERR_CONNECTION_REFUSED/.test(error.message)) throw error
  })
}
await shop.getByText('750 initial').waitFor()
const other = new URL('../0000000000000000/', url)
assert.strictEqual((await fetch(other)).status, 404)
assert.strictEqual((await fetch(new URL('press/s', other), { method: 'POST' })).status, 404)
await page.locator('#caption').filter({ hasText: /By hand: .* lockstock is exact: 750 sold by its item/ }).waitFor({ timeout: 120000 })
const cells = await page.locator('#rows tr td:last-child').allTextContents()
assert.deepStrictEqual(cells.slice(0, 2), ['750', '210'], 'bought, and told sold out')
assert.deepStrictEqual([...page.wrong, ...shop.wrong], [], 'what the browser complained of')
await browser.close()
assert.deepStrictEqual((await ended)[0], 0)
console.log('ok')
