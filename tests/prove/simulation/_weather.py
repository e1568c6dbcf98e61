"""
The calm periods of a history. A calm period begins when no fault is active, and some time has passed since the last.
"""

from __future__ import annotations

from typing import Final

from simulation.history import Committed, Fault

__all__ = ["LATE_NS", "Weather"]

# Its notification may be lost (60 s), and another job of its key may still run (100 s).
LATE_NS: Final = 150 * 10**9
"""Maximum wait of a due job in a calm period."""
_UNREST_NS: Final = 240 * 10**9
"""Time that must pass after a fault before a calm period begins."""
_UNNOTICED_NS: Final = 45 * 10**9
"""
Maximum time until a node notices a step of the server's clock, at a lease renewal.
"""


class Weather:
    """
    The faults of a history so far, and the calm periods between them.

    Attributes:
        stepped: The time of the last clock step.
        noticed: The time by which all healthy nodes have noticed that step.
    """

    def __init__(self) -> None:
        self._unrest: list[tuple[int, int]] = []
        self._broken: dict[str, int] = {}
        self._read: tuple[int, int] = (0, 0)
        self._peaks: list[tuple[int, int]] = []
        self.stepped = self.noticed = 0

    def broken(self, event: Fault) -> None:
        """
        Record that a fault has begun or ended.
        """
        if event.what.startswith("step"):
            self.stepped = event.at
            at, store_ms = self._read
            self.noticed = event.at + (_UNNOTICED_NS if event.server_step_ns else 0)
            self._peaks.append((self.noticed, store_ms + (self.noticed - at) // 1_000_000))
        if event.is_over:
            self._unrest.append((self._broken.pop(event.what, event.at), event.at))
        else:
            self._broken[event.what] = event.at

    def committed(self, event: Committed) -> None:
        """
        Record the reading of the store's clock at a commit.
        """
        self._read = (event.at, event.store_ms)

    def had_come(self, due_at: int, since: int) -> bool:
        """
        Return True if the store's clock showed *due_at* or later at some time after *since*.
        """
        # After a step back, nodes may use the former time until they have noticed the step.
        return any(at >= since and store_ms >= due_at for at, store_ms in self._peaks)

    def has_calm(self, start: int, end: int) -> bool:
        """
        Return True if between *start* and *end* there is a calm period long enough for every due job to begin.
        """
        for moment in (start, *(over + _UNREST_NS for _, over in self._unrest)):
            calm = (moment - _UNREST_NS + 1, moment + LATE_NS)
            is_calm = not any(begun <= calm[1] and over >= calm[0] for begun, over in self._unrest)
            if is_calm and start <= moment <= end - LATE_NS:
                return True
        return False
