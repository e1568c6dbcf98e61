"""
Warns if a scheduler with a store in memory is never started. No other process can reach and fire its jobs.
"""

from __future__ import annotations

import atexit
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tickwheel.client.client import Client
from tickwheel.drivers import SteppedClock, TimerWheel
from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.checks import FAR_MS
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Answer, State
from tickwheel.timers.contract import Timer

__all__ = ["Unstarted"]

_GRACE_S: Final = 1.0
"""Seconds that a job may be overdue before a warning."""

_log = logging.getLogger("tickwheel.scheduler")


class Unstarted:
    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime
        self._lock = runtime.lock()
        self._timers: TimerWheel | None = None
        self._timer: Timer | None = None
        self._look_at = math.inf
        self._is_done = False

    def written(self, answers: Sequence[Answer]) -> None:
        due = [each.job.due_at for each in answers if each.job is not None and each.job.state is State.PENDING]
        if due and not self._is_done:
            self._look_later(min(due))

    def end(self, *, is_started: bool = False) -> None:
        """
        Stop watching, and warn if the scheduler was not started but has pending jobs. May be called twice.
        """
        with self._lock:
            is_done, self._is_done = self._is_done, True
        timers = self._timers
        if timers is not None:
            atexit.unregister(self.end)
            timers.close()
            if not is_done and not is_started:
                self._warn()

    def _look_later(self, due_at: int) -> None:
        with self._lock, suppress(ClosedError):  # the scheduler was started or stopped
            if self._is_done or due_at >= self._look_at:
                return
            if self._timers is None:
                clock = self._runtime.clock
                self._timers = self._runtime.timers(clock=clock if isinstance(clock, SteppedClock) else None)
                atexit.register(self.end)
            if self._timer is not None:
                self._timer.cancel()
            self._look_at = due_at
            wait_s = max(0, due_at - self._client.clock.now_ms()) / 1000 + _GRACE_S
            self._timer = self._timers.call_later(wait_s, self._look)

    def _look(self) -> None:
        client = self._client
        now = client.clock.now_ms()
        pending = client.store.upcoming(0, now + 2 * FAR_MS, 1)
        is_overdue = bool(pending) and pending[0].due_at <= now
        with self._lock:
            if self._is_done:
                return
            self._look_at = math.inf
            self._is_done = is_overdue
        if is_overdue:
            self._warn()
        elif pending:
            self._look_later(pending[0].due_at)

    def _warn(self) -> None:
        with suppress(StoreError):
            if count := self._client.store.count()["pending"]:
                jobs = "1 job waits" if count == 1 else f"{count} jobs wait"
                _log.warning("%s in %s, which fires nothing until start() is called", jobs, self._client.store.url)
