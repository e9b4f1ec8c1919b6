"""An entry of GuardService, renewed until it is left: an attempt, charges of limits, stock and locks."""
from __future__ import annotations

import secrets
from typing import Any, Dict, Optional, Tuple

from lockstock import _once
from lockstock._calls import Method, methods_of, now
from lockstock._core import Core
from lockstock._keeper import Lease, State
from lockstock.errors import CallError, EnterRefused, Error, GiveUp, HoldEnded, LockLost, OnceFailed, OnceSuperseded
from lockstock.v1 import guard_pb2 as pb2
from lockstock.v1 import idempotency_pb2

METHODS = methods_of(pb2)
LEASE_MS = 30000
PARTS = ("once", "stock", "locks")


def _of_entry(message: Any, request: Any, **fields: Any) -> Any:
    """A Renew or Leave with the parts of the Enter."""
    made = message(group=request.group, token=request.token, **fields)
    for part in PARTS:
        if request.HasField(part):
            getattr(made, part).CopyFrom(getattr(request, part))
    return made


class EntryLease(Lease):
    def __init__(self, request: Any, lease_ms: int, sent: float) -> None:
        super().__init__(lease_ms / 1000, sent, f"the entry {request.token}", None)
        self.request = _of_entry(pb2.GuardServiceRenewRequest, request, lease_ms=request.lease_ms)

    def question(self) -> Tuple[Method, Any]:
        return METHODS["Renew"], self.request

    def answered(self, response: Any, sent: float) -> None:
        if response.outcome == pb2.RENEW_GUARD_OUTCOME_RENEWED:
            self.extended(self.request.lease_ms / 1000, sent)
        else:
            lost = pb2.RenewGuardOutcome.Name(response.outcome)[len("RENEW_GUARD_OUTCOME_"):]
            self.state, self.why = State.LOST, lost.lower().replace("_", " ")


class HeldEntry:
    """The state of an entry. Thread-safe."""

    def __init__(self, core: Core, request: pb2.EnterRequest) -> None:
        self._core = core
        self._request = pb2.EnterRequest()
        self._request.CopyFrom(request)
        self._lease: Optional[EntryLease] = None
        self._end = pb2.LeaveRequest()
        self.answer = pb2.EnterResponse()
        """The server's answer: rules, lines, fences, what is left of the hold."""

    @property
    def result(self) -> Optional[idempotency_pb2.StoredResult]:
        """The result of an earlier attempt: then nothing was taken, and there is nothing to do. Otherwise None."""
        return self.answer.result if self.answer.outcome == pb2.ENTER_OUTCOME_REPLAY else None

    @property
    def fences(self) -> Dict[str, int]:
        """The fence of each lock."""
        return {fence.name: fence.fence for fence in self.answer.fences}

    @property
    def attempt(self) -> int:
        """1 for the key's first attempt; more: an earlier attempt did not end."""
        return int(self.answer.attempt)

    @property
    def lost(self) -> bool:
        """Whether another caller may have the attempt or a lock."""
        return self._lease is not None and self._lease.lost

    def check(self) -> None:
        """Raises LockLost if it is lost."""
        if self._lease is not None and self._lease.lost:
            raise LockLost(self._lease.reason())

    def store(self, body: bytes, *, code: int = 0) -> None:
        """Sets the result for all later callers; a later call replaces it. If it is too large, leaving the block stores code -1,
        which all later callers get, and raises OnceFailed. A request without `once` stores nothing."""
        self._end = pb2.LeaveRequest(body=body, code=code)

    def _can_give_back(self) -> bool:
        return self._request.HasField("once") or self._request.HasField("locks") or self._request.stock.hold_ms > 0

    def _undo(self) -> Any:
        return _of_entry(pb2.LeaveRequest, self._request, kind=pb2.LEAVE_KIND_RETRYABLE)

    def _give_back(self) -> None:
        if self._can_give_back():
            self._core.keeper.insist(METHODS["Leave"], self._undo())

    async def _enter(self) -> None:
        request, sent = self._request, now()
        request.token = request.token or secrets.token_hex(16)
        request.owner = request.owner or self._core.owner
        request.lease_ms = request.lease_ms or LEASE_MS
        try:
            self.answer, doubt = await self._core.caller.call_told(METHODS["Enter"], request)
        except BaseException as error:
            if not isinstance(error, Error) or error.applied != "NO":
                self._give_back()
            raise
        if self.answer.outcome == pb2.ENTER_OUTCOME_REPLAY:
            return
        if self.answer.outcome != pb2.ENTER_OUTCOME_ENTERED:
            if doubt and self._can_give_back():
                await self._core.spend(METHODS["Leave"], self._undo())
            raise EnterRefused(self.answer)
        if not (request.HasField("once") or request.HasField("locks")):
            return
        lease = EntryLease(request, self.answer.lease_ms, sent)
        if now() >= lease.due:  # after a long wait, the lease counts from a first Renew
            sent = now()
            try:
                renewed = await self._core.caller.call(METHODS["Renew"], lease.request, request.lease_ms / 1000, True)
            except BaseException:
                self._give_back()
                raise
            lease.answered(renewed, sent)
            if lease.state == State.LOST:
                self._give_back()
                raise LockLost(lease.reason())
        self._lease = lease
        self._core.keeper.add(lease)

    async def _leave(self, error: Optional[BaseException]) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._core.keeper.end(lease)
        if self.answer.outcome != pb2.ENTER_OUTCOME_ENTERED:
            return
        if error is not None and not isinstance(error, GiveUp):
            self._give_back()
            return
        if not self._can_give_back():
            return
        end = _of_entry(pb2.LeaveRequest, self._request, kind=pb2.LEAVE_KIND_COMPLETE)
        if self._request.HasField("once"):  # without it, nothing is stored
            end.body, end.code = self._end.body, self._end.code
        if isinstance(error, GiveUp):
            end = _of_entry(pb2.LeaveRequest, self._request, kind=pb2.LEAVE_KIND_FINAL, detail=_once.cut(error.detail))
        detail = ""
        try:
            answer = await self._end_with(end)
        except CallError as refused:
            if end.kind != pb2.LEAVE_KIND_COMPLETE or not _once.is_refused(refused):
                raise
            # The block has run, and must not run again.
            detail = _once.not_stored(refused.message)
            header = idempotency_pb2.ResultHeader(key="failure", value=detail)
            answer = await self._end_with(_of_entry(pb2.LeaveRequest, self._request, kind=pb2.LEAVE_KIND_COMPLETE,
                                                    code=_once.FINAL_FAILURE, headers=[header]))
        if answer.outcome == pb2.LEAVE_OUTCOME_SUPERSEDED:
            raise OnceSuperseded(f"the entry {self._request.token}: another attempt has taken over")
        if answer.outcome == pb2.LEAVE_OUTCOME_HOLD_ENDED:
            self._give_back()
            raise HoldEnded("the hold has ended; nothing was stored")
        if detail:
            raise OnceFailed(f"the entry {self._request.token}: {detail}", detail=detail)

    async def _end_with(self, end: Any) -> Any:
        try:
            return await self._core.caller.call(METHODS["Leave"], end,
                                                max(self._request.lease_ms / 1000, self._core.caller.target.timeout), True)
        except BaseException as error:
            if not _once.is_refused(error):
                self._core.keeper.insist(METHODS["Leave"], end)
            raise


class Entry(HeldEntry):
    """An entry for `with`. Leaving the block stores the result of `store`, confirms the hold and releases the locks; after an
    exception the next Enter may run it, and after GiveUp every later one replays that."""

    def __enter__(self) -> "Entry":
        self._core.caller.run(self._enter())
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        try:
            self._core.caller.run(self._leave(error))
        except Error:
            if error is None:
                raise


class AsyncEntry(HeldEntry):
    """The same for `async with`."""

    async def __aenter__(self) -> "AsyncEntry":
        await self._enter()
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        try:
            await self._leave(error)
        except Error:
            if error is None:
                raise
