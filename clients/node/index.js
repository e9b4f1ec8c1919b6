/** Locks that renew themselves, stock, calls that run once, limits and ids from lockstockd. index.d.ts describes the API. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { Caller, durationOf, none, nowMs, numberOf } from "./lib/calls.js";
import { registry, requestOf, services } from "./lib/contract.js";
import { CallError, EnterRefused, GiveUp, HoldEnded, LockBusy, LockLost, LockstockError, LockTimedOut, OnceDoubtful, OnceFailed, OnceInProgress,
  OnceMismatch, OnceSuperseded, SoldOut, StockRefused } from "./lib/errors.js";
import { Keeper, Lease } from "./lib/keeper.js";

export * from "./lib/errors.js";

const keyOf = (value) => {
  if (typeof value === "string" || typeof value === "bigint" || Number.isSafeInteger(value)) return String(value);
  const found = typeof value === "object" && value !== null ? "an object" : String(value);
  throw new TypeError(`key: must be a string, a safe integer or a bigint, not ${found}`);
};
const GIVE_BACK_MS = 1000, FINAL_FAILURE = -1, DETAIL_MAX = 1024;
const [EXCLUSIVE, SHARED, PERMIT] = [1, 2, 3];
const [COMPLETE, RETRYABLE, FINAL] = [1, 2, 3]; // kinds of a Leave
const outcome = (name, number) => registry.getEnum(`lockstock.v1.${name}Outcome`).value[number]?.localName ?? "UNSPECIFIED";
const newId = () => randomBytes(16).toString("hex");

/** A lock that is held. */
class Held {
  constructor(client, request, lease, answer) {
    Object.assign(this, { client, request, lease });
    this.token = request.token;
    this.fences = Object.fromEntries(answer.fences.map(({ name, fence }) => [name, fence]));
    this.fence = this.fences[request.targets[0].name];
    this.signal = lease.aborts.signal;
  }

  get lost() {
    return this.lease.lost;
  }

  get remainingMs() {
    return this.lease.remainingMs;
  }

  check() {
    if (this.lost) throw new LockLost(this.lease.reason);
  }

  async release() {
    if (this.lease.ended) throw new TypeError("the lock was already released");
    const { client, request, lease } = this;
    if (!lease.end()) {
      client.giveBack(request);
      throw new LockLost(lease.reason);
    }
    try {
      const answer = await client.caller.call(services.lock.release, requestOf(services.lock.release, releaseOf(request)), { insist: true });
      if (outcome("Release", answer.outcome) !== "RELEASED") throw new LockLost(lease.reason);
    } catch (error) {
      if (error instanceof LockLost) throw error;
      client.giveBack(request);
      if (error.code !== "UNAVAILABLE" && error.code !== "DEADLINE_EXCEEDED") throw error;
    }
  }
}

const releaseOf = ({ group, targets, token }) => ({ group: group || (targets.length === 1 ? targets[0].name : ""), token });

class Client {
  constructor(target) {
    this.keeper = new Keeper(target);
    this.caller = new Caller(typeof target.token === "function"
      ? { ...target, token: async () => (this.keeper.token = await target.token()) } : target);
    this.owner = target.owner ?? `${hostname()}:${process.pid}`;
    this.calls = {};
    for (const [service, methods] of Object.entries(services))
      this.calls[service] = Object.fromEntries(Object.entries(methods).map(([name, method]) =>
        [name, async (init = {}, options) => this.caller.call(method, requestOf(method, init), options)]));
    this.stock = {
      put: async (sku, onHand, options = {}) => {
        if (onHand === undefined) throw new TypeError("onHand: must be given");
        return (await this.calls.stock.putItem({ ...options, sku, onHand })).item;
      },
      get: async (sku, { group = "", ...rest } = {}) => {
        none(rest);
        return (await this.calls.stock.getItem({ sku, group })).item;
      },
      deduct: async (orderId, lines, { buyer = "", group, ...rest } = {}) => {
        none(rest);
        const answer = await this.calls.stock.deduct({ group: groupOf(group, lines), orderId, buyerId: buyer, lines: linesOf(lines) });
        if (outcome("Deduct", answer.outcome) !== "DEDUCTED") refuse(orderId, outcome("Deduct", answer.outcome), answer.lines);
        return { replayed: answer.replayed, lines: answer.lines };
      },
    };
  }

  giveBack(request) {
    this.keeper.insist({ service: "lock", name: "release", request: releaseOf(request) });
  }

  // An earlier try of a refused call may still be granted: releases its token before the refusal is reported.
  async spend(service, name, request) {
    const method = services[service][name];
    await this.caller.call(method, requestOf(method, request), { timeoutMs: GIVE_BACK_MS, insist: true })
      .catch(() => this.keeper.insist({ service, name, request }));
  }

  async acquire(names, { leaseMs = 10000, waitMs = 0, group = "", shared = [], capacity, permits = 1, maxHoldMs, owner = this.owner,
    signal, ...rest } = {}) {
    none(rest);
    leaseMs = numberOf(leaseMs);
    const holdMs = durationOf("maxHoldMs", maxHoldMs ?? Infinity);
    const mode = (name, kind) => ({ name, mode: kind });
    const targets = capacity ? [names].flat().map((name) => ({ name, mode: PERMIT, permits, capacity }))
      : [...[names].flat().map((name) => mode(name, EXCLUSIVE)), ...shared.map((name) => mode(name, SHARED))];
    if (targets.length === 0) throw new TypeError("names: must have at least one name");
    const request = { group, targets, token: newId(), owner: owner ?? this.owner, leaseMs, waitMs };
    let sent = nowMs(), told;
    try {
      told = await this.caller.callTold(services.lock.acquire, requestOf(services.lock.acquire, request), { signal });
    } catch (error) {
      if (error.applied !== "NO") this.giveBack(request);
      throw error;
    }
    const what = outcome("Acquire", told.answer.outcome);
    if (what !== "ACQUIRED") await this.refused(request, told, what);
    const renewal = { group: group || targets[0].name, token: request.token, leaseMs };
    if (nowMs() >= sent + leaseMs / 3) {
      // After a long wait the lease counts from a first Renew.
      sent = nowMs();
      const answer = await this.calls.lock.renew({ leases: [renewal] }, { timeoutMs: leaseMs, insist: true }).catch((error) => {
        this.giveBack(request);
        throw error;
      });
      if (outcome("Renew", answer.results[0].outcome) !== "RENEWED") throw new LockLost(`${targets[0].name}: lost before it was granted`);
    }
    const lease = new Lease(this.keeper, { kind: "lock", what: `the lock ${targets.map(({ name }) => name).join(", ")}`,
      request: renewal, leaseMs, sent, stopAt: sent + holdMs });
    lease.error = (reason) => new LockLost(reason);
    return new Held(this, request, lease, told.answer);
  }

  async refused(request, { answer, doubt }, what) {
    if (doubt) await this.spend("lock", "release", releaseOf(request));
    const names = request.targets.map(({ name }) => name).join(", ");
    const more = { reason: "busy", holder: answer.holder?.owner, retryAfterMs: answer.holder && Number(answer.holder.leaseMs) };
    if (what === "BUSY") throw new LockBusy(`${names}: held by ${more.holder || "someone"}`, more);
    if (what === "TIMED_OUT") throw new LockTimedOut(`${names}: not within ${request.waitMs} ms; held by ${more.holder || "someone"}`, more);
    throw new LockLost(`${names}: the token of this acquisition was spent before it was granted`);
  }

  async lock(names, options, body) {
    const held = await this.acquire(names, options);
    let result;
    try {
      result = await body(held);
    } catch (error) {
      await held.release().catch((failure) => {
        if (error === held.signal.reason || error?.name === "AbortError") throw failure;
      });
      throw error;
    }
    await held.release();
    return result;
  }

  once(scope, { key, leaseMs = 30000, retainMs = 86400000, waitMs = 0, fingerprint, encode = JSON.stringify, decode = JSON.parse,
    ...rest }, body) {
    none(rest);
    leaseMs = numberOf(leaseMs);
    return async (...args) => {
      const request = { scope, key: keyOf(key(...args)), attemptToken: newId(), leaseMs, retainMs, waitMs,
        fingerprint: fingerprint ? Buffer.from(fingerprint(...args)) : new Uint8Array() };
      const begun = await this.begin(request);
      if (begun.result) {
        const { code, body: stored, headers } = begun.result;
        if (code === FINAL_FAILURE) throw gaveUp(request, headers[0]?.value ?? "");
        return decode(Buffer.from(stored).toString());
      }
      let value;
      try {
        value = await body(...args, { attempt: begun.attempt, fence: begun.fence, signal: begun.lease.aborts.signal });
      } catch (error) {
        return await this.fail(request, begun, error);
      }
      let stored;
      try {
        stored = Buffer.from(encode(value) ?? "null");
      } catch (error) {
        // The function has run, and must not run again.
        return await this.fail(request, begun, new GiveUp(notStored(error.message)), value);
      }
      const refused = await this.complete(request, begun, value, stored);
      if (refused) return await this.fail(request, begun, new GiveUp(notStored(refused.message)), value);
      return decode(stored.toString());
    };
  }

  async begin(request) {
    let sent = nowMs(), answer;
    const { scope, key, leaseMs } = request;
    const unused = { service: "idempotency", name: "fail", request: { scope, key, kind: 1, detail: "the caller left before its attempt began" } };
    try {
      answer = await this.calls.idempotency.begin(request);
    } catch (error) {
      if (error.applied !== "NO")
        this.keeper.insist({ service: "idempotency", name: "begin", request: { ...request, waitMs: 0 } }, { ...unused, needsFence: true });
      throw error;
    }
    const name = `${scope}/${key}`;
    switch (outcome("Begin", answer.outcome)) {
      case "REPLAY": return { result: answer.result };
      case "IN_PROGRESS": throw new OnceInProgress(`another attempt at ${name} is running`, { reason: "busy", retryAfterMs: Number(answer.retryAfterMs) });
      case "MISMATCH": throw new OnceMismatch(`${name} was used before with another fingerprint`, { reason: "id_reused" });
    }
    const extend = { scope, key, fence: answer.fence, leaseMs };
    if (nowMs() >= sent + leaseMs / 3) {
      sent = nowMs();
      const extended = await this.calls.idempotency.extend(extend, { timeoutMs: leaseMs, insist: true }).catch((error) => {
        this.keeper.insist({ ...unused, request: { ...unused.request, fence: answer.fence } });
        throw error;
      });
      if (outcome("Extend", extended.outcome) !== "EXTENDED") throw superseded(request);
    }
    const lease = new Lease(this.keeper, { kind: "attempt", what: `the attempt at ${name}`, request: extend, leaseMs, sent });
    lease.error = (reason) => new LockLost(reason);
    return { attempt: Number(answer.attempt), fence: answer.fence, lease };
  }

  /** Stores the result. Resolves to the error if a server refuses the result itself. */
  async complete({ scope, key }, { fence, lease }, value, body) {
    const request = { scope, key, fence, body };
    try {
      const answer = await this.calls.idempotency.complete(request,
        { timeoutMs: Math.max(lease.remainingMs, this.caller.timeoutMs), insist: true });
      if (outcome("Complete", answer.outcome) !== "STORED") throw superseded({ scope, key });
      return undefined;
    } catch (error) {
      if (isRefused(error)) return error;
      if (!(error instanceof CallError)) {
        if (!(error instanceof OnceSuperseded)) this.keeper.insist({ service: "idempotency", name: "complete", request });
        throw error;
      }
      throw new OnceDoubtful(`${scope}/${key}: no server confirmed its result: ${error.message}`, { applied: "MAYBE", result: value, cause: error });
    } finally {
      lease.end();
    }
  }

  async fail({ scope, key }, { fence, lease }, error, value) {
    lease.end();
    const detail = detailOf(error), request = { scope, key, fence, kind: error instanceof GiveUp ? 2 : 1, detail };
    const later = () => this.keeper.insist({ service: "idempotency", name: "fail", request });
    if (!(error instanceof GiveUp)) {
      later();
      throw error;
    }
    const answer = await this.calls.idempotency.fail(request, { insist: true }).catch((failure) => {
      later();
      if (!(failure instanceof CallError)) throw failure;
      throw new OnceDoubtful(`${scope}/${key}: no server confirmed its failure (${detail}): ${failure.message}`,
        { applied: "MAYBE", result: value, cause: failure });
    });
    if (outcome("Fail", answer.outcome) !== "STORED") throw superseded({ scope, key });
    throw gaveUp({ scope, key }, detail);
  }

  async enter(init, body, { encode = JSON.stringify, decode = JSON.parse, ...rest } = {}) {
    none(rest);
    const request = { ...init, leaseMs: numberOf(init.leaseMs ?? 30000), owner: init.owner ?? this.owner,
      token: init.token || newId() };
    const { group, token, once, stock, locks, leaseMs } = request, parts = { group, token, once, stock, locks };
    const canGiveBack = Boolean(once || locks || stock?.holdMs), undo = { ...parts, kind: RETRYABLE };
    const giveBack = () => {
      if (canGiveBack) this.keeper.insist({ service: "guard", name: "leave", request: undo });
    };
    const method = services.guard.enter;
    let sent = nowMs();
    const { answer, doubt } = await this.caller.callTold(method, requestOf(method, request)).catch((error) => {
      if (error.applied !== "NO") giveBack();
      throw error;
    });
    const what = outcome("Enter", answer.outcome);
    if (what === "REPLAY") {
      const { code, body: stored, headers } = answer.result;
      if (code === FINAL_FAILURE) throw gaveUp(once, headers[0]?.value ?? "");
      return decode(Buffer.from(stored).toString());
    }
    if (what !== "ENTERED") {
      if (doubt && canGiveBack) await this.spend("guard", "leave", undo);
      throw new EnterRefused(`refused: ${what}`, { outcome: what, answer, retryAfterMs: later(answer) });
    }
    const renewal = { ...parts, leaseMs };
    const renews = Boolean(once || locks);
    if (renews && nowMs() >= sent + leaseMs / 3) {
      sent = nowMs();
      const renewed = await this.calls.guard.renew(renewal, { timeoutMs: leaseMs, insist: true }).catch((error) => {
        giveBack();
        throw error;
      });
      if (renewed.outcome !== 1) {
        giveBack();
        throw new LockLost("lost before it was entered");
      }
    }
    const lease = renews ? new Lease(this.keeper, { kind: "entry", what: `the entry ${token}`, request: renewal, leaseMs,
      leftMs: Number(answer.leaseMs), sent }) : undefined;
    if (lease) lease.error = (reason) => new LockLost(reason);
    let value, end = { kind: COMPLETE };
    try {
      value = await body({ answer, attempt: Number(answer.attempt), signal: lease?.aborts.signal, get lost() { return lease?.lost ?? false; },
        fences: Object.fromEntries(answer.fences.map(({ name, fence }) => [name, fence])) });
    } catch (error) {
      if (!(error instanceof GiveUp)) {
        lease?.end();
        giveBack();
        throw error;
      }
      end = { kind: FINAL, detail: detailOf(error) };
    }
    lease?.end();
    try {
      if (once && end.kind === COMPLETE) end.body = Buffer.from(encode(value) ?? "null");
    } catch (error) {
      end = unstored(error);
    }
    if (canGiveBack) {
      await this.leave({ ...parts, ...end }, giveBack, leaseMs).catch((error) => {
        if (!isRefused(error) || !end.body) throw error;
        end = unstored(error);
        return this.leave({ ...parts, ...end }, giveBack, leaseMs);
      });
    }
    if (end.kind === FINAL || end.code) throw gaveUp(once ?? { scope: group, key: token }, end.detail ?? end.headers[0].value);
    return end.body ? decode(end.body.toString()) : value;
  }

  async leave(request, giveBack, leaseMs) {
    const left = await this.calls.guard.leave(request, { timeoutMs: Math.max(leaseMs, this.caller.timeoutMs), insist: true }).catch((error) => {
      if (!isRefused(error)) this.keeper.insist({ service: "guard", name: "leave", request });
      throw error;
    });
    const what = outcome("Leave", left.outcome);
    if (what === "SUPERSEDED") throw superseded(request.once);
    if (what !== "HOLD_ENDED") return;
    giveBack();
    throw new HoldEnded("the hold has ended; nothing was stored", { reason: "lease_lost" });
  }

  async limit(key, { policy, limit, periodMs, algorithm = "SLIDING_WINDOW", burst = 0, cost = 1, group = "", peek = false,
    requestId = "", ...rest }) {
    none(rest);
    const named = policy !== undefined && policy !== null, counted = limit !== undefined && limit !== null;
    if (named && counted) throw new TypeError("policy: must not be given together with limit");
    if (!named && !counted) throw new TypeError("policy: must be given, or limit and periodMs");
    const number = registry.getEnum("lockstock.v1.Algorithm").values.find(({ localName }) => localName === algorithm)?.number;
    if (number === undefined) throw new TypeError(`algorithm: ${algorithm} is unknown`);
    const spec = named ? { case: "policy", value: policy }
      : { case: "limit", value: { algorithm: number, limit, periodMs, burst } };
    const answer = await this.calls.rateLimit.check({ group, rules: [{ key, spec }], cost: cost ?? 1, peek, requestId });
    const [rule] = answer.rules, what = outcome("Check", answer.outcome);
    return { allowed: what === "ALLOWED", banned: what === "BANNED", limit: Number(rule.limit), remaining: Number(rule.remaining),
      retryAfterMs: what === "ALLOWED" ? undefined : later(answer), replayed: answer.replayed };
  }

  async reserve(orderId, lines, { holdMs, keepMs = 0, buyer = "", group, ...rest }, body) {
    none(rest);
    holdMs = numberOf(holdMs);
    const keptMs = durationOf("keepMs", keepMs ?? 0);
    const request = { group: groupOf(group, lines), orderId, buyerId: buyer, lines: linesOf(lines), holdMs };
    const id = { group: request.group, orderId };
    const cancelLater = () => this.keeper.insist({ service: "stock", name: "cancel", request: id });
    const sent = nowMs();
    const { answer, doubt } = await this.caller.callTold(services.stock.reserve, requestOf(services.stock.reserve, request))
      .catch((error) => {
        if (error.applied !== "NO") cancelLater();
        throw error;
      });
    if (outcome("Reserve", answer.outcome) !== "RESERVED") {
      if (doubt) cancelLater();
      refuse(orderId, outcome("Reserve", answer.outcome), answer.lines);
    }
    const lease = new Lease(this.keeper, { kind: "hold", what: `the hold of order ${orderId}`, request: { ...id, holdMs },
      leaseMs: holdMs, leftMs: Number(answer.holdMs), sent, stopAt: sent + keptMs });
    let open = true; // false once Confirm was tried: without an answer it may have sold the units
    const confirm = async ({ reacquire = false, ...unknown } = {}) => {
      none(unknown);
      open = false;
      const told = await this.calls.stock.confirm({ ...id, reacquireIfExpired: reacquire }, { insist: true }).catch((error) => {
        open = error.applied === "NO";
        throw error;
      });
      if (outcome("Confirm", told.outcome) !== "CONFIRMED") refuse(orderId, outcome("Confirm", told.outcome), []);
    };
    try {
      return await body({ lines: answer.lines, confirm, get remainingMs() { return lease.remainingMs; } });
    } finally {
      lease.end();
      if (open) await this.calls.stock.cancel(id, { insist: true }).catch(cancelLater);
    }
  }

  async ids(count = 1, { kind = "uuid7", name = "", ...rest } = {}) {
    none(rest);
    const number = { uuid7: 2, snowflake: 1, sequence: 3 }[kind];
    if (!number) throw new TypeError(`kind: must be uuid7, snowflake or sequence, not ${kind}`);
    const answer = await this.calls.id.next({ kind: number, name, count });
    return answer.uuids.length ? answer.uuids : answer.ids;
  }

  async *ledger(group, { after = "", waitMs = 0, ...rest } = {}) {
    none(rest);
    for (;;) {
      const page = await this.calls.stock.readLedger({ group, after, waitMs });
      if (outcome("ReadLedger", page.outcome) !== "OK")
        throw new LockstockError(`the ledger of ${group} begins at ${page.oldestId}`, { oldestId: page.oldestId });
      if (page.entries.length === 0) return;
      yield* page.entries;
      after = page.nextAfter;
    }
  }

  async close({ withinMs = 2000, ...rest } = {}) {
    none(rest);
    await this.keeper.close(durationOf("withinMs", withinMs ?? 2000));
    this.caller.close();
  }
}

const superseded = ({ scope, key }) => new OnceSuperseded(`the attempt at ${scope}/${key}: another one has taken over`, { reason: "lease_lost" });
const gaveUp = ({ scope, key }, detail) => new OnceFailed(`the attempt at ${scope}/${key} failed for good: ${detail}`, { detail });
const notStored = (why) => `the function ran, but its result cannot be stored: ${why}`;
/** Whether a server refuses the result itself: it is too large. */
const isRefused = (error) => error instanceof CallError && (error.code === "INVALID_ARGUMENT" || error.reason === "too_large");
/** The end of an entry whose result cannot be stored: its body has run, and must not run again. */
const unstored = ({ message }) => ({ kind: COMPLETE, code: FINAL_FAILURE,
  headers: [{ key: "failure", value: detailOf({ message: notStored(message) }) }] });
/** When to try again; -1 of the contract is never. */
const later = ({ retryAfterMs }) => (retryAfterMs > 0n ? Number(retryAfterMs) : undefined);
// Without half characters, which a request refuses.
const detailOf = (error) => String(error?.message ?? error).replaceAll("\0", "").slice(0, DETAIL_MAX / 4).replace(/\p{Surrogate}/gu, "\ufffd");
const linesOf = (lines) => Object.entries(lines).map(([sku, quantity]) => ({ sku, quantity }));

function groupOf(group, lines) {
  if (lines === null || typeof lines !== "object" || Array.isArray(lines)) throw new TypeError("lines: must be an object of quantities");
  if (Object.keys(lines).length === 0) throw new TypeError("lines: must have at least one sku");
  if (group) return group;
  if (Object.keys(lines).length !== 1) throw new TypeError("group: must be given for an order of several skus");
  return Object.keys(lines)[0];
}

function refuse(orderId, what, lines) {
  const left = lines.map(({ sku, available }) => `${sku}: ${available}`).join(", ");
  throw new (what === "SOLD_OUT" ? SoldOut : StockRefused)(`order ${orderId}: ${what}${left && ` (${left} left)`}`, { outcome: what, lines });
}

export function connect(urls, { token, namespace, timeoutMs, owner, caFile, certificateFile, keyFile, serverName, ...rest } = {}) {
  none(rest);
  return new Client({ urls, token, namespace, timeoutMs, owner, caFile, certificateFile, keyFile, serverName });
}
