"""The client for asyncio: lockstock.aio.connect. A thread renews its locks, so that a blocked event loop loses none."""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Awaitable, Callable, List, Optional, Sequence, TypeVar, Union

from lockstock import _entry, _limit, _lock, _once, _stock
from lockstock._calls import Caller
from lockstock._core import Core, default_owner
from lockstock._keeper import Keeper
from lockstock._links import AsyncLink, ThreadLink
from lockstock._methods import AsyncCalls
from lockstock._operations import STOCK, Operations, decode_json, encode_json, item_request, next_ids
from lockstock._target import Target, Token
from lockstock.v1 import stock_pb2

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
Lock = _lock.AsyncLock
Reservation = _stock.AsyncReservation


class Stock:
    """Client.stock."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def put(self, sku: str, on_hand: int, *, group: str = "", buckets: int = 0, per_buyer_limit: int = 0) -> stock_pb2.Item:
        """As lockstock.Client.stock.put."""
        request = item_request(sku, on_hand, group, buckets, per_buyer_limit)
        item: stock_pb2.Item = (await self._core.caller.call(STOCK["PutItem"], request)).item
        return item

    async def get(self, sku: str, *, group: str = "") -> stock_pb2.Item:
        """As lockstock.Client.stock.get."""
        request = stock_pb2.GetItemRequest(sku=sku, group=group)
        item: stock_pb2.Item = (await self._core.caller.call(STOCK["GetItem"], request)).item
        return item

    async def deduct(self, order_id: str, lines: _stock.Lines, *, buyer: str = "",
                     group: Optional[str] = None) -> stock_pb2.DeductResponse:
        """As lockstock.Client.stock.deduct."""
        answer: stock_pb2.DeductResponse = await _stock.deduct(self._core, order_id, lines, buyer, group)
        return answer


class Client(Operations[_lock.AsyncLock, _stock.AsyncReservation, _entry.AsyncEntry]):
    """A connection to lockstockd, for the tasks of one event loop."""

    _lock_type = _lock.AsyncLock
    _reservation_type = _stock.AsyncReservation
    _entry_type = _entry.AsyncEntry

    def __init__(self, target: Target) -> None:
        self._link = AsyncLink(target)
        self._kept = ThreadLink(target)
        self._core = Core(Caller(target, self._link), Keeper(self._kept), target.owner or default_owner())
        self.calls = AsyncCalls(self._core.caller)
        """Each method of each service, with the messages of lockstock.v1."""
        self.stock = Stock(self._core)

    def once(self, scope: str, *, key: Callable[..., _once.Key], lease: float = 30.0, retain: float = 86400.0, wait: float = 0.0,
             fingerprint: Optional[Callable[..., Union[str, bytes]]] = None, encode: Callable[[Any], bytes] = encode_json,
             decode: Callable[[bytes], Any] = decode_json) -> Callable[[F], F]:
        """As lockstock.Client.once. If the function returns an awaitable, the result is what that gives."""
        options = _once.OnceOptions(scope, key, lease, retain, wait, fingerprint, encode, decode)
        return lambda function: _once.wrap_async(self._core, options, function)  # type: ignore[return-value]

    async def limit(self, key: str, *, policy: Optional[str] = None, limit: Optional[int] = None, period: float = 0.0,
                    algorithm: str = "SLIDING_WINDOW", burst: int = 0, cost: int = 1, group: str = "", peek: bool = False,
                    request_id: str = "") -> _limit.Decision:
        """As lockstock.Client.limit."""
        return await _limit.check(self._core, key, policy, limit, period, algorithm, burst, cost, group, peek, request_id)

    async def ids(self, count: int = 1, *, kind: str = "uuid7", name: str = "") -> List[Union[int, str]]:
        """As lockstock.Client.ids."""
        return await next_ids(self._core, count, kind, name)

    async def ledger(self, group: str, *, after: str = "", wait: float = 0.0) -> AsyncIterator[stock_pb2.LedgerEntry]:
        """As lockstock.Client.ledger."""
        while True:
            page = await _stock.ledger_page(self._core, group, after, wait)
            if not page.entries:
                return
            for entry in page.entries:
                yield entry
            after = page.next_after

    async def close(self, within: float = 2.0) -> None:
        """As lockstock.Client.close."""
        await asyncio.get_running_loop().run_in_executor(None, self._core.keeper.close, within)
        self._kept.close()
        await self._link.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        await self.close()


def connect(urls: Union[str, Sequence[str]], *, token: Token = None, namespace: str = "", timeout: float = 5.0, owner: str = "",
            ca_file: Optional[str] = None, certificate_file: Optional[str] = None, key_file: Optional[str] = None,
            server_name: Optional[str] = None) -> Client:
    """As lockstock.connect; to be called where the event loop runs."""
    return Client(Target(urls, token, namespace, timeout, owner, ca_file, certificate_file, key_file, server_name))
