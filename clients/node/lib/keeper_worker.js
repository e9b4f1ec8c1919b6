// The thread that renews leases and makes calls in the background. A blocked main thread loses no lock.
import { parentPort, workerData } from "node:worker_threads";
import { Caller, isTemporary, lostAt, nowMs } from "./calls.js";
import { requestOf, services } from "./contract.js";
import { CallError } from "./errors.js";

// WATCH_MS: the longest wait of a watch, in case the server hangs. WATCH_AFTER_MS: short locks are not watched, which
// saves calls.
const WATCH_MS = 60000, WATCH_AFTER_MS = 200, WATCH_AGAIN_MS = 100, WATCH_FAILED_MS = 1000;
const TICK_MS = 50, BATCH_MAX = 256, TRY_MS = 1500, PAUSE_MIN_MS = 50, PAUSE_MAX_MS = 400, INSIST_MS = 86400000;
const caller = new Caller(workerData.target);
const leases = new Map();
let chores = 0, ticking, watchAt;

const RENEW = services.lock.renew, WATCH = services.lock.watchForceReleases;
const [HELD, LOST] = [0n, 1n]; // of shared[1]; shared[0] is when the lease counts as lost
// How each kind of lease is renewed. `left`: the rest of the lease in ms by the answer; 0: it is lost; undefined:
// unchanged.
const KINDS = {
  lock: { left: (result) => (result.outcome === 1 ? Number(result.leaseMs) : 0), why: "its lease ended, or an administrator took it away" },
  attempt: { method: services.idempotency.extend, left: (answer, lease) => (answer.outcome === 1 ? lease.leaseMs : 0),
    why: "its lease ended, and another attempt may have begun" },
  entry: { method: services.guard.renew, left: (answer, lease) => (answer.outcome === 1 ? lease.leaseMs : 0),
    why: "its lease ended, or a part of it was taken away" },
  hold: { method: services.stock.extendHold, left: (answer) => (answer.outcome === 1 ? Number(answer.holdMs) : answer.outcome === 2 ? undefined : 0),
    why: "the order has ended" },
};

function extended(lease, leftMs, sent) {
  Atomics.store(lease.shared, 0, lostAt(sent, leftMs));
  const grid = leftMs / 12; // so that leases that were taken one after the other are renewed together
  lease.due = Math.max(Math.floor((sent + leftMs / 3) / grid) * grid, sent);
  lease.pause = PAUSE_MIN_MS;
}

function lose(lease, why) {
  if (!leases.delete(lease.id)) return;
  Atomics.store(lease.shared, 1, LOST);
  parentPort.postMessage({ lost: lease.id, why });
}

function answered(lease, answer, sent) {
  if (!leases.has(lease.id)) return;
  const left = KINDS[lease.kind].left(answer, lease);
  if (left === 0) lose(lease, KINDS[lease.kind].why);
  else if (left === undefined) lease.due = Infinity;
  else extended(lease, left, sent);
}

async function ask(batch, method, request, take) {
  const sent = nowMs();
  for (const lease of batch) lease.asked = true;
  try {
    const server = caller.connected();
    if (!server) throw Object.assign(new Error("no server can be reached"), { reason: "server_unreachable" });
    const answer = await caller.send(server, method, request, TRY_MS).catch((error) => {
      if (error.reason === "connection_lost" || error.reason === "deadline_exceeded") caller.fails(server);
      throw error;
    });
    batch.forEach((lease, at) => answered(lease, take(answer, at), sent));
  } catch (error) {
    for (const lease of batch) {
      lease.why = `it could not be renewed: ${error.message}`;
      // Nothing was sent, so trying again soon costs the server nothing.
      if (error.reason === "server_unreachable") lease.pause = PAUSE_MIN_MS;
      lease.due = nowMs() + Math.max(lease.pause, error.retryAfterMs ?? 0);
      lease.pause = Math.min(lease.pause * 2, PAUSE_MAX_MS);
    }
  }
  for (const lease of batch) lease.asked = false;
}

/** Makes a call that is answered when an administrator has taken a lock away. An older server, or a token without the right to
 * read, always refuses it. */
async function watch(server) {
  watchAt = Infinity;
  try {
    await caller.send(server, WATCH, requestOf(WATCH, { waitMs: WATCH_MS }), WATCH_MS + TRY_MS);
    watchAt = nowMs() + WATCH_AGAIN_MS;
  } catch (error) {
    if (isTemporary(error)) watchAt = nowMs() + WATCH_FAILED_MS;
  }
}

/** All locks are renewed after it was sent: one of them may have been taken away before the server received it. */
function beginWatch(at) {
  const locks = [...leases.values()].filter((lease) => lease.kind === "lock");
  const server = caller.connected();
  if (locks.length === 0) watchAt = undefined; // the next lock begins a watch
  if (locks.length === 0 || !server) return;
  watch(server);
  for (const lock of locks) lock.due = Math.min(lock.due, at);
}

function tick() {
  const at = nowMs(), locks = [];
  if (at >= watchAt) beginWatch(at);
  for (const lease of leases.values()) {
    if (at * 1e6 >= Number(Atomics.load(lease.shared, 0))) lose(lease, lease.why ?? "its lease ended");
    else if (lease.asked || at < lease.due || lease.due >= lease.stopAt) continue;
    else if (lease.kind === "lock") locks.push(lease);
    else ask([lease], KINDS[lease.kind].method, requestOf(KINDS[lease.kind].method, lease.request), (answer) => answer);
  }
  for (let first = 0; first < locks.length; first += BATCH_MAX) {
    const batch = locks.slice(first, first + BATCH_MAX);
    ask(batch, RENEW, requestOf(RENEW, { leases: batch.map((lease) => lease.request) }), (answer, index) => answer.results[index]);
  }
  if (leases.size === 0) ticking = clearInterval(ticking);
}

/** Repeats each call until a server answers it; `then` of a call is the next call, with the answer's fence if its outcome is EXECUTE. */
async function insist(calls) {
  const until = nowMs() + INSIST_MS;
  let fence;
  for (const { service, name, request, needsFence } of calls) {
    if (needsFence && fence === undefined) break;
    const method = services[service][name];
    let made;
    try {
      made = requestOf(method, needsFence ? { ...request, fence } : request);
    } catch {
      return; // nor could it be sent before
    }
    for (let pause = PAUSE_MIN_MS; nowMs() < until; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
      try {
        const answer = await caller.call(method, made, { timeoutMs: TRY_MS });
        fence = answer.outcome === 1 ? answer.fence : undefined;
        break;
      } catch (error) {
        if (error instanceof CallError && !isTemporary(error)) return; // another error is of the token, which may change
        await new Promise((done) => setTimeout(done, pause));
      }
    }
  }
}

parentPort.on("message", async (message) => {
  if (message.token !== undefined) caller.token = message.token;
  if (message.keep) {
    const lease = { ...message.keep, shared: new BigInt64Array(message.keep.buffer), asked: false };
    leases.set(lease.id, lease);
    extended(lease, lease.leftMs, lease.sent);
    if (lease.kind === "lock") watchAt ??= nowMs() + WATCH_AFTER_MS;
    Atomics.store(lease.shared, 1, HELD);
    ticking ??= setInterval(tick, TICK_MS);
  }
  if (message.end !== undefined) leases.delete(message.end);
  if (message.insist) {
    chores++;
    await insist(message.insist);
    chores--;
    if (chores === 0) parentPort.postMessage({ idle: true });
  }
  if (message.ask) parentPort.postMessage({ idle: chores === 0 });
});
