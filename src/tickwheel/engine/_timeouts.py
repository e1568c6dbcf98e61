"""
Ends attempts at their timeouts. An attempt whose thread or task continues after its timeout has leaked.

Most attempts end long before their timeouts. Each attempt therefore only records its deadline, and one timer, which is
set for the earliest deadline, checks all attempts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tickwheel.engine import _verdict
from tickwheel.engine._coroutines import Coroutines
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._workers import Workers
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.model import Progress
from tickwheel.targets import DEFAULT

__all__ = ["TaskTimeout", "Timeouts", "too_long"]

_GRACE_S: Final = 5.0
"""Seconds that an async handler may take to end after its cancellation. After this time, its task has leaked."""


class Timeouts:
    """
    Watches the attempts of one runner. Callable from any thread. *end* is called with a late entry and its verdict.
    """

    def __init__(
        self, resources: Resources, runner: Workers | Coroutines, end: Callable[[StagedJob, _verdict.Verdict], object]
    ) -> None:
        self._now = resources.clock.monotonic
        self._timers = resources.timers
        self._elapsed = resources.elapsed
        self._runner = runner
        self._end = end
        self._random = resources.runtime.random
        self._lock = resources.runtime.lock()
        self._look_at = math.inf
        self._timer: Any = None

    def begin(self, entry: StagedJob) -> None:
        call = entry.call
        assert call is not None
        if call.timeout_s is not None:
            assert call.timeout_s is not DEFAULT  # the registry has put the scheduler's timeout there
            entry.late_at = late_at = self._now() + call.timeout_s
            if late_at < self._look_at:
                self._look_before(late_at)

    def beat(self, entry: StagedJob, progress: Progress | None) -> bool:
        if entry.phase is not Phase.RUNNING or entry.is_late:
            return False
        if progress is not None:
            entry.progress = progress
        self.begin(entry)
        return True

    def stop(self, entry: StagedJob) -> None:
        if entry.expire is not None:  # otherwise it has ended, or begins and checks `is_stopped` itself
            entry.late_at = self._now()
            self._look_before(entry.late_at)

    def _look_before(self, late_at: float) -> None:
        with self._lock, suppress(ClosedError):  # the stop has its own timeout
            if late_at < self._look_at:
                self._look_at = late_at  # set before the timer, which may fire at once
                old, self._timer = self._timer, self._timers.call_at(late_at, self._look)
                if old is not None:
                    old.cancel()

    def _look(self) -> None:
        self._look_at = math.inf  # before the check: an attempt that begins meanwhile sets the timer itself
        now = self._now()
        following = math.inf
        for entry in self._runner.queue.running():
            if entry.late_at <= now:
                self._is_late(entry, now)
            following = min(following, entry.late_at)
        if following < math.inf:
            self._look_before(following)

    def _is_late(self, entry: StagedJob, now: float) -> None:
        expire, entry.expire = entry.expire, None
        entry.is_late = True
        if expire is not None:
            entry.late_at = now + _GRACE_S
            with suppress(RuntimeError):  # the task's loop was closed
                expire()
            return
        entry.late_at = math.inf
        self._runner.leak(entry)
        if entry.phase is Phase.RUNNING:
            entry.ran_ms = (_timeout_of(entry) or 0.0) * 1000
            self._end(entry, self._verdict_on(entry))

    def _verdict_on(self, entry: StagedJob) -> _verdict.Verdict:
        ran = entry.ran(*self._elapsed.end_of(entry.job))
        if entry.is_stopped:
            return _verdict.stopped(entry, ran)
        return _verdict.judge_error(entry.job, entry.epoch, too_long(entry), ran, self._random)


class TaskTimeout:
    """
    Cancels a task once. It is cheaper than `asyncio.timeout`, which sets a timer for each task.
    """

    __slots__ = ("_task", "is_over")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task
        self.is_over = False

    def expire(self) -> None:
        if self._task is not None and not self.is_over:
            self.is_over = True
            self._task.cancel()

    def end(self) -> bool:
        task, self._task = self._task, None
        return task is not None and self.is_over and task.uncancel() == 0


def too_long(entry: StagedJob) -> TimeoutError:
    if entry.is_stopped:
        return TimeoutError("it was cancelled while it ran")
    return TimeoutError(f"it did not end within {_timeout_of(entry):g} s")


def _timeout_of(entry: StagedJob) -> float | None:
    call = entry.call
    assert call is not None
    assert call.timeout_s is not DEFAULT  # the registry has put the scheduler's timeout there
    return call.timeout_s
