// The metrics of the server: Prometheus' text as numbers, and how fast counters grow.
import { readText } from './api.js'

export function parse(text) {
  const samples = []
  for (const [, name, labels, value] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
    const of = {}
    for (const [, key, quoted] of (labels ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) of[key] = quoted.replace(/\\(.)/g, '$1')
    samples.push({ name, labels: of, value: Number(value) })
  }
  return samples
}

// The rates between two readings. The first reading has no rates.
export class Readings {
  async read(signal) {
    const samples = parse(await readText('/metrics', signal))
    const now = { at: performance.now(), values: new Map(samples.map((s) => [JSON.stringify([s.name, s.labels]), s.value])) }
    this.samples = samples
    this.rates = Boolean(this.now)
    this.before = this.now ?? now
    this.now = now
  }

  each(name, wanted = {}) {
    return this.samples.filter((s) => s.name === name && Object.entries(wanted).every(([key, value]) => s.labels[key] === value))
  }

  // The sum; undefined if there is no sample.
  sum(name, wanted) {
    const found = this.each(name, wanted)
    return found.length > 0 ? found.reduce((sum, s) => sum + s.value, 0) : undefined
  }

  // Their growth per second. A counter that is lower than before restarted with the server.
  rate(name, wanted) {
    const seconds = (this.now.at - this.before.at) / 1000
    if (!this.rates) return 0
    const grown = this.each(name, wanted).reduce((sum, s) => {
      const before = this.before.values.get(JSON.stringify([s.name, s.labels])) ?? 0
      return sum + (s.value >= before ? s.value - before : s.value)
    }, 0)
    return grown / seconds
  }
}
