"""
Keeps the history, and the figures by minute, within their bounds.

The owner of the first shard does it, in small steps in a short-lived thread: a minute after a record was added, and
once an hour to delete old records.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tickwheel.engine._recorder import Recorder
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.checks import seconds
from tickwheel.jobs.minutes import kept_from

if TYPE_CHECKING:
    import threading

__all__ = ["Pruner"]

_EVERY_S: Final = 60.0
_HOUR: Final = 60
"""Number of minutes between two unconditional passes."""
_STEP: Final = 500
"""Maximum number of records that one commit deletes: it takes some milliseconds, for which other commits may wait."""
_REST_S: Final = 0.05
"""Pause between two steps, for other commits."""


class Pruner:
    def __init__(self, resources: Resources, recorder: Recorder, is_responsible: Callable[[], bool]) -> None:
        self._store = resources.store
        self._options = resources.options.history
        self._now_ms = resources.clock.now_ms
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._runtime = resources.runtime
        self._starter = resources.starter("the pruner")
        self._recorder = recorder
        self._is_responsible = is_responsible
        self._stopped = resources.runtime.event()
        self._thread: threading.Thread | None = None
        self._turns = 0
        self._seen = 0

    def start(self) -> None:
        with suppress(ClosedError):  # a stop
            self._pacer.call_later(_EVERY_S, self._begin)

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _begin(self) -> None:
        if self._stopped.is_set():
            return
        self._turns += 1
        has_news = self._recorder.count != self._seen or self._store.abilities.has_many_owners  # others record, too
        if self._is_responsible() and (has_news or self._turns % _HOUR == 1):
            self._seen = self._recorder.count
            thread = self._runtime.thread(target=self._run, name="tickwheel-pruner", daemon=True)
            if self._starter.start(thread.start, self._begin):
                self._thread = thread
        else:
            self.start()

    def _run(self) -> None:
        try:
            self.prune()
        except Exception as error:  # noqa: BLE001 - this thread must not end: the history would grow without bounds
            self._hooks.failed("pruning the history", error)
        self.start()

    def prune(self) -> int:
        """
        Delete old and surplus records, and old figures; return the number of the records.
        """
        options, gone = self._options, 0
        since = self._now_ms() - round(seconds("age_s", options.age_s) * 1000)
        self._store.forget_minutes(*kept_from(self._now_ms()))
        while not self._stopped.is_set():
            count = self._store.prune(since, options.per_key, options.total, _STEP)
            gone += count
            if not count or self._stopped.wait(_REST_S):
                break
        return gone
