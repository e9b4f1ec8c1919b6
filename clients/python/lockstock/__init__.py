"""Locks that renew themselves, stock that is never oversold, calls that run once, rate limits and ids, from lockstockd.

    with lockstock.connect("grpc://127.0.0.1:7701") as ls:
        with ls.lock("report", lease=10, wait=2) as held:
            save(fence=held.fence)

`lockstock.aio.connect` gives the same for asyncio. All durations are seconds. Errors: lockstock.errors."""
from lockstock import aio
from lockstock._client import Client, connect
from lockstock._entry import Entry
from lockstock._limit import Decision
from lockstock._lock import Lock
from lockstock._once import Attempt, attempt
from lockstock._stock import Reservation
from lockstock.errors import (CallError, EnterRefused, Error, GiveUp, HoldEnded, LedgerTrimmed, LockBusy, LockLost, LockTimedOut, OnceDoubtful,
                              OnceFailed, OnceInProgress, OnceMismatch, OnceSuperseded, SoldOut, StockRefused)

__all__ = ["Attempt", "CallError", "Client", "Decision", "EnterRefused", "Entry", "Error", "GiveUp", "HoldEnded", "LedgerTrimmed", "Lock", "LockBusy", "LockLost",
           "LockTimedOut", "OnceDoubtful", "OnceFailed", "OnceInProgress", "OnceMismatch", "OnceSuperseded", "Reservation",
           "SoldOut", "StockRefused", "aio", "attempt", "connect"]
