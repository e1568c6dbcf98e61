"""
The points at which an owner can kill itself during its work, which a kill at a random time would rarely hit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from tickwheel.jobs.model import Answer, Begin, Settle, Write
from tickwheel.stores import Store

__all__ = ["POINTS", "Fate"]

POINTS = ("before begin", "after begin", "in the handler", "before settle", "after settle")


class Fate:
    """
    Kills this process when it passes *point* (one of `POINTS`) for the *times*-th time.

    If *point* is "", this never happens.
    """

    def __init__(self, point: str, times: int) -> None:
        self._point = point
        self._times = times

    def passes(self, point: str) -> None:
        """
        Record that the process passes *point*. Kill the process if this is the chosen point and time.
        """
        if point == self._point:
            self._times -= 1
            if self._times <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, store: Store) -> None:
        """
        Wrap `apply` of *store*, so that `passes` is called before and after each commit.
        """
        apply = store.apply

        def watched(writes: Sequence[Write]) -> list[Answer]:
            kinds = [
                word
                for word, kind in (("begin", Begin), ("settle", Settle))
                if any(isinstance(write, kind) for write in writes)
            ]
            for word in kinds:
                self.passes(f"before {word}")
            answers = apply(writes)
            for word in kinds:
                self.passes(f"after {word}")
            return answers

        store.apply = watched
