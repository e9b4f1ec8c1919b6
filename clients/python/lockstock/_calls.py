"""One call: its tries, the pauses between them, and whether it was applied (docs/client.md, "Deadlines and tries").

The logic of this package is written once, as coroutines. A Link either waits in asyncio, or blocks the thread and never
suspends; `Caller.run` runs a coroutine over a link of the second kind."""
from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from dataclasses import dataclass
from typing import Any, Coroutine, Dict, Optional, Protocol, Tuple, TypeVar

import grpc
import grpc.aio

from lockstock import _status_pb2 as status_pb2
from lockstock._target import Target, check_timeout
from lockstock.errors import CallError
from lockstock.rpc.v1 import options_pb2

T = TypeVar("T")
RANK = {"NO": 0, "MAYBE": 1, "YES": 2}
TEMPORARY = {"RESOURCE_EXHAUSTED", "INTERNAL", "CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED"}
TRY_MIN_S, TRY_MAX_S = 0.02, 1.5
PAUSE_MIN_S, PAUSE_MAX_S = 0.01, 0.64
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds of a monotonic clock. If the system has one that also runs while the machine sleeps, uses that."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Method:
    """A method of a service, and the field by which a repeated call is recognised."""
    path: str
    request: Any
    response: Any
    reads: bool
    natural_id: Tuple[str, ...]
    fills: bool
    first_try: str
    waits: bool


def _method(service: Any, method: Any, module: Any) -> Method:
    options = method.GetOptions().Extensions
    natural = options[options_pb2.natural_id]
    fields = method.input_type.fields
    first = [one.name for one in fields if one.GetOptions().Extensions[options_pb2.first_try]]
    return Method(f"/{service.full_name}/{method.name}", getattr(module, method.input_type.name),
                  getattr(module, method.output_type.name), options[options_pb2.effect] == options_pb2.EFFECT_READ,
                  tuple(natural.field.split(".")) if natural.field else (), natural.fill == options_pb2.FILL_RANDOM,
                  first[0] if first else "", any(one.name == "wait_ms" for one in fields))


def methods_of(module: Any) -> Dict[str, Method]:
    """The methods of the one service of a module that protoc made."""
    (service,) = module.DESCRIPTOR.services_by_name.values()
    return {method.name: _method(service, method, module) for method in service.methods}


def _is_set(message: Any, path: Tuple[str, ...]) -> bool:
    value = getattr(message, path[0])
    if len(path) == 1:
        return bool(value)
    return len(value) > 0 and all(_is_set(one, path[1:]) for one in value)


def error_of(error: Any) -> CallError:
    """Converts a grpc.RpcError to an error of this package. `applied` is MAYBE unless the server said otherwise."""
    trailers = {key: value for key, value in error.trailing_metadata() or ()}  # not a mapping in grpc.aio
    code = error.code().name
    said = trailers.get("lockstock-applied")
    reason, field = "", ""
    for detail in status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b"")).details:
        name = detail.type_url.rpartition("/")[2]
        if name == "google.rpc.ErrorInfo":
            reason = status_pb2.ErrorInfo.FromString(detail.value).reason
        elif name == "google.rpc.BadRequest":
            field = status_pb2.BadRequest.FromString(detail.value).field_violations[0].field
    if said is None and code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
        reason = "connection_lost" if code == "UNAVAILABLE" else "deadline_exceeded"
    after = trailers.get("retry-after-ms")
    told = CallError(error.details() or code, code=code, applied=said or "MAYBE", reason=reason, field=field,
                     retry_after=int(after) / 1000 if after else None)
    told.__cause__ = error
    return told


class Link(Protocol):
    """Connections to the servers of a target. `choose` returns a connected one, or None after `within` seconds. `why`
    returns why the last server is not connected; "" when unknown."""

    closed: bool

    async def choose(self, within: float) -> Any: ...
    async def send(self, server: Any, method: Method, request: Any, timeout: float) -> Any: ...
    async def pause(self, seconds: float) -> None: ...
    async def why(self) -> str: ...
    def fails(self, server: Any) -> None: ...


def is_temporary(error: CallError) -> bool:
    """Whether a later try may succeed, because the refusal depends on the state of the server, not on the request."""
    return error.code == "UNAVAILABLE" or (error.code in TEMPORARY and error.reason != "too_large")


class _Tries:
    """The common state of the tries of one call."""

    def __init__(self, method: Method, request: Any, timeout: float, insist: bool) -> None:
        self.method, self.insist = method, insist
        if method.fills and not _is_set(request, method.natural_id):
            request = _copy(request)
            setattr(request, method.natural_id[0], secrets.token_hex(16))
        self.request = request
        self.repeats = method.reads or bool(method.natural_id and _is_set(request, method.natural_id))
        self.deadline = now() + timeout
        self.wait: float = request.wait_ms / 1000 if method.waits else 0.0
        self.applied = "NO"
        self.pause = PAUSE_MIN_S

    def left(self) -> float:
        return self.deadline - now()

    def seconds(self) -> float:
        """How long the next try may take: a part of the remaining time, if another try is possible after it."""
        left = self.left()
        if not self.repeats:
            return left
        most = self.wait + 1 if self.wait else max(TRY_MIN_S, min(left / 2, TRY_MAX_S))
        return min(left, most)

    def failed(self, error: CallError) -> Optional[float]:
        """The pause before the next try; None: the call has failed, with error.applied for all tries together."""
        again = error.code == "UNAVAILABLE" or error.reason == "deadline_exceeded"
        again = again and (error.applied == "NO" or self.repeats)
        again = again or (self.insist and error.applied == "NO" and is_temporary(error))
        if RANK[error.applied] < RANK[self.applied]:
            error.applied = self.applied
        self.applied = error.applied
        if self.applied != "NO" and self.method.first_try and getattr(self.request, self.method.first_try):
            self.request = _copy(self.request)
            setattr(self.request, self.method.first_try, False)
        pause = self.pause * (0.5 + random.random() / 2) + (error.retry_after or 0)
        self.pause = min(self.pause * 2, PAUSE_MAX_S)
        return pause if again and pause < self.left() else None


def _copy(request: Any) -> Any:
    copy = type(request)()
    copy.CopyFrom(request)
    return copy


def _unreachable(target: Target, why: str) -> CallError:
    names = ", ".join(address for address, _ in target.addresses) + (f": {why}" if why else "")
    return CallError(f"no server can be reached: {names}", code="UNAVAILABLE", applied="NO", reason="server_unreachable")


def _is_cancelling() -> bool:
    """Whether somebody cancelled this task. Before Python 3.11 this is unknown: True."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


class Caller:
    """Makes calls over a link. With a blocking link, any thread may use it."""

    def __init__(self, target: Target, link: Link) -> None:
        self.target = target
        self.link = link

    async def call(self, method: Method, request: Any, timeout: Optional[float] = None, insist: bool = False) -> Any:
        """The answer, or CallError. timeout: in seconds; None: the target's, and the request's wait_ms in addition."""
        return (await self.call_told(method, request, timeout, insist))[0]

    async def call_told(self, method: Method, request: Any, timeout: Optional[float] = None,
                        insist: bool = False) -> Tuple[Any, bool]:
        """The answer, and whether an earlier, unanswered try may have been applied."""
        if self.target.pid != os.getpid():
            raise CallError("this client was connected before fork(); connect again in the child",
                            code="FAILED_PRECONDITION", reason="wrong_state")
        if timeout is None:
            timeout = self.target.timeout + (request.wait_ms / 1000 if method.waits else 0)
        check_timeout(timeout)
        tries = _Tries(method, request, timeout, insist)
        error: Optional[CallError] = None
        while True:
            self._check_open(tries.applied)
            try:
                server = await self.link.choose(tries.left())
                self._check_open(tries.applied)
                if server is None:
                    error = error or _unreachable(self.target, await self.link.why())
                    error.applied = tries.applied
                    raise error
                return await self.link.send(server, method, tries.request, tries.seconds()), tries.applied != "NO"
            except grpc.RpcError as rpc_error:
                error = error_of(rpc_error)
            except (ValueError, grpc.aio.UsageError):  # of grpcio, for a closed channel: nothing was sent
                self._check_open(tries.applied)
                raise
            except asyncio.CancelledError:
                if self.link.closed and not _is_cancelling():  # close() cancelled the call, and nobody this task
                    self._check_open("MAYBE")
                raise
            if error.reason in ("connection_lost", "deadline_exceeded") or error.code == "UNAVAILABLE":
                self.link.fails(server)
            pause = tries.failed(error)
            if pause is None:
                raise error
            await self.link.pause(pause)

    def _check_open(self, applied: str) -> None:
        if self.link.closed:
            raise CallError("the client is closed", code="CANCELLED", applied=applied)

    @staticmethod
    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine over a blocking link."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise RuntimeError("a blocking link has suspended")
