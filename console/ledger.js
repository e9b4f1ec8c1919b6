// Counts one item by its ledger alone, to compare the counts with those of the server.
import { clock } from './dom.js'

const PATIENCE_MS = 5000 // the ledger gets the entries of holds that ended a little later

// What an entry of quantity q adds to available, reserved and sold (stock.proto, LedgerKind).
const EFFECTS = {
  PUT: [1, 0, 0],
  ADJUSTED: [1, 0, 0],
  DEDUCTED: [-1, 0, 1],
  RESERVED: [-1, 1, 0],
  CONFIRMED: [0, -1, 1],
  CANCELLED: [1, -1, 0],
  EXPIRED: [1, -1, 0],
  RETURNED: [1, 0, -1],
  TRANSFERRED: [1, 0, 0],
}

export const PAGE = 1000 // entries in one answer

export class Account {
  constructor(sku) {
    this.sku = sku
    this.begin('')
  }

  begin(after) {
    Object.assign(this, { after, caughtUp: false, trimmed: false, entries: 0, initial: 0, adjusted: 0, oversold: 0, counts: [0, 0, 0], proof: '', expected: undefined })
  }

  // Adds an answer of ReadLedger. Returns the entries of this item.
  read(answer) {
    if (answer.outcome === 'READ_LEDGER_OUTCOME_TRIMMED') {
      this.begin('')
      this.trimmed = true
      return []
    }
    const all = answer.entries ?? []
    const mine = all.filter((entry) => entry.sku === this.sku)
    for (const entry of mine) this.add(entry.kind.replace('LEDGER_KIND_', ''), Number(entry.quantity ?? 0), entry.atMs)
    this.after = answer.nextAfter || this.after
    this.caughtUp = all.length < PAGE
    if (this.caughtUp) this.look()
    return mine
  }

  // In a group in buckets, entries of one millisecond have no order: the counts are exact between milliseconds.
  look() {
    this.oversold = Math.max(this.oversold, -this.counts[0])
  }

  add(kind, quantity, atMs) {
    if (atMs !== this.atMs) this.look()
    this.atMs = atMs
    this.entries++
    if (kind === 'DELETED') {
      this.counts = [0, 0, 0]
      this.initial = this.adjusted = 0
    } else {
      EFFECTS[kind]?.forEach((sign, i) => (this.counts[i] += sign * quantity))
    }
    if (kind === 'PUT' && this.initial === 0) this.initial = quantity
    else if (kind === 'PUT' || kind === 'ADJUSTED' || kind === 'TRANSFERRED') this.adjusted += quantity
    this.compare()
  }

  // Takes the item as the server reports it: its state after the last entry that was read, or after a later one. In a
  // group in buckets the item may never have been in that state while it was sold; then a later report is compared.
  expect(item) {
    const counts = ['available', 'reserved', 'sold'].map((name) => Number(item[name] ?? 0))
    const moved = this.expected?.counts.some((n, i) => n !== counts[i])
    if (!this.expected || (moved && this.isLate)) this.expected = { counts, at: Date.now() }
    this.compare()
  }

  compare() {
    if (this.trimmed || !this.expected || !this.expected.counts.every((n, i) => n === this.counts[i])) return
    this.proof = `Proved: at ${clock(this.expected.at).slice(0, 8)} the sum of ${this.entries.toLocaleString('en')} entries of the ledger was what the server said.`
    this.expected = undefined
  }

  get isLate() {
    return Boolean(this.expected) && this.caughtUp && Date.now() - this.expected.at > PATIENCE_MS
  }

  // Whether the ledger and the server agreed in the last comparison.
  get proved() {
    return this.proof !== '' && !this.isLate
  }

  verdict() {
    if (this.trimmed) return 'The ledger was trimmed: it does not go back to the first unit.'
    if (this.proved) return this.proof
    if (this.isLate) return `Since ${clock(this.expected.at).slice(0, 8)} the ledger does not say what the server says.`
    return `Reading the ledger: ${this.entries.toLocaleString('en')} entries so far.`
  }
}
