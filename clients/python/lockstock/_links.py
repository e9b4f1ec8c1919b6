"""The two kinds of links: one blocks the calling thread, the other waits in asyncio."""
from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set

import grpc
import grpc.aio

from lockstock._calls import Method, now
from lockstock._target import Target

WATCH_AGAIN_S = 0.2
WHY_S = 0.2
HEALTH = "/grpc.health.v1.Health/Check"  # a call that changes nothing, to get its error


def _why(error: Any) -> str:
    """The text of grpcio after "last error: " for a connection that failed."""
    if error.code() != grpc.StatusCode.UNAVAILABLE:
        return ""
    return str(error.details() or "").rpartition("last error: ")[2].replace("UNKNOWN: ", "", 1)


class _Server:
    """A channel to one server. `ready`: whether it is connected."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.ready = False
        self.watch: Optional[Callable[[Any], None]] = None
        self.watch_again = 0.0  # grpcio replaces a lost connection only when asked
        self.methods: Dict[str, Callable[..., Any]] = {}

    def method(self, method: Method) -> Callable[..., Any]:
        found = self.methods.get(method.path)
        if found is None:
            found = self.channel.unary_unary(method.path, request_serializer=method.request.SerializeToString,
                                             response_deserializer=method.response.FromString)
            self.methods[method.path] = found
        return found


class _Servers:
    """Equal servers: calls stay with one until it fails."""

    def __init__(self, target: Target, insecure: Callable[..., Any], secure: Callable[..., Any]) -> None:
        self.target = target
        self.servers = [_Server(secure(address, target.credentials(), target.options) if tls
                                else insecure(address, target.options)) for address, tls in target.addresses]
        self.current = 0
        self.closed = False

    def connected(self) -> Optional[_Server]:
        for at in range(len(self.servers)):
            index = (self.current + at) % len(self.servers)
            if self.servers[index].ready:
                self.current = index
                return self.servers[index]
        return None

    def fails(self, server: _Server) -> None:
        """A call on the server was lost: chooses another server, if one is connected."""
        self.current = (self.servers.index(server) + 1) % len(self.servers)


class ThreadLink(_Servers):
    """Blocks. Thread-safe."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, grpc.insecure_channel, grpc.secure_channel)
        self._changed = threading.Condition()

    def _watch(self, server: _Server) -> None:
        """Connects and follows the state: calls are sent only over a connection, so that unsent calls are known to be unsent."""
        def on_state(state: Any) -> None:
            with self._changed:
                server.ready = state == grpc.ChannelConnectivity.READY
                self._changed.notify_all()

        if server.watch is not None:
            server.channel.unsubscribe(server.watch)
        server.watch, server.watch_again = on_state, now() + WATCH_AGAIN_S
        server.channel.subscribe(on_state, try_to_connect=True)

    async def choose(self, within: float) -> Optional[_Server]:
        server = self.servers[self.current]
        return server if server.ready else self._wait(within)

    def look(self) -> Optional[_Server]:
        """A connected server, or None. Does not wait, but makes all others connect."""
        with self._changed:
            for server in self.servers:
                if not server.ready and now() >= server.watch_again:
                    self._watch(server)
            return self.connected()

    def _wait(self, within: float) -> Optional[_Server]:
        until = now() + within
        with self._changed:
            while not self.closed and self.look() is None and now() < until:
                self._changed.wait(min(until - now(), WATCH_AGAIN_S))
            return self.connected()

    async def send(self, server: _Server, method: Method, request: Any, timeout: float) -> Any:
        return server.method(method)(request, timeout=timeout, metadata=self.target.metadata())

    def start(self, server: _Server, method: Method, request: Any, timeout: float) -> Any:
        """A grpc.Future of the answer."""
        return server.method(method).future(request, timeout=timeout,  # type: ignore[attr-defined]
                                            metadata=self.target.metadata())

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def why(self) -> str:
        try:
            self.servers[self.current].channel.unary_unary(HEALTH)(b"", timeout=WHY_S)
        except grpc.RpcError as error:
            return _why(error)
        return ""

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        for server in self.servers:
            server.channel.close()


class AsyncLink(_Servers):
    """Waits in asyncio; for the tasks of one event loop."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, grpc.aio.insecure_channel,
                         lambda address, credentials, options: grpc.aio.secure_channel(address, credentials, options))
        self._changes: Set[Any] = set()  # what _wait waits for

    async def choose(self, within: float) -> Optional[_Server]:
        server = self.servers[self.current]
        if server.ready and server.channel.get_state() == grpc.ChannelConnectivity.READY:
            return server
        try:
            return await asyncio.wait_for(self._wait(), max(within, 0))
        except asyncio.TimeoutError:
            return None

    async def _wait(self) -> Optional[_Server]:
        while not self.closed:
            changes: List[Any] = []
            for server in self.servers:
                state = server.channel.get_state(try_to_connect=True)
                server.ready = state == grpc.ChannelConnectivity.READY
                changes.append(asyncio.ensure_future(server.channel.wait_for_state_change(state)))
            self._changes.update(changes)
            found = self.connected()
            try:
                if found is None:
                    await asyncio.wait(changes, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for change in changes:
                    change.cancel()
                self._changes.difference_update(changes)
            if found is not None:
                return found
        return None

    async def send(self, server: _Server, method: Method, request: Any, timeout: float) -> Any:
        return await server.method(method)(request, timeout=timeout, metadata=self.target.metadata())

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def why(self) -> str:
        try:
            await self.servers[self.current].channel.unary_unary(HEALTH)(b"", timeout=WHY_S)
        except grpc.RpcError as error:
            return _why(error)
        return ""

    async def close(self) -> None:
        self.closed = True
        for change in self._changes:
            change.cancel()
        for server in self.servers:
            await server.channel.close()
