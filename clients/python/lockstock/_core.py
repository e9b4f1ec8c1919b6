"""What all operations of a client share."""
from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

from lockstock._calls import Caller, Method
from lockstock._keeper import Keeper

GIVE_BACK_S = 1.0


def default_owner() -> str:
    """What others see of this process while it holds a lock."""
    return f"{socket.gethostname()}:{os.getpid()}"


def ms(seconds: float, what: str) -> int:
    """A duration as lockstock takes it. Raises ValueError for one that rounds to nothing."""
    value = round(seconds * 1000)
    if value < 0 or (value == 0 and seconds != 0):
        raise ValueError(f"{what}: {seconds} s is no duration in milliseconds")
    return value


@dataclass
class Core:
    caller: Caller
    keeper: Keeper
    owner: str

    async def spend(self, method: Method, request: Any) -> None:
        """An earlier try of a call that was refused may still be granted: its token is spent before anyone hears of it."""
        try:
            await self.caller.call(method, request, GIVE_BACK_S, True)
        except BaseException:
            self.keeper.insist(method, request)
            raise
