"""
Measures how long the machine kept a process from running, which proofs with real clocks need to know.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

__all__ = ["STALLED_S", "Stalls"]

STALLED_S: Final = 0.4
"""A stall of this many seconds can cost a node its lease of one second."""
_NAP_S: Final = 0.02


class Stalls:
    """
    Measures stalls of the process during a `with` statement. `longest_s` is the longest delay of a sleep.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._is_over.wait(_NAP_S):
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before - _NAP_S)
            before = now
