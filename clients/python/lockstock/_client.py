"""The client for threads."""
from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional, Sequence, Union

from lockstock import _entry, _limit, _lock, _once, _stock
from lockstock._calls import Caller
from lockstock._core import Core, default_owner
from lockstock._keeper import Keeper
from lockstock._links import ThreadLink
from lockstock._methods import Calls
from lockstock._operations import STOCK, Operations, decode_json, encode_json, item_request, next_ids
from lockstock._target import Target, Token
from lockstock.v1 import stock_pb2


class Stock:
    """Client.stock."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put(self, sku: str, on_hand: int, *, group: str = "", buckets: int = 0, per_buyer_limit: int = 0) -> stock_pb2.Item:
        """Makes an item, or sets what is on hand."""
        request = item_request(sku, on_hand, group, buckets, per_buyer_limit)
        item: stock_pb2.Item = self._core.caller.run(self._core.caller.call(STOCK["PutItem"], request)).item
        return item

    def get(self, sku: str, *, group: str = "") -> stock_pb2.Item:
        """The item. Raises CallError with code "NOT_FOUND"."""
        request = stock_pb2.GetItemRequest(sku=sku, group=group)
        item: stock_pb2.Item = self._core.caller.run(self._core.caller.call(STOCK["GetItem"], request)).item
        return item

    def deduct(self, order_id: str, lines: _stock.Lines, *, buyer: str = "", group: Optional[str] = None) -> stock_pb2.DeductResponse:
        """Sells all lines ({sku: quantity}), or none: then it raises SoldOut or StockRefused. The same order_id sells once;
        a repeat gets the first answer, with `replayed`."""
        answer: stock_pb2.DeductResponse = self._core.caller.run(_stock.deduct(self._core, order_id, lines, buyer, group))
        return answer


class Client(Operations[_lock.Lock, _stock.Reservation, _entry.Entry]):
    """A connection to lockstockd. Thread-safe; one for the process is enough. Not for use in a child after fork()."""

    _lock_type = _lock.Lock
    _reservation_type = _stock.Reservation
    _entry_type = _entry.Entry

    def __init__(self, target: Target) -> None:
        self._link = ThreadLink(target)
        self._core = Core(Caller(target, self._link), Keeper(self._link), target.owner or default_owner())
        self.calls = Calls(self._core.caller)
        """Each method of each service, with the messages of lockstock.v1."""
        self.stock = Stock(self._core)

    def once(self, scope: str, *, key: Callable[..., _once.Key], lease: float = 30.0, retain: float = 86400.0, wait: float = 0.0,
             fingerprint: Optional[Callable[..., Union[str, bytes]]] = None, encode: Callable[[Any], bytes] = encode_json,
             decode: Callable[[bytes], Any] = decode_json) -> Callable[[_once.F], _once.F]:
        """A decorator: of all calls with the same key(*args), the first runs the function. All get the decoded result.

        lease: after how many seconds without news another caller may run it again; it is extended while the function
        runs. retain: how long the result is kept. wait: how long to wait for a running attempt; then OnceInProgress.
        fingerprint: of the arguments; another one for the same key is OnceMismatch. An exception lets the next caller run
        it again, GiveUp does not. attempt() returns the running attempt. The result must be representable in JSON, or by
        encode and decode, in 256 KiB; otherwise all callers get OnceFailed."""
        options = _once.OnceOptions(scope, key, lease, retain, wait, fingerprint, encode, decode)
        return lambda function: _once.wrap(self._core, options, function)

    def limit(self, key: str, *, policy: Optional[str] = None, limit: Optional[int] = None, period: float = 0.0,
              algorithm: str = "SLIDING_WINDOW", burst: int = 0, cost: int = 1, group: str = "", peek: bool = False,
              request_id: str = "") -> _limit.Decision:
        """Counts a call against a stored policy, or against `limit` in `period` seconds. request_id: a repeat with the same
        counts once. algorithm: FIXED_WINDOW, SLIDING_LOG, SLIDING_WINDOW or TOKEN_BUCKET."""
        return self._core.caller.run(_limit.check(self._core, key, policy, limit, period, algorithm, burst, cost, group, peek,
                                                  request_id))

    def ids(self, count: int = 1, *, kind: str = "uuid7", name: str = "") -> List[Union[int, str]]:
        """New ids: "uuid7" (text), "snowflake" or "sequence" (numbers; a sequence has a name)."""
        return self._core.caller.run(next_ids(self._core, count, kind, name))

    def ledger(self, group: str, *, after: str = "", wait: float = 0.0) -> Iterator[stock_pb2.LedgerEntry]:
        """The changes of a group's stock, in order, after the entry `after`. Ends when no entry arrived for `wait` seconds.
        Raises LedgerTrimmed."""
        while True:
            page = self._core.caller.run(_stock.ledger_page(self._core, group, after, wait))
            if not page.entries:
                return
            yield from page.entries
            after = page.next_after

    def close(self, within: float = 2.0) -> None:
        """Waits at most `within` seconds for background calls that give something back. Held locks end with their leases."""
        self._core.keeper.close(within)
        self._link.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        self.close()


def connect(urls: Union[str, Sequence[str]], *, token: Token = None, namespace: str = "", timeout: float = 5.0, owner: str = "",
            ca_file: Optional[str] = None, certificate_file: Optional[str] = None, key_file: Optional[str] = None,
            server_name: Optional[str] = None) -> Client:
    """A client of one server, or of several on one store: "grpc://a:7701,b:7701". It connects with the first call.

    token: a bearer token, or a function that returns one and is called for each try; white space around it is ignored.
    timeout: of a call, in seconds, without its wait. Files are PEM, for grpcs:// only. Raises ValueError for arguments that
    it cannot use, OSError for a file."""
    return Client(Target(urls, token, namespace, timeout, owner, ca_file, certificate_file, key_file, server_name))
