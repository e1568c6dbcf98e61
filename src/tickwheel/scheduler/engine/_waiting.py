"""
Entries that wait in front of something, in order.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tickwheel.scheduler.engine._staged_job import Phase, StagedJob

__all__ = ["Waiting"]

_SWEEP_MIN: Final = 100


class Waiting(deque[StagedJob]):
    """
    A queue from which entries may be taken back without a search: they leave the phase in which they wait.

    Code that takes one out has to look at its phase. They are swept out once they are half of what waits.

    Args:
        phase: In which an entry waits here.
    """

    __slots__ = ("_phase", "_sweep_at")

    def __init__(self, phase: Phase) -> None:
        super().__init__()
        self._phase = phase
        self._sweep_at = _SWEEP_MIN

    def put(self, entry: StagedJob) -> None:
        """
        Let *entry* wait. O(1) amortised.
        """
        self.append(entry)
        if len(self) > self._sweep_at:
            waiting = [each for each in self if each.phase is self._phase]
            self.clear()
            self.extend(waiting)
            self._sweep_at = 2 * len(waiting) + _SWEEP_MIN
