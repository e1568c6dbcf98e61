from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

__all__ = ["LoopClock", "is_system_time"]

_SYSTEM_LOOPS = ("asyncio", "uvloop", "rloop")
"""Packages whose event loops use the system's monotonic clock."""


class LoopClock:
    """
    The clock of an event loop that has its own time. A test may move this time, or the loop may skip idle periods.

    *read_s* returns the loop's time in seconds. The wall-clock time starts at the system's time, and advances with the
    loop's time. Any thread may read the clock.
    """

    def __init__(self, read_s: Callable[[], float]) -> None:
        self._read_s = read_s
        self._wall_ns = time.time_ns() - self.monotonic_ns()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._read_s!r})"

    def monotonic_ns(self) -> int:
        """
        Return the loop's time, rounded down so that timers are never early.
        """
        now_s = self._read_s()
        now = math.floor(now_s * 1e9)
        while now / 1e9 > now_s:
            now -= 1
        return max(now, 0)

    def wall_ns(self) -> int:
        return self._wall_ns + self.monotonic_ns()


def is_system_time(loop: Any) -> bool:
    if "time" in getattr(loop, "__dict__", ()) or not isinstance(time.monotonic, BuiltinFunctionType):
        return False
    owner = next((kind for kind in type(loop).__mro__ if "time" in kind.__dict__), object)
    if owner.__module__.partition(".")[0] not in _SYSTEM_LOOPS:
        return False
    read = owner.__dict__["time"]
    return getattr(read, "__module__", None) in (None, owner.__module__)  # otherwise, `time` was patched on the class
