/** The root of all errors of this package; index.d.ts describes the members. */
export class LockstockError extends Error {
  constructor(message, { code = "OK", applied = "NO", reason = "", field = "", retryAfterMs, ...more } = {}) {
    super(code === "OK" ? message : `${code}${field ? ` (${field})` : ""}, applied ${applied}: ${message}`);
    Object.assign(this, { code, applied, reason, field, retryAfterMs, ...more });
    this.name = new.target.name;
  }
}
export class CallError extends LockstockError {}
export class LockBusy extends LockstockError {}
export class LockTimedOut extends LockBusy {}
export class LockLost extends LockstockError {
  constructor(message) {
    super(message, { applied: "MAYBE", reason: "lease_lost" });
  }
}
export class OnceInProgress extends LockstockError {}
export class OnceMismatch extends LockstockError {}
export class OnceFailed extends LockstockError {
  constructor(message, { detail = "" } = {}) {
    super(message, { applied: "YES", detail });
  }
}
export class OnceSuperseded extends LockstockError {}
export class OnceDoubtful extends LockstockError {}
export class EnterRefused extends LockstockError {}
export class HoldEnded extends LockstockError {}
export class StockRefused extends LockstockError {}
export class SoldOut extends StockRefused {}
/** Thrown by a function under `once` to make the failure its result. */
export class GiveUp extends Error {}
