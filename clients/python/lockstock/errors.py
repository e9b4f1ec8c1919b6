"""The errors of this package."""
from __future__ import annotations

from typing import List, Optional

from lockstock.v1 import guard_pb2


class Error(Exception):
    """The root of all errors of this package.

    code         the gRPC code by name ("UNAVAILABLE"); "OK" when a server answered and refused
    applied      "NO": nothing was changed, and nothing will be; "MAYBE": unknown; "YES": it was changed
    reason       a fixed word for programs ("store_unreachable"); "" if there is none
    field        the path of the invalid field of the request ("targets[0].name"); "" if there is none
    retry_after  seconds after which to try again; None: unknown, or never
    """

    def __init__(self, message: str, *, code: str = "OK", applied: str = "NO", reason: str = "", field: str = "",
                 retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.applied = applied
        self.reason = reason
        self.field = field
        self.retry_after = retry_after

    def __str__(self) -> str:
        if self.code == "OK":
            return self.message
        where = f" ({self.field})" if self.field else ""
        return f"{self.code}{where}, applied {self.applied}: {self.message}"


class CallError(Error):
    """A call failed: no server could be reached, or a server answered with an error."""


class LockBusy(Error):
    """Another caller holds the lock; `holder` is its owner text, `retry_after` the rest of its lease."""

    def __init__(self, message: str, *, holder: str, retry_after: Optional[float]) -> None:
        super().__init__(message, reason="busy", retry_after=retry_after)
        self.holder = holder


class LockTimedOut(LockBusy):
    """The lock was not acquired within `wait`."""


class LockLost(Error):
    """The lock may not be held any more: its lease ended, or an administrator took it away."""

    def __init__(self, message: str) -> None:
        super().__init__(message, applied="MAYBE", reason="lease_lost")


class OnceInProgress(Error):
    """Another attempt is running; `retry_after` is the rest of its lease."""

    def __init__(self, message: str, *, retry_after: Optional[float]) -> None:
        super().__init__(message, reason="busy", retry_after=retry_after)


class OnceMismatch(Error):
    """The key was used before, with another fingerprint."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="id_reused")


class OnceFailed(Error):
    """The attempt gave up (GiveUp), or its result cannot be stored: it is too large, or not representable. That is stored,
    and all later callers get it. `detail` is the text."""

    def __init__(self, message: str, *, detail: str) -> None:
        super().__init__(message, applied="YES")
        self.detail = detail


class OnceSuperseded(Error):
    """The function ran longer than its lease, and another attempt took over. Its result is not used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="lease_lost")


class OnceDoubtful(Error):
    """The function ran, but no server confirmed that its result, or its failure, is stored. `result` is its return value.
    The next caller may run the function again."""

    def __init__(self, message: str, *, result: object) -> None:
        super().__init__(message, applied="MAYBE")
        self.result = result


class GiveUp(Exception):
    """Raised by a function under `once` to make the failure its result. Later callers get OnceFailed with `detail`."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class StockRefused(Error):
    """The order was refused; `outcome` says why ("BUYER_LIMIT", "NOT_OPEN", "CLOSED", "UNKNOWN_SKU", "EXPIRED", ...)."""

    def __init__(self, message: str, *, outcome: str, lines: Optional[List[object]] = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.lines = lines or []


class SoldOut(StockRefused):
    """Not enough stock for at least one line; `lines` has the available quantities."""


class EnterRefused(Error):
    """An Enter was refused, and nothing was taken: `outcome` says why ("LIMITED", "IN_PROGRESS", "MISMATCH",
    "OUT_OF_STOCK", "BUSY", "TIMED_OUT", "TOKEN_SPENT"), and `answer` has the details."""

    def __init__(self, answer: guard_pb2.EnterResponse) -> None:
        self.outcome = guard_pb2.EnterOutcome.Name(answer.outcome)[len("ENTER_OUTCOME_"):]
        super().__init__(f"refused: {self.outcome}", retry_after=answer.retry_after_ms / 1000 if answer.retry_after_ms > 0 else None,
                         reason={"LIMITED": "rate_limited", "MISMATCH": "id_reused", "OUT_OF_STOCK": ""}.get(self.outcome, "busy"))
        self.answer = answer


class HoldEnded(Error):
    """The hold of an entry ended before the entry was left; nothing was stored."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="lease_lost")


class LedgerTrimmed(Error):
    """Entries after `after` were trimmed; `oldest_id` is the oldest remaining entry."""

    def __init__(self, message: str, *, oldest_id: str) -> None:
        super().__init__(message)
        self.oldest_id = oldest_id
