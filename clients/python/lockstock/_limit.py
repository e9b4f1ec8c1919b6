"""Rate limits."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from lockstock._calls import methods_of
from lockstock._core import Core, ms
from lockstock.v1 import ratelimit_pb2 as pb2

METHODS = methods_of(pb2)


@dataclass(frozen=True)
class Decision:
    """The decision of a limit. True in a condition when the call is allowed. Failures raise CallError and are never a decision."""
    allowed: bool
    banned: bool
    limit: int
    remaining: int
    retry_after: Optional[float]
    """Seconds after which the same call may be allowed; None: it is allowed now, or never."""
    reset_after: float
    replayed: bool

    def __bool__(self) -> bool:
        return self.allowed


async def check(core: Core, key: str, policy: Optional[str], limit: Optional[int], period: float, algorithm: str, burst: int,
                cost: int, group: str, peek: bool, request_id: str) -> Decision:
    if policy is not None and limit is not None:
        raise ValueError("policy: must not be given together with limit")
    if policy is None and limit is None:
        raise ValueError("policy: must be given, or limit and period")
    if policy is not None:
        rule = pb2.Rule(policy=policy, key=key)
    else:
        rule = pb2.Rule(key=key, limit=pb2.Limit(algorithm=f"ALGORITHM_{algorithm}",
                                                 limit=limit or 0, period_ms=ms(period, "period"), burst=burst))
    answer: Any = await core.caller.call(METHODS["Check"], pb2.CheckRequest(group=group, rules=[rule], cost=cost, peek=peek,
                                                                            request_id=request_id))
    one = answer.rules[0]
    allowed = answer.outcome == pb2.CHECK_OUTCOME_ALLOWED
    return Decision(allowed, answer.outcome == pb2.CHECK_OUTCOME_BANNED, one.limit, one.remaining,
                    None if allowed or answer.retry_after_ms <= 0 else answer.retry_after_ms / 1000, one.reset_after_ms / 1000,
                    answer.replayed)
