// A lockstockd with the console, and a Chromium that opens it. Tests and pictures use it.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import readline from 'node:readline'

const chromium = '/usr/bin/chromium'
let playwright, axe
try {
  playwright = await import('playwright-core')
  axe = (await import('axe-core')).default
  fs.accessSync(chromium, fs.constants.X_OK)
} catch {
  console.log("skipped: needs the package chromium, and npm's packages: npm install, in the source directory")
  process.exit(77)
}
export { axe }

// An unused port, so that a server can come back at the same address.
async function freePort () {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

export class Server {
  constructor (lockstockd, ...flags) {
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'console-'))
    Object.assign(this, { lockstockd, flags, log: '' })
  }

  async start (flag = '--console') {
    this.port ??= await freePort()
    this.url = `http://127.0.0.1:${this.port}`
    this.console = `${this.url}/console/`
    this.process = spawn(this.lockstockd, [flag, '--listen', `${this.url},unix://${this.dir}/socket`, '--store', `embedded:${this.dir}/data`,
      ...this.flags], { stdio: ['ignore', 'ignore', 'pipe'] })
    const lines = readline.createInterface({ input: this.process.stderr })
    await new Promise((resolve, reject) => {
      lines.on('line', line => {
        this.log += `${line}\n`
        if (/event=ready\b/.test(line)) resolve()
      })
      lines.on('close', () => reject(new Error(`lockstockd ended: ${this.log}`)))
    })
    return this
  }

  async kill () {
    const ended = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await ended
  }

  async stop () {
    const ended = once(this.process, 'exit')
    this.process.kill('SIGTERM')
    await ended
    fs.rmSync(this.dir, { recursive: true })
  }

  async call (method, request, token, namespace) {
    const headers = {
      'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }), ...(namespace && { 'lockstock-namespace': namespace })
    }
    const response = await fetch(`${this.url}/lockstock.v1.${method}`, { method: 'POST', body: JSON.stringify(request), headers })
    const answer = await response.json()
    if (!response.ok) throw new Error(`${method}: ${answer.message}`)
    return answer
  }

  // Calls until there is an answer: the server may be gone for a while.
  async callSurely (method, request) {
    for (;;) {
      try {
        return await this.call(method, request)
      } catch (error) {
        if (error.message !== 'fetch failed' && !/store is|shutting down/.test(error.message)) throw error
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
  }
}

export function digestOf (token) {
  return execFileSync('openssl', ['dgst', '-sha256', '-r'], { input: token }).toString().slice(0, 64)
}

export async function launch () {
  return playwright.chromium.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-dev-shm-usage'] }) // it sees our pages only
}

// A page. page.wrong has the errors that the browser reported, except requests that the server refused
// or did not answer.
export async function openPage (browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(30000)
  page.wrong = []
  page.on('pageerror', error => page.wrong.push(error.message))
  page.on('console', message => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.wrong.push(message.text())
  })
  await page.addInitScript(() => addEventListener('securitypolicyviolation', event => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)))
  await page.goto(url)
  return page
}

export async function signIn (page, token) {
  await page.click('#caller')
  await page.getByLabel('Token').fill(token)
  await page.getByRole('button', { name: 'Use' }).click()
}
