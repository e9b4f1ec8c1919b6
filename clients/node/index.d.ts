/** Locks that renew themselves, stock that is never oversold, functions that run once, rate limits and ids from lockstockd.
 * Durations are milliseconds. Fences and ids are bigint; other numbers of the contract are bigint in answers of
 * `calls`, and number or bigint in requests. */

import type { Calls } from "./calls.js";
export type * from "./calls.js";

export interface ConnectOptions {
  /** A bearer token, or a function that returns one and is called for each try. White space around it is ignored. */
  token?: string | (() => string | Promise<string>);
  namespace?: string;
  /** The timeout of a call, without its wait; 5000. */
  timeoutMs?: number;
  /** The holder's name for others; by default host:pid. */
  owner?: string;
  /** PEM files, and the name in the certificate; for grpcs:// only. certificateFile and keyFile are given together. */
  caFile?: string;
  certificateFile?: string;
  keyFile?: string;
  serverName?: string;
}

/** A client of one server, or of several on one store: "grpc://a:7701,b:7701". It connects with the first call. Throws TypeError
 * for a URL or an option that it cannot use. All functions of a client throw TypeError for options that they do not have. */
export function connect(urls: string | string[], options?: ConnectOptions): Client;

export interface LockOptions {
  /** Renewed at each third; 10000. */
  leaseMs?: number;
  /** How long to wait in the queue; 0: LockBusy at once. */
  waitMs?: number;
  /** The group of the names; required for several names. */
  group?: string;
  /** Names to lock for reading. */
  shared?: string[];
  /** Of a semaphore, of which `permits` (1) are taken. */
  capacity?: number;
  permits?: number;
  /** The lock is not renewed after this time. */
  maxHoldMs?: number;
  owner?: string;
  /** Aborts the acquisition, which rejects with an AbortError and leaves nothing behind. */
  signal?: AbortSignal;
}

export interface Held {
  /** The fence of the first name: pass it to the resource that the lock protects. */
  readonly fence: bigint;
  readonly fences: Record<string, bigint>;
  readonly token: string;
  /** Aborts with LockLost when the lock is lost. */
  readonly signal: AbortSignal;
  readonly lost: boolean;
  readonly remainingMs: number;
  /** Throws LockLost. */
  check(): void;
  /** Releases the lock, in the background if no server answers. Rejects with LockLost. */
  release(): Promise<void>;
}

export interface OnceOptions<Args extends unknown[], R> {
  /** A number must be a safe integer. */
  key: (...args: Args) => string | number | bigint;
  leaseMs?: number;
  retainMs?: number;
  /** How long to wait for a running attempt; 0: OnceInProgress at once. */
  waitMs?: number;
  /** A different one for the same key is OnceMismatch; at most 64 bytes. */
  fingerprint?: (...args: Args) => string | Uint8Array;
  encode?: (value: R) => string;
  decode?: (stored: string) => R;
}

export interface Attempt {
  /** 1 for the first attempt; more: an earlier attempt did not end. */
  readonly attempt: number;
  readonly fence: bigint;
  /** Aborts when another attempt may have begun. */
  readonly signal: AbortSignal;
}

export type LimitOptions = ({ policy: string; limit?: undefined } | { policy?: undefined; limit: number; periodMs: number }) & {
  algorithm?: "FIXED_WINDOW" | "SLIDING_LOG" | "SLIDING_WINDOW" | "TOKEN_BUCKET";
  burst?: number;
  cost?: number;
  group?: string;
  peek?: boolean;
  requestId?: string;
};

export interface Decision {
  allowed: boolean;
  banned: boolean;
  limit: number;
  remaining: number;
  /** When the same call may be allowed; undefined: now, or never. */
  retryAfterMs?: number;
  replayed: boolean;
}

export type Lines = Record<string, number>;
export interface LineStock { sku: string; available: bigint }
export interface Item { sku: string; group: string; available: bigint; reserved: bigint; sold: bigint; version: bigint }
export interface LedgerEntry { id: string; kind: number; sku: string; quantity: bigint; orderId: string; atMs: bigint; reason: string }

export interface Reservation {
  readonly lines: LineStock[];
  readonly remainingMs: number;
  /** Sells the units. Rejects with StockRefused if the hold has ended; reacquire: then takes them again, if they are available. */
  confirm(options?: { reacquire?: boolean }): Promise<void>;
}

export type EnterRequest = NonNullable<Parameters<Calls["guard"]["enter"]>[0]>;
export type EnterAnswer = Awaited<ReturnType<Calls["guard"]["enter"]>>;

export interface Entry {
  readonly answer: EnterAnswer;
  /** 1 for the key's first attempt; more: an earlier attempt did not end. */
  readonly attempt: number;
  readonly fences: Record<string, bigint>;
  /** Whether another caller may have the attempt or a lock. */
  readonly lost: boolean;
  /** Aborts when it is lost. Undefined without `once` and `locks`. */
  readonly signal?: AbortSignal;
}

export interface Client {
  /** Runs `body` while it holds the lock. Rejects with LockBusy, LockTimedOut, or LockLost if the lock was lost meanwhile. */
  lock<R>(names: string | string[], options: LockOptions, body: (held: Held) => R | Promise<R>): Promise<R>;
  /** Takes a lock, which must be released. */
  acquire(names: string | string[], options?: LockOptions): Promise<Held>;
  /** Of all calls with the same key, the first runs `body`. All get its result from encode and decode (JSON). An exception lets the next
   * caller run it again, GiveUp does not. Nor does a result over 256 KiB, or one that `encode` refuses: all callers get OnceFailed. */
  once<Args extends unknown[], R>(scope: string, options: OnceOptions<Args, R>,
    body: (...args: [...Args, Attempt]) => R | Promise<R>): (...args: Args) => Promise<R>;
  /** Runs `body` while it holds the parts of the request: an attempt, limits, stock and locks, all or none (docs/enter.md). The result of
   * `body` is stored; if an earlier attempt has stored one, `body` does not run. An exception lets the next caller run
   * it, GiveUp does not. With `once`, all callers get the result from encode and decode (JSON); if it cannot be stored, all get
   * OnceFailed, and the stock is sold. Rejects with EnterRefused, HoldEnded, OnceSuperseded and OnceFailed. */
  enter<R>(request: EnterRequest, body: (entry: Entry) => R | Promise<R>,
    options?: { encode?: (value: R) => string | Uint8Array; decode?: (stored: string) => R }): Promise<R>;
  /** Failures reject with CallError, and are never a decision. */
  limit(key: string, options: LimitOptions): Promise<Decision>;
  /** Sets units aside, and gives them back when `body` ends without `confirm`. holdMs: when they are given back automatically;
   * keepMs: how long the hold is extended. */
  reserve<R>(orderId: string, lines: Lines, options: { holdMs: number; keepMs?: number; buyer?: string; group?: string },
    body: (reservation: Reservation) => R | Promise<R>): Promise<R>;
  readonly stock: {
    put(sku: string, onHand: number, options?: { group?: string; buckets?: number; perBuyerLimit?: number }): Promise<Item>;
    get(sku: string, options?: { group?: string }): Promise<Item>;
    /** Sells all lines or none. Rejects with SoldOut or StockRefused. The same order sells once. */
    deduct(orderId: string, lines: Lines, options?: { buyer?: string; group?: string }): Promise<{ replayed: boolean; lines: LineStock[] }>;
  };
  /** uuid7: texts; snowflake and sequence (with a name): bigints. */
  ids(count?: number, options?: { kind?: "uuid7" | "snowflake" | "sequence"; name?: string }): Promise<(string | bigint)[]>;
  /** The changes of a group's stock after an entry. Ends when no entry arrived for `waitMs`. */
  ledger(group: string, options?: { after?: string; waitMs?: number }): AsyncGenerator<LedgerEntry>;
  readonly calls: Calls;
  /** Waits at most withinMs (2000) for background calls that give something back. Held locks end with their leases. */
  close(options?: { withinMs?: number }): Promise<void>;
}

/** The root of all errors. code: the gRPC code by name, "OK" when a server answered and refused. applied: "NO": nothing was changed,
 * and nothing will be; "MAYBE": unknown; "YES". reason: a fixed word. field: the invalid field of the request. */
export class LockstockError extends Error {
  readonly code: string;
  readonly applied: "NO" | "MAYBE" | "YES";
  readonly reason: string;
  readonly field: string;
  readonly retryAfterMs?: number;
}
export class CallError extends LockstockError {}
export class LockBusy extends LockstockError { readonly holder?: string }
export class LockTimedOut extends LockBusy {}
export class LockLost extends LockstockError {}
export class OnceInProgress extends LockstockError {}
export class OnceMismatch extends LockstockError {}
/** The attempt gave up, or its result cannot be stored: it is too large, or `encode` refuses it. That is stored, and all later callers
 * get it. `detail` is the text. */
export class OnceFailed extends LockstockError { readonly detail: string }
export class OnceSuperseded extends LockstockError {}
/** The function ran, but no server confirmed that its `result`, or its failure, is stored. */
export class OnceDoubtful extends LockstockError { readonly result: unknown }
/** Nothing was taken. outcome: "LIMITED", "IN_PROGRESS", "MISMATCH", "OUT_OF_STOCK", "BUSY", "TIMED_OUT" or "TOKEN_SPENT". */
export class EnterRefused extends LockstockError { readonly outcome: string; readonly answer: EnterAnswer }
/** The hold of an entry ended before the entry was left; nothing was stored. */
export class HoldEnded extends LockstockError {}
export class StockRefused extends LockstockError { readonly outcome: string; readonly lines: LineStock[] }
export class SoldOut extends StockRefused {}
/** Thrown by a function under `once` to make the failure its result. */
export class GiveUp extends Error {}
