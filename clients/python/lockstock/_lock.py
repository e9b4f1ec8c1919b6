"""Locks: one or several names, exclusive, shared or permits of a semaphore."""
from __future__ import annotations

import asyncio
import secrets
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from lockstock._calls import Method, methods_of, now
from lockstock._core import Core, ms
from lockstock._keeper import Lease, State
from lockstock.errors import CallError, Error, LockBusy, LockLost, LockTimedOut
from lockstock.v1 import lock_pb2

METHODS = methods_of(lock_pb2)


class LockLease(Lease):
    renews = True

    def __init__(self, request: Any, sent: float, seconds: float, max_hold: Optional[float]) -> None:
        names = ", ".join(target.name for target in request.targets)
        super().__init__(seconds, sent, f"the lock {names}", max_hold)
        self.lease = lock_pb2.Lease(group=request.group or request.targets[0].name, token=request.token,
                                    lease_ms=request.lease_ms)

    def question(self) -> Tuple[Method, Any]:
        return METHODS["Renew"], self.lease

    def answered(self, response: Any, sent: float) -> None:
        if response.outcome == lock_pb2.RENEW_OUTCOME_RENEWED:
            self.extended(response.lease_ms / 1000, sent)
        else:
            self.state, self.why = State.LOST, "its lease ended, or an administrator took it away"


def release_of(request: Any) -> Any:
    group = request.group or (request.targets[0].name if len(request.targets) == 1 else "")
    return lock_pb2.ReleaseRequest(group=group, token=request.token)


async def acquire(core: Core, request: Any, max_hold: Optional[float]) -> Tuple[Any, LockLease]:
    """The answer and its lease, which the keeper renews. A grant that cannot be returned to the caller is released."""
    sent = now()
    try:
        answer, doubt = await core.caller.call_told(METHODS["Acquire"], request)
    except BaseException as error:
        if not isinstance(error, Error) or error.applied != "NO":
            core.keeper.insist(METHODS["Release"], release_of(request))
        raise
    if answer.outcome == lock_pb2.ACQUIRE_OUTCOME_ACQUIRED:
        return answer, await keep(core, request, sent, max_hold)
    if doubt:
        await core.spend(METHODS["Release"], release_of(request))
    raise refusal(answer, request)


async def keep(core: Core, request: Any, sent: float, max_hold: Optional[float]) -> LockLease:
    """The lease of a grant, counted from when the request was sent; after a long wait, from when a first Renew was sent."""
    lease = LockLease(request, sent, request.lease_ms / 1000, max_hold)
    if now() >= lease.due:
        sent = now()
        try:
            renewed = await core.caller.call(METHODS["Renew"], lock_pb2.RenewRequest(leases=[lease.lease]),
                                             request.lease_ms / 1000, True)
        except BaseException:
            core.keeper.insist(METHODS["Release"], release_of(request))
            raise
        lease.answered(renewed.results[0], sent)
        if lease.state == State.LOST:
            core.keeper.insist(METHODS["Release"], release_of(request))
            raise LockLost(lease.reason())
    core.keeper.add(lease)
    return lease


def refusal(answer: Any, request: Any) -> Error:
    names = ", ".join(target.name for target in request.targets)
    holder = answer.holder.owner
    after = answer.holder.lease_ms / 1000 or None
    if answer.outcome == lock_pb2.ACQUIRE_OUTCOME_BUSY:
        return LockBusy(f"{answer.holder.name or names} is held by {holder or 'someone'}", holder=holder, retry_after=after)
    if answer.outcome == lock_pb2.ACQUIRE_OUTCOME_TIMED_OUT:
        return LockTimedOut(f"{names}: not within {request.wait_ms} ms; held by {holder or 'someone'}", holder=holder,
                            retry_after=after)
    return LockLost(f"{names}: the token of this acquisition was spent before it was granted")


async def release(core: Core, request: Any, lease: LockLease) -> None:
    """Releases the lock, in the background if no server answers. Raises LockLost if it was already lost."""
    if not core.keeper.end(lease):
        core.keeper.insist(METHODS["Release"], release_of(request))
        raise LockLost(lease.reason())
    try:
        answer = await core.caller.call(METHODS["Release"], release_of(request), None, True)
    except BaseException as error:
        core.keeper.insist(METHODS["Release"], release_of(request))
        if isinstance(error, CallError) and error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            return
        raise
    if answer.outcome != lock_pb2.RELEASE_OUTCOME_RELEASED:
        raise LockLost(lease.reason())


def targets_of(names: Sequence[str], shared: Sequence[str], permits: int, capacity: int) -> List[Any]:
    if capacity:
        return [lock_pb2.Target(name=name, mode=lock_pb2.LOCK_MODE_PERMIT, permits=permits, capacity=capacity)
                for name in names]
    return ([lock_pb2.Target(name=name) for name in names] +
            [lock_pb2.Target(name=name, mode=lock_pb2.LOCK_MODE_SHARED) for name in shared])


class HeldLock:
    """The state of a lock. Thread-safe.

    An object is one lock of one holder. It is not reentrant: a second `acquire` while it is held raises RuntimeError."""

    def __init__(self, core: Core, targets: List[Any], group: str, lease: float, wait: float,
                 max_hold: Optional[float], owner: Optional[str]) -> None:
        if not targets:
            raise ValueError("names: must have at least one name")
        self._core = core
        self._max_hold = max_hold
        self._request = lock_pb2.AcquireRequest(group=group, targets=targets, lease_ms=ms(lease, "lease"),
                                                wait_ms=ms(wait, "wait"), owner=owner or core.owner)
        self._lease: Optional[LockLease] = None
        self.fences: Dict[str, int] = {}
        """The fence of each name."""

    def _begin(self) -> Any:
        if self._lease is not None:
            raise RuntimeError(f"{self._lease.what} is already held by this object")
        request = lock_pb2.AcquireRequest()
        request.CopyFrom(self._request)
        request.token = secrets.token_hex(16)
        self._request = request
        return request

    def _held(self, answer: Any, lease: LockLease) -> None:
        self._lease = lease
        self.fences = {fence.name: fence.fence for fence in answer.fences}

    def _end(self) -> Optional[LockLease]:
        """The lease to release; None in a forked child, because the lock belongs to the parent."""
        lease, self._lease = self._lease, None
        if lease is None:
            raise RuntimeError("the lock is not held by this object")
        return None if lease.remaining == 0 and lease.reason().endswith("forked from") else lease

    @property
    def token(self) -> str:
        return str(self._request.token)

    @property
    def fence(self) -> int:
        """The fence of the first name: pass it to what the lock protects (docs/fencing.md)."""
        return self.fences[self._request.targets[0].name]

    @property
    def lost(self) -> bool:
        """Whether another caller may have the lock: a server said so, or the lease may have ended."""
        return self._lease is not None and self._lease.lost

    @property
    def remaining(self) -> float:
        """Seconds during which no other caller gets the lock, unless the holder is suspended."""
        return self._lease.remaining if self._lease else 0.0

    def check(self) -> None:
        """Raises LockLost if the lock is lost."""
        if self._lease is None:
            raise RuntimeError("the lock is not held by this object")
        if self._lease.lost:
            raise LockLost(self._lease.reason())

    def on_lost(self, tell: Callable[[], None]) -> None:
        """Calls `tell` once, on the keeper's thread, when the lock is lost. The lock must be held."""
        if self._lease is None:
            raise RuntimeError("the lock is not held by this object")
        self._lease.on_lost.append(tell)


class Lock(HeldLock):
    """A lock for `with`. Leaving the block releases it, and raises LockLost if it was lost and the block raised nothing."""

    def acquire(self) -> "Lock":
        """Takes the lock, after `wait` at most. Raises LockBusy, LockTimedOut or CallError."""
        request = self._begin()
        self._held(*self._core.caller.run(acquire(self._core, request, self._max_hold)))
        return self

    def release(self) -> None:
        """Releases the lock, in the background if no server answers. Raises LockLost."""
        lease = self._end()
        if lease:
            self._core.caller.run(release(self._core, self._request, lease))

    def __enter__(self) -> "Lock":
        return self.acquire()

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        try:
            self.release()
        except Error:
            if error is None:
                raise


class AsyncLock(HeldLock):
    """A lock for `async with`. When it is lost the block is cancelled, and the statement raises LockLost."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._task: Optional["asyncio.Task[Any]"] = None
        self._cancelled = False

    async def acquire(self) -> "AsyncLock":
        """Takes the lock, after `wait` at most. Raises LockBusy, LockTimedOut or CallError."""
        request = self._begin()
        self._held(*await acquire(self._core, request, self._max_hold))
        return self

    async def release(self) -> None:
        """Releases the lock, even if this coroutine is cancelled. Raises LockLost."""
        lease = self._end()
        if lease:
            await release(self._core, self._request, lease)

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._cancelled = True
            self._task.cancel()

    async def __aenter__(self) -> "AsyncLock":
        await self.acquire()
        loop, self._cancelled, self._task = asyncio.get_running_loop(), False, asyncio.current_task()
        self.on_lost(lambda: _tell(loop, self._cancel))
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        task, self._task = self._task, None
        by_loss = self._cancelled and isinstance(error, asyncio.CancelledError)
        if by_loss and task is not None and hasattr(task, "uncancel"):
            task.uncancel()
        try:
            await self.release()
        except Error:
            if error is None or by_loss:
                raise


def _tell(loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        pass  # the loop was closed, and with it the block that held the lock
