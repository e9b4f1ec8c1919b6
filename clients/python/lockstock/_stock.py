"""Stock: orders, reservations, and the ledger."""
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from lockstock._calls import Method, methods_of, now
from lockstock._core import Core, ms
from lockstock._keeper import Lease, State
from lockstock.errors import CallError, Error, LedgerTrimmed, SoldOut, StockRefused
from lockstock.v1 import stock_pb2 as pb2

METHODS = methods_of(pb2)
Lines = Mapping[str, int]


def lines_of(lines: Lines) -> Any:
    return [pb2.Line(sku=sku, quantity=quantity) for sku, quantity in lines.items()]


def group_of(group: Optional[str], lines: Lines) -> str:
    """The group of an order: the given one, or its only sku."""
    if not lines:
        raise ValueError("lines: must have at least one sku")
    if group:
        return group
    if len(lines) != 1:
        raise ValueError("group: must be given for an order of several skus")
    return next(iter(lines))


def _refuse(order_id: str, outcome: str, answer: Any) -> None:
    lines = list(answer.lines)
    kind = SoldOut if outcome == "SOLD_OUT" else StockRefused
    left = ", ".join(f"{line.sku}: {line.available}" for line in lines)
    raise kind(f"order {order_id}: {outcome}" + (f" ({left} left)" if left else ""), outcome=outcome, lines=lines)


async def deduct(core: Core, order_id: str, lines: Lines, buyer: str, group: Optional[str]) -> Any:
    request = pb2.DeductRequest(group=group_of(group, lines), order_id=order_id, buyer_id=buyer, lines=lines_of(lines))
    answer = await core.caller.call(METHODS["Deduct"], request)
    if answer.outcome != pb2.DEDUCT_OUTCOME_DEDUCTED:
        _refuse(order_id, pb2.DeductOutcome.Name(answer.outcome).replace("DEDUCT_OUTCOME_", ""), answer)
    return answer


class Hold(Lease):
    """The hold of a reservation, which is extended for `keep` seconds."""

    def __init__(self, request: Any, seconds: float, sent: float, keep: float) -> None:
        super().__init__(seconds, sent, f"the hold of order {request.order_id}", keep)
        self.request = pb2.ExtendHoldRequest(group=request.group, order_id=request.order_id, hold_ms=request.hold_ms)

    def question(self) -> Tuple[Method, Any]:
        return METHODS["ExtendHold"], self.request

    def answered(self, response: Any, sent: float) -> None:
        if response.outcome == pb2.EXTEND_HOLD_OUTCOME_EXTENDED:
            self.extended(response.hold_ms / 1000, sent)
        elif response.outcome != pb2.EXTEND_HOLD_OUTCOME_CONFIRMED:
            name = pb2.ExtendHoldOutcome.Name(response.outcome).replace("EXTEND_HOLD_OUTCOME_", "")
            self.state, self.why = State.LOST, f"the order is {name}"


async def reserve(core: Core, request: Any, keep: float) -> Tuple[Any, Hold]:
    sent = now()
    cancel = pb2.CancelRequest(group=request.group, order_id=request.order_id, reason="the reservation was given up")
    try:
        answer, doubt = await core.caller.call_told(METHODS["Reserve"], request)
    except BaseException as error:
        if not isinstance(error, Error) or error.applied != "NO":
            core.keeper.insist(METHODS["Cancel"], cancel)
        raise
    if answer.outcome != pb2.RESERVE_OUTCOME_RESERVED:
        if doubt:
            core.keeper.insist(METHODS["Cancel"], cancel)
        _refuse(request.order_id, pb2.ReserveOutcome.Name(answer.outcome).replace("RESERVE_OUTCOME_", ""), answer)
    hold = Hold(request, answer.hold_ms / 1000, sent, keep)
    core.keeper.add(hold)
    return answer, hold


async def confirm(core: Core, request: Any, hold: Hold, reacquire: bool) -> Any:
    answer = await core.caller.call(METHODS["Confirm"], pb2.ConfirmRequest(
        group=request.group, order_id=request.order_id, reacquire_if_expired=reacquire), None, True)
    if answer.outcome != pb2.CONFIRM_OUTCOME_CONFIRMED:
        outcome = pb2.ConfirmOutcome.Name(answer.outcome).replace("CONFIRM_OUTCOME_", "")
        raise (SoldOut if outcome == "SOLD_OUT" else StockRefused)(f"order {request.order_id}: {outcome}", outcome=outcome)
    core.keeper.end(hold)
    return answer


async def cancel(core: Core, request: Any, hold: Hold) -> None:
    """Gives the stock back now, or as soon as a server answers."""
    core.keeper.end(hold)
    question = pb2.CancelRequest(group=request.group, order_id=request.order_id)
    try:
        await core.caller.call(METHODS["Cancel"], question, None, True)
    except BaseException as error:
        core.keeper.insist(METHODS["Cancel"], question)
        if not isinstance(error, CallError):
            raise


def reserve_request(order_id: str, lines: Lines, hold: float, buyer: str, group: Optional[str]) -> Any:
    return pb2.ReserveRequest(group=group_of(group, lines), order_id=order_id, buyer_id=buyer, lines=lines_of(lines),
                              hold_ms=ms(hold, "hold"))


class _Reservation:
    """Units that are set aside for an order. Leaving the block cancels it unless it was confirmed."""

    def __init__(self, core: Core, request: Any, keep: float) -> None:
        self._core, self._request, self._keep = core, request, keep
        self._hold: Optional[Hold] = None
        self._open = False  # reserved, and Confirm was not tried
        self.lines: Dict[str, int] = {}
        """What is left of each sku."""

    def _made(self, answer: Any, hold: Hold) -> None:
        self._hold, self._open = hold, True
        self.lines = {line.sku: line.available for line in answer.lines}

    @property
    def remaining(self) -> float:
        """Seconds for which the units are certain to be set aside."""
        return self._hold.remaining if self._hold else 0.0

    def _begun(self) -> Hold:
        if self._hold is None:
            raise RuntimeError("the reservation has not begun: use it with `with`")
        # An unanswered Confirm may have sold the units: then nothing is cancelled.
        self._open = False
        return self._hold


class Reservation(_Reservation):
    def __enter__(self) -> "Reservation":
        self._made(*self._core.caller.run(reserve(self._core, self._request, self._keep)))
        return self

    def confirm(self, *, reacquire: bool = False) -> None:
        """Sells the units. Raises StockRefused if the hold has ended; reacquire: then takes them again, if they are available."""
        hold = self._begun()
        try:
            self._core.caller.run(confirm(self._core, self._request, hold, reacquire))
        except CallError as error:
            self._open = error.applied == "NO"
            raise

    def cancel(self) -> None:
        """Gives the units back."""
        self._core.caller.run(cancel(self._core, self._request, self._begun()))

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if self._open:
            self.cancel()


class AsyncReservation(_Reservation):
    async def __aenter__(self) -> "AsyncReservation":
        self._made(*await reserve(self._core, self._request, self._keep))
        return self

    async def confirm(self, *, reacquire: bool = False) -> None:
        """Sells the units. Raises StockRefused if the hold has ended; reacquire: then takes them again, if they are available."""
        hold = self._begun()
        try:
            await confirm(self._core, self._request, hold, reacquire)
        except CallError as error:
            self._open = error.applied == "NO"
            raise

    async def cancel(self) -> None:
        """Gives the units back."""
        await cancel(self._core, self._request, self._begun())

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if self._open:
            await self.cancel()


async def ledger_page(core: Core, group: str, after: str, wait: float) -> Any:
    answer = await core.caller.call(METHODS["ReadLedger"], pb2.ReadLedgerRequest(group=group, after=after, wait_ms=ms(wait, "wait")))
    if answer.outcome == pb2.READ_LEDGER_OUTCOME_TRIMMED:
        raise LedgerTrimmed(f"the ledger of {group} begins at {answer.oldest_id}", oldest_id=answer.oldest_id)
    return answer
