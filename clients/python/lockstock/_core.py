"""The common part of all operations of a client."""
from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

from lockstock._calls import Caller, Method
from lockstock._keeper import Keeper

GIVE_BACK_S = 1.0


def default_owner() -> str:
    """The default owner of locks, which others see while this process holds a lock."""
    return f"{socket.gethostname()}:{os.getpid()}"


def ms(seconds: float, what: str) -> int:
    """A duration in milliseconds. Raises ValueError for one that rounds to 0."""
    try:
        value = round(seconds * 1000)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what}: must be a number of seconds, not {seconds!r}") from None
    if value < 0 or (value == 0 and seconds != 0):
        raise ValueError(f"{what}: must be at least one millisecond, not {seconds} s")
    return value


@dataclass
class Core:
    caller: Caller
    keeper: Keeper
    owner: str

    async def spend(self, method: Method, request: Any) -> None:
        """Releases the token of a refused call before the refusal is reported: an earlier try may still be granted."""
        try:
            await self.caller.call(method, request, GIVE_BACK_S, True)
        except BaseException:
            self.keeper.insist(method, request)
            raise
