"""
The calm periods of a history: times without a fault that are long enough after the last fault.
"""

from __future__ import annotations

from typing import Final

from simulation.history import Committed, Fault

__all__ = ["LATE_NS", "Weather"]

LATE_NS: Final = 150 * 10**9
"""Maximum wait of a job in calm weather: its notification may be lost (60 s), and its key may be busy (100 s)."""
_UNREST_NS: Final = 240 * 10**9
"""Time after a fault that does not count as calm: a lease expires, a node returns, notes are lost."""
_UNNOTICED_NS: Final = 45 * 10**9
"""
Time for which nodes may use a server's former time: they notice a step at the next successful renewal, every 20 s.
"""


class Weather:
    """
    The faults so far.

    Attributes:
        stepped: The time of the last clock step.
        noticed: The time by which all healthy nodes have noticed that step. A set made earlier may still follow the
            former clock.
    """

    def __init__(self) -> None:
        self._unrest: list[tuple[int, int]] = []
        self._broken: dict[str, int] = {}
        self._read: tuple[int, int] = (0, 0)
        self._peaks: list[tuple[int, int]] = []
        self.stepped = self.noticed = 0

    def broken(self, event: Fault) -> None:
        """
        Record a fault, or its end.
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
        Return True if the store's clock read *due_at* after *since*.

        Readings count only until the nodes have noticed that the clock was set.
        """
        return any(at >= since and store_ms >= due_at for at, store_ms in self._peaks)

    def has_calm(self, start: int, end: int) -> bool:
        """
        Return True if the period from *start* to *end* was calm and long enough.

        After such a period no job should still wait.
        """
        for moment in (start, *(over + _UNREST_NS for _, over in self._unrest)):
            calm = (moment - _UNREST_NS + 1, moment + LATE_NS)
            is_calm = not any(begun <= calm[1] and over >= calm[0] for begun, over in self._unrest)
            if is_calm and start <= moment <= end - LATE_NS:
                return True
        return False
