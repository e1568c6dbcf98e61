"""
What fired of late, how late it was, and what became of it: a bounded ring, fed by the scheduler's events.

A record changes when its firing ends, and every change gives it a new sequence number and the place at the end. So
whoever remembers the last number seen asks for all that is newer, and sees each firing again when its outcome is known.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tickwheel.observe._events import (
    Event,
    JobDied,
    JobEvent,
    JobFailed,
    JobFired,
    JobSnoozed,
    JobSucceeded,
    SettleRefused,
)

__all__ = ["Firing", "Firings"]

_ENDS: Final = (JobSucceeded, JobFailed, JobSnoozed, JobDied, SettleRefused)
_OUTCOMES: Final[dict[type, str]] = {
    JobSucceeded: "succeeded",
    JobFailed: "failed",
    JobSnoozed: "snoozed",
    JobDied: "died",
    SettleRefused: "superseded",
}


@dataclass(slots=True)
class Firing:
    """
    One firing: the event that began it, and what became of it.
    """

    fired: JobFired
    sequence: int
    outcome: str = "running"
    error: str | None = None


class Firings:
    """
    The last firings of this process.

    Fed on the scheduler's threads, read on the service's: a lock is held for a few dictionary operations.
    """

    def __init__(self, size: int = 500) -> None:
        """
        Keep the last *size* firings.
        """
        self._size = size
        self._lock = threading.Lock()
        self._ring: OrderedDict[tuple[str, int, int], Firing] = OrderedDict()
        self.sequence = 0
        self.changes = 0
        self.on_change: Callable[[], object] | None = None

    def hook(self, event: Event) -> None:
        """
        Take one event of the scheduler; to be subscribed.
        """
        if not isinstance(event, JobEvent):
            return
        with self._lock:
            self.changes += 1  # whatever it is, the list of jobs looks different now
            if isinstance(event, JobFired):
                self._begin(event)
            elif isinstance(event, _ENDS):
                self._end(event)
        if self.on_change is not None:
            self.on_change()

    def _begin(self, event: JobFired) -> None:
        self.sequence += 1
        self._ring[event.key, event.generation, event.attempt] = Firing(event, self.sequence)
        if len(self._ring) > self._size:
            self._ring.popitem(last=False)

    def _end(self, event: JobSucceeded | JobFailed | JobSnoozed | JobDied | SettleRefused) -> None:
        place = (event.key, event.generation, event.attempt)
        firing = self._ring.get(place)
        if firing is None:  # it left the ring before it ended
            return
        self.sequence += 1
        firing.sequence = self.sequence
        firing.outcome = _OUTCOMES[type(event)]
        firing.error = getattr(event, "error", None)
        self._ring.move_to_end(place)

    def after(self, sequence: int, limit: int, key: str | None = None) -> list[Firing]:
        """
        Return the last *limit* firings that changed after *sequence*, of *key* where it is given, oldest change first.
        """
        found: list[Firing] = []
        with self._lock:
            for firing in reversed(self._ring.values()):
                if firing.sequence <= sequence or len(found) == limit:
                    break
                if key is None or firing.fired.key == key:
                    found.append(firing)
        return found[::-1]
