// The driver of this package for clients/cases/run.py.
import { createInterface } from "node:readline";
import { connect, GiveUp } from "../index.js";

const clients = {}, locks = {}, aborts = {}, ms = (s) => s === undefined ? undefined : s * 1000;
const commands = {
  connect: ({ client, url }) => { clients[client] = connect(url); },
  lock: async ({ client, id, names, lease, wait, max_hold, ...more }) => {
    aborts[id] = new AbortController();
    const { shared, group, capacity } = more;
    const options = { leaseMs: ms(lease), waitMs: ms(wait), maxHoldMs: ms(max_hold), shared, group, capacity, signal: aborts[id].signal };
    const held = locks[id] = await clients[client].acquire(names, options);
    return { fence: Number(held.fence), token: held.token };
  },
  release: async ({ id }) => {
    const held = locks[id];
    delete locks[id];
    await held.release();
  },
  cancel: ({ id }) => aborts[id].abort(),
  state: ({ id }) => ({ lost: locks[id].lost, remaining: locks[id].remainingMs / 1000 }),
  lost: ({ id }) => new Promise((done) => locks[id].signal.aborted ? done() : locks[id].signal.addEventListener("abort", () => done())),
  deduct: async ({ client, order, sku, quantity }) => ({ replayed: (await clients[client].stock.deduct(order, { [sku]: quantity })).replayed }),
  once: async ({ client, key, result, raise, lease = 30, wait = 0 }) => {
    let ran = false;
    const run = clients[client].once("cases", { key: () => key, leaseMs: ms(lease), waitMs: ms(wait) }, async () => {
      ran = true;
      if (raise === "error") throw new TypeError("as told");
      if (raise) throw new GiveUp("as told");
      return result;
    });
    return { result: await run(), ran };
  },
  limit: async ({ client, key, limit, period }) => ({ allowed: (await clients[client].limit(key, { limit, periodMs: ms(period) })).allowed }),
  reserve: ({ client, order, sku, quantity, confirm }) => clients[client].reserve(order, { [sku]: quantity }, { holdMs: 60000 },
    async (reservation) => { if (confirm) await reservation.confirm(); }),
  enter: async ({ client, names, lease, wait }) => {
    await clients[client].enter({ locks: { targets: names.map((name) => ({ name })) }, leaseMs: ms(lease), waitMs: ms(wait) }, async () => {});
  },
  block: ({ seconds }) => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms(seconds)); },
  close: ({ client }) => clients[client].close({ withinMs: 60_000 }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  Promise.resolve().then(() => commands[ask.do](ask)).then((told) => told ?? {}, (error) => ({
    error: error.name === "AbortError" ? "Cancelled" : error.name, text: error.message, code: error.code, applied: error.applied,
    reason: error.reason, field: error.field, detail: error.detail, outcome: error.outcome,
  })).then((told) => console.log(JSON.stringify({ seq: ask.seq, ...told })));
}
