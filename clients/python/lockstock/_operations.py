"""The arguments of the operations, shared by both kinds of clients."""
from __future__ import annotations

import json
from typing import Any, Callable, Generic, List, Optional, Sequence, TypeVar, Union

from lockstock import _entry, _limit, _lock, _once, _stock
from lockstock._calls import methods_of
from lockstock._core import Core
from lockstock.v1 import guard_pb2, id_pb2, stock_pb2

L = TypeVar("L", bound=_lock.HeldLock)
R = TypeVar("R", bound="_stock._Reservation")
E = TypeVar("E", bound=_entry.HeldEntry)
KINDS = {"uuid7": id_pb2.ID_KIND_UUID_V7, "snowflake": id_pb2.ID_KIND_SNOWFLAKE, "sequence": id_pb2.ID_KIND_SEQUENCE}
STOCK = methods_of(stock_pb2)
IDS = methods_of(id_pb2)


class Operations(Generic[L, R, E]):
    """The common part of the clients for threads and for asyncio."""

    _core: Core
    _lock_type: Callable[..., L]
    _reservation_type: Callable[..., R]
    _entry_type: Callable[..., E]

    def lock(self, *names: str, lease: float = 10.0, wait: float = 0.0, group: str = "", shared: Sequence[str] = (),
             max_hold: Optional[float] = None, owner: Optional[str] = None) -> L:
        """A lock on names, for `with`. It is renewed at each third of `lease` seconds until it is released, for at most `max_hold` seconds.

        wait: how long to wait in the queue; 0: LockBusy at once. shared: names to lock together with other readers.
        group: the group of the names; required for several names. owner: the holder's name for others."""
        return self._lock_type(self._core, _lock.targets_of(names, shared, 0, 0), group, lease, wait, max_hold, owner)

    def semaphore(self, name: str, *, capacity: int, permits: int = 1, lease: float = 10.0, wait: float = 0.0, group: str = "",
                  max_hold: Optional[float] = None, owner: Optional[str] = None) -> L:
        """`permits` of the `capacity` of a semaphore, for `with`; otherwise as `lock`."""
        return self._lock_type(self._core, _lock.targets_of([name], (), permits, capacity), group, lease, wait, max_hold, owner)

    def reserve(self, order_id: str, lines: _stock.Lines, *, hold: float, keep: float = 0.0, buyer: str = "",
                group: Optional[str] = None) -> R:
        """Sets units aside for an order, for `with`: {sku: quantity}. Leaving the block gives them back unless `confirm`
        was called. hold: seconds after which they are given back automatically; keep: how long the hold is extended.
        Raises SoldOut or StockRefused. The same order_id is the same reservation."""
        return self._reservation_type(self._core, _stock.reserve_request(order_id, lines, hold, buyer, group), keep)

    def enter(self, request: guard_pb2.EnterRequest) -> E:
        """An attempt, rate limits, stock and locks for `with`, all or none (docs/enter.md). They are renewed until the block
        is left. Raises EnterRefused; where an earlier attempt has a result, `result` is that, and nothing was taken."""
        return self._entry_type(self._core, request)


def item_request(sku: str, on_hand: int, group: str, buckets: int, per_buyer_limit: int) -> stock_pb2.PutItemRequest:
    if on_hand is None:
        raise TypeError("on_hand: must be a number")
    return stock_pb2.PutItemRequest(sku=sku, on_hand=on_hand, group=group, buckets=buckets, per_buyer_limit=per_buyer_limit)


async def next_ids(core: Core, count: int, kind: str, name: str) -> List[Union[int, str]]:
    if kind not in KINDS:
        raise ValueError(f"kind: must be one of {', '.join(KINDS)}, not {kind!r}")
    answer = await core.caller.call(IDS["Next"], id_pb2.NextRequest(kind=KINDS[kind], name=name, count=count))
    return list(answer.uuids or answer.ids)


decode_json = json.loads
encode_json = _once.to_json
