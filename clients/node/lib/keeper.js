// The main thread's side of keeper_worker.js. Both threads share the memory of a lease, so that it is correct
// immediately after the event loop was blocked.
import { Worker } from "node:worker_threads";
import { lostAt, nowMs } from "./calls.js";

const TIMER_MAX_MS = 2 ** 31 - 1;

export class Lease {
  constructor(keeper, { kind, what, request, leaseMs, leftMs = leaseMs, sent, stopAt = Infinity }) {
    Object.assign(this, { keeper, what, id: keeper.next++, why: "its lease ended", ended: false, leaseMs });
    this.aborts = new AbortController();
    const buffer = new SharedArrayBuffer(16);
    this.shared = new BigInt64Array(buffer);
    Atomics.store(this.shared, 0, lostAt(sent, leftMs));
    keeper.leases.set(this.id, this);
    keeper.post({ keep: { id: this.id, kind, request, leaseMs, leftMs, sent, stopAt, buffer } });
  }

  get remainingMs() {
    if (this.ended || Atomics.load(this.shared, 1) !== 0n) return 0;
    return Math.max(Number(Atomics.load(this.shared, 0)) / 1e6 - nowMs(), 0);
  }

  get lost() {
    return !this.ended && this.remainingMs === 0;
  }

  get reason() {
    return `${this.what} is lost: ${this.why}`;
  }

  /** Ends the renewal of a lease. False if it was already lost. */
  end() {
    const held = !this.lost;
    this.ended = true;
    this.keeper.leases.delete(this.id);
    this.keeper.post({ end: this.id });
    return held;
  }
}

export class Keeper {
  constructor(target) {
    this.target = { ...target, token: typeof target.token === "function" ? undefined : target.token };
    this.leases = new Map();
    this.next = 1;
    this.waiting = [];
  }

  post(message) {
    this.worker ??= this.start();
    this.worker.postMessage(this.token === undefined ? message : { ...message, token: this.token });
  }

  start() {
    const worker = new Worker(new URL("./keeper_worker.js", import.meta.url), { workerData: { target: this.target } });
    worker.unref();
    worker.on("message", ({ lost, why, idle }) => {
      const lease = this.leases.get(lost);
      if (lease) {
        lease.why = why;
        lease.aborts.abort(lease.error?.(lease.reason));
      }
      if (idle) this.waiting.splice(0).forEach((done) => done());
    });
    return worker;
  }

  insist(...calls) {
    this.post({ insist: calls });
  }

  /** Waits for the background calls, at most `ms`, and ends the thread. */
  async close(ms) {
    if (!this.worker) return;
    let timer;
    await Promise.race([new Promise((done) => {
      this.waiting.push(done);
      this.worker.postMessage({ ask: true });
    }), new Promise((done) => (timer = setTimeout(done, Math.min(ms, TIMER_MAX_MS))))]);
    clearTimeout(timer);
    await this.worker.terminate();
  }
}
