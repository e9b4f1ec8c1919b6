// The counts of one item by its ledger alone, to be compared with what the server says.

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
    Object.assign(this, { after, caughtUp: false, trimmed: false, entries: 0, initial: 0, adjusted: 0, oversold: 0, counts: [0, 0, 0] })
  }

  // Takes an answer of ReadLedger. Returns the entries of this item.
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
  }

  agrees(item) {
    return this.caughtUp && !this.trimmed
      && ['available', 'reserved', 'sold'].every((name, i) => this.counts[i] === Number(item[name] ?? 0))
  }

  verdict(item) {
    const entries = `${this.entries.toLocaleString('en')} entries of the ledger`
    if (this.trimmed) return 'The ledger was trimmed: it does not go back to the first unit.'
    if (this.agrees(item)) return `Proved: the sum of ${entries} is what the server says.`
    return this.caughtUp ? `Comparing ${entries}: the item has changed since they were read.` : `Reading the ledger: ${entries} so far.`
  }
}
