"""
Timeouts: an attempt that takes too long has failed, and its thread or task, which may run on, has leaked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from tickwheel.errors import ClosedError
from tickwheel.scheduler.engine import _verdict
from tickwheel.scheduler.engine._entry import Entry, Stage
from tickwheel.scheduler.engine._ground import Ground
from tickwheel.scheduler.targets import USUAL
from tickwheel.timers._contract import Timer

__all__ = ["Leaking", "Timeouts", "Watch", "timeout_of", "too_long"]


class Leaking(Protocol):
    """
    What runs attempts.
    """

    def leak(self, entry: Entry) -> None:
        """
        Let another run in place of *entry*, if that still runs; from any thread.
        """


class Watch:
    """
    The timeout of one attempt.
    """

    __slots__ = ("_entry", "_span_s", "_timer")

    def __init__(self, entry: Entry, timer: Timer | None, span_s: float) -> None:
        self._entry, self._timer, self._span_s = entry, timer, span_s

    def beat(self) -> bool:
        """
        Let it begin again; return whether the attempt still counts.
        """
        return self._entry.stage is Stage.RUNNING and (self._timer is None or self._timer.restart(self._span_s))

    def end(self) -> None:
        """
        End it with its attempt.
        """
        if self._timer is not None:
            self._timer.cancel()


class Timeouts:
    """
    Watches attempts. From any thread.

    Args:
        ground: What it stands on.
        end: Gets what ended and how, unless it had ended before.
    """

    def __init__(self, ground: Ground, end: Callable[[Entry, _verdict.Verdict], object]) -> None:
        self._timers = ground.timers
        self._elapsed = ground.elapsed
        self._end = end

    def watch(self, entry: Entry, runner: Leaking, grace_s: float = 0.0) -> Watch:
        """
        Watch over *entry*, which *runner* begins with now; *grace_s* is what it may take once its timeout is over.
        """
        timeout_s, timer = timeout_of(entry), None
        if timeout_s is None:
            return Watch(entry, None, 0.0)
        span_s = timeout_s + grace_s
        with suppress(ClosedError):  # the scheduler stops, and waits no longer than it was told
            timer = self._timers.call_later(span_s, partial(self._is_over, entry, runner, timeout_s))
        return Watch(entry, timer, span_s)

    def _is_over(self, entry: Entry, runner: Leaking, timeout_s: float) -> None:
        runner.leak(entry)
        if entry.stage is Stage.RUNNING:
            entry.ran_ms = timeout_s * 1000
            now = self._elapsed.now_ms(entry.job)
            self._end(entry, _verdict.judge_error(entry.job, entry.epoch, too_long(timeout_s), now))


def timeout_of(entry: Entry) -> float | None:
    """
    Return how many seconds the attempt may take, or None.
    """
    assert entry.call is not None
    assert entry.call.timeout_s is not USUAL  # the registry put the scheduler's there
    return entry.call.timeout_s


def too_long(timeout_s: float) -> TimeoutError:
    """
    Return the error of an attempt that took too long.
    """
    return TimeoutError(f"it did not end within {timeout_s:g} s")
