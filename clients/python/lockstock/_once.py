"""A function that runs once per key: the first caller runs it, all others get its result."""
from __future__ import annotations

import contextlib
import functools
import inspect
import json
import operator
import secrets
import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Iterator, Optional, Tuple, TypeVar, Union

from lockstock._calls import Method, methods_of, now
from lockstock._core import Core, ms
from lockstock._keeper import Lease, Next, State
from lockstock.errors import (CallError, Error, GiveUp, LockLost, OnceDoubtful, OnceFailed, OnceInProgress, OnceMismatch,
                              OnceSuperseded)
from lockstock.v1 import idempotency_pb2 as pb2

METHODS = methods_of(pb2)
DETAIL_BYTES_MAX = 1024
FINAL_FAILURE = -1
F = TypeVar("F", bound=Callable[..., Any])
Key = Union[str, int, uuid.UUID]


@dataclass(frozen=True)
class OnceOptions:
    scope: str
    key: Callable[..., Key]
    lease: float
    retain: float
    wait: float
    fingerprint: Optional[Callable[..., Union[str, bytes]]]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


class Attempt(Lease):
    """The attempt of a function under `once`, returned by attempt(). Thread-safe."""

    def __init__(self, request: Any, answer: Any, sent: float) -> None:
        super().__init__(request.lease_ms / 1000, sent, f"the attempt at {request.scope}/{request.key}", None)
        self.request = pb2.ExtendRequest(scope=request.scope, key=request.key, fence=answer.fence, lease_ms=request.lease_ms)
        self.number = int(answer.attempt)
        """1 for the first; more: an earlier attempt did not end."""
        self.fence = int(answer.fence)
        """Greater than that of each earlier attempt."""

    def check(self) -> None:
        """Raises LockLost if another attempt may have begun."""
        if self.lost:
            raise LockLost(self.reason())

    def question(self) -> Tuple[Method, Any]:
        return METHODS["Extend"], self.request

    def answered(self, response: Any, sent: float) -> None:
        if response.outcome == pb2.EXTEND_OUTCOME_EXTENDED:
            self.extended(self.seconds, sent)
        else:
            self.state, self.why = State.LOST, "its lease ended, and another attempt may have begun"


_current: ContextVar[Optional[Attempt]] = ContextVar("lockstock_attempt", default=None)


def attempt() -> Attempt:
    """The attempt that this code runs in. Raises RuntimeError outside of a function under `once`."""
    found = _current.get()
    if found is None:
        raise RuntimeError("attempt() must be called in a function under `once`")
    return found


def to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def cut(detail: object) -> str:
    """The detail of a failure as a server takes it."""
    return str(detail).encode(errors="replace")[:DETAIL_BYTES_MAX].decode(errors="ignore").replace("\0", "")


def _failed(request: Any, fence: int, kind: int, detail: str) -> Tuple[Method, Any]:
    return METHODS["Fail"], pb2.FailRequest(scope=request.scope, key=request.key, fence=fence,
                                            kind=kind, detail=cut(detail))  # type: ignore[arg-type]


def _unused(request: Any, fence: int) -> Tuple[Method, Any]:
    return _failed(request, fence, pb2.FAIL_KIND_RETRYABLE, "the caller left before its attempt began")


def _abandon(core: Core, request: Any) -> None:
    """Ends an attempt that may have begun and is not run. Repeats the Begin to get its fence."""
    def end(answer: Any) -> Next:
        return _unused(request, answer.fence) if answer.outcome == pb2.BEGIN_OUTCOME_EXECUTE else None

    again = pb2.BeginRequest()
    again.CopyFrom(request)
    again.wait_ms = 0
    core.keeper.insist(METHODS["Begin"], again, end)


async def begin(core: Core, request: Any) -> Union[Attempt, Any]:
    """An Attempt to run, or the StoredResult of an earlier one."""
    sent = now()
    try:
        answer = await core.caller.call(METHODS["Begin"], request)
    except BaseException as error:
        if not isinstance(error, Error) or error.applied != "NO":
            _abandon(core, request)
        raise
    name = f"{request.scope}/{request.key}"
    if answer.outcome == pb2.BEGIN_OUTCOME_REPLAY:
        return answer.result
    if answer.outcome == pb2.BEGIN_OUTCOME_IN_PROGRESS:
        raise OnceInProgress(f"another attempt at {name} is running", retry_after=answer.retry_after_ms / 1000)
    if answer.outcome == pb2.BEGIN_OUTCOME_MISMATCH:
        raise OnceMismatch(f"{name} was used before with another fingerprint")
    running = Attempt(request, answer, sent)
    if now() >= running.due:
        sent = now()
        try:
            extended = await core.caller.call(METHODS["Extend"], running.request, request.lease_ms / 1000, True)
        except BaseException:
            core.keeper.insist(*_unused(request, running.fence))
            raise
        running.answered(extended, sent)
        if running.state == State.LOST:
            raise OnceSuperseded(running.reason())
    core.keeper.add(running)
    return running


def not_stored(error: object) -> str:
    return f"the function ran, but its result cannot be stored: {error}"


def is_refused(error: BaseException) -> bool:
    """Whether a server refuses the result itself: it is too large."""
    return isinstance(error, CallError) and (error.code == "INVALID_ARGUMENT" or error.reason == "too_large")


async def complete(core: Core, running: Attempt, options: OnceOptions, value: Any) -> Any:
    """Stores the result, and returns what later callers get. A result that cannot be stored is a final failure: the function
    has run, and must not run again."""
    try:
        body = bytes_of(options.encode(value))
        request = pb2.CompleteRequest(scope=running.request.scope, key=running.request.key, fence=running.fence, body=body)
    except Exception as error:
        await fail(core, running, GiveUp(not_stored(error)), value)
        raise
    refused = await _store(core, running, request, value)
    if refused is not None:
        await fail(core, running, GiveUp(not_stored(refused.message)), value)
    return options.decode(body)


async def _store(core: Core, running: Attempt, request: Any, value: Any) -> Optional[CallError]:
    """Tries as long as the lease. Returns the error if a server refuses the result itself."""
    try:
        answer = await core.caller.call(METHODS["Complete"], request,
                                        max(running.remaining, core.caller.target.timeout), True)
    except CallError as error:
        if is_refused(error):
            return error
        raise OnceDoubtful(f"{running.what}: no server confirmed its result: {error.message}", result=value) from error
    except BaseException:
        core.keeper.insist(METHODS["Complete"], request)
        raise
    finally:
        core.keeper.end(running)
    if answer.outcome != pb2.COMPLETE_OUTCOME_STORED:
        raise OnceSuperseded(f"{running.what}: another one has taken over")
    return None


async def fail(core: Core, running: Attempt, error: BaseException, value: Any = None) -> None:
    """Ends the attempt of a function that raised: the next caller runs it again, unless it gave up. value: what it returned."""
    core.keeper.end(running)
    if not isinstance(error, GiveUp):
        core.keeper.insist(*_failed(running.request, running.fence, pb2.FAIL_KIND_RETRYABLE, f"{type(error).__name__}: {error}"))
        return
    method, request = _failed(running.request, running.fence, pb2.FAIL_KIND_FINAL, error.detail)
    try:
        answer = await core.caller.call(method, request, None, True)
    except BaseException as failure:
        core.keeper.insist(method, request)
        if not isinstance(failure, CallError):
            raise
        raise OnceDoubtful(f"{running.what}: no server confirmed its failure ({error.detail}): {failure.message}",
                           result=value) from failure
    if answer.outcome != pb2.FAIL_OUTCOME_STORED:
        raise OnceSuperseded(f"{running.what}: another one has taken over")
    raise OnceFailed(f"{running.what} failed for good: {error.detail}", detail=error.detail) from error


def key_of(value: Any) -> str:
    """The key as text. Of another type, different calls could have the same text, or equal ones different texts."""
    if isinstance(value, str):
        return str.__str__(value)  # str() of an Enum is the name of its member
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"key: must be a str, an int or a UUID, not {type(value).__name__}")
    return str(int(operator.index(value)))


def bytes_of(value: Any) -> Any:
    """A bytearray or a memoryview as bytes. Another value is returned unchanged."""
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def request_of(options: OnceOptions, args: Any, kwargs: Any) -> Any:
    fingerprint = bytes_of(options.fingerprint(*args, **kwargs)) if options.fingerprint else b""
    if not isinstance(fingerprint, (str, bytes)):
        raise TypeError(f"fingerprint: must be a str or bytes, not {type(fingerprint).__name__}")
    return pb2.BeginRequest(scope=options.scope, key=key_of(options.key(*args, **kwargs)), attempt_token=secrets.token_hex(16),
                            fingerprint=fingerprint.encode() if isinstance(fingerprint, str) else fingerprint,
                            lease_ms=ms(options.lease, "lease"), retain_ms=ms(options.retain, "retain"),
                            wait_ms=ms(options.wait, "wait"))


def stored(options: OnceOptions, request: Any, result: Any) -> Any:
    if result.code == FINAL_FAILURE:
        detail = next((header.value for header in result.headers), "")
        raise OnceFailed(f"the attempt at {request.scope}/{request.key} failed for good: {detail}", detail=detail)
    return options.decode(result.body)


@contextlib.contextmanager
def running_in(running: Attempt) -> Iterator[None]:
    token = _current.set(running)
    try:
        yield
    finally:
        _current.reset(token)


def is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def wrap(core: Core, options: OnceOptions, function: F) -> F:
    """The function for threads."""
    if is_async(function):
        raise TypeError("once: must not be an async function; lockstock.aio takes these")

    @functools.wraps(function)
    def once(*args: Any, **kwargs: Any) -> Any:
        request = request_of(options, args, kwargs)
        found = core.caller.run(begin(core, request))
        if not isinstance(found, Attempt):
            return stored(options, request, found)
        try:
            with running_in(found):
                value = function(*args, **kwargs)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError("once: the function must not return an awaitable; lockstock.aio takes async functions")
        except BaseException as error:
            core.caller.run(fail(core, found, error))
            raise
        return core.caller.run(complete(core, found, options, value))
    return once  # type: ignore[return-value]


def wrap_async(core: Core, options: OnceOptions, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The function for asyncio."""
    @functools.wraps(function)
    async def once(*args: Any, **kwargs: Any) -> Any:
        request = request_of(options, args, kwargs)
        found = await begin(core, request)
        if not isinstance(found, Attempt):
            return stored(options, request, found)
        try:
            with running_in(found):
                value: Any = function(*args, **kwargs)
                if inspect.isawaitable(value):
                    value = await value
        except BaseException as error:
            await fail(core, found, error)
            raise
        return await complete(core, found, options, value)
    return once
