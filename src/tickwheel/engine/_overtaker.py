"""
Asks a run to stop when the next run of its job is due, where its recurrence has overlap="cancel".

Each run that may be overtaken has a timer; these are few, since a job has one run at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.engine import _verdict
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.timers.contract import Timer

__all__ = ["Overtaker"]

_LOOK_S: Final = 3600.0
"""Maximum delay of a timer, since the clock may be set."""


class Overtaker:
    """
    Watches the runs of one dispatcher. From any thread.

    Args:
        stop: Asks an attempt to stop.
    """

    def __init__(self, resources: Resources, stop: Callable[[StagedJob], object]) -> None:
        self._timers = resources.timers
        self._elapsed = resources.elapsed
        self._stop = stop
        self._lock = resources.runtime.lock()
        self._watched: dict[StagedJob, Timer] = {}

    def begin(self, entry: StagedJob, begun: int) -> None:
        limit = _verdict.overtaken_at(entry.job, begun)
        if limit is not None:
            self._watch(entry, limit)

    def end(self, entry: StagedJob) -> None:
        if self._watched:
            with self._lock:
                timer = self._watched.pop(entry, None)
            if timer is not None:
                timer.cancel()

    def _watch(self, entry: StagedJob, limit: int) -> None:
        left_s = (limit - self._elapsed.now_ms(entry.job)) / 1000
        with self._lock, suppress(ClosedError):  # a stop, or an inline owner, where no timer runs
            self._watched[entry] = self._timers.call_later(min(max(left_s, 0.0), _LOOK_S), self._look, entry, limit)

    def _look(self, entry: StagedJob, limit: int) -> None:
        with self._lock:
            is_watched = self._watched.pop(entry, None) is not None
        if not is_watched or entry.phase is not Phase.RUNNING:
            return
        if self._elapsed.now_ms(entry.job) < limit:
            self._watch(entry, limit)
            return
        entry.is_overtaken = True
        self._stop(entry)
