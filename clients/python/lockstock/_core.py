"""What all operations of a client share."""
from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from lockstock._calls import Caller
from lockstock._keeper import Keeper


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
