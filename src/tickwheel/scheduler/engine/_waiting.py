"""
Entries that wait in front of something, in order.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tickwheel.scheduler.engine._entry import Entry, Stage

__all__ = ["Waiting"]

_SWEEP_MIN: Final = 100


class Waiting(deque[Entry]):
    """
    A queue from which entries may be taken back without a search: they leave the stage in which they wait.

    Code that takes one out has to look at its stage. They are swept out once they are half of what waits.

    Args:
        stage: In which an entry waits here.
    """

    __slots__ = ("_stage", "_sweep_at")

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self._sweep_at = _SWEEP_MIN

    def put(self, entry: Entry) -> None:
        """
        Let *entry* wait. O(1) amortised.
        """
        self.append(entry)
        if len(self) > self._sweep_at:
            waiting = [each for each in self if each.stage is self._stage]
            self.clear()
            self.extend(waiting)
            self._sweep_at = 2 * len(waiting) + _SWEEP_MIN
