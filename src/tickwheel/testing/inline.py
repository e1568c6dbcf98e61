"""
A scheduler for tests: time is a manual clock's, and jobs fire in the thread that moves it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tickwheel.engine.inline import Inline
from tickwheel.scheduler import Scheduler, SchedulerOptions
from tickwheel.stores import make_store
from tickwheel.targets import Target
from tickwheel.testing.manual_clock import ManualClock

__all__ = ["InlineScheduler"]


class InlineScheduler(Scheduler):
    """
    A `Scheduler` in memory whose jobs fire in the thread that moves the clock, one after the other.

    They fire inside `clock.advance` and `clock.jump`; what is due when it starts fires at `clock.advance(0)`.
    Attempts, retries, recurrence, expiry, stops and counts are those of a `Scheduler`. An async handler runs on an
    event loop of its own. What a handler raises is a failed attempt; an AssertionError also comes out of the call that
    moves the time. Limits and timeouts of handlers do not apply. Where the clock reads whole milliseconds, `delay=60`
    fires after exactly 60 s.

    Args:
        clock: What moves the time.
        options: The knobs; of these only the retry policy and the history matter.
        targets: Further targets.
    """

    def __init__(
        self, clock: ManualClock, *, options: SchedulerOptions | None = None, targets: dict[str, Target] | None = None
    ) -> None:
        super().__init__(make_store("memory://", clock), options=options, targets=targets, clock=_JustBefore(clock))
        core: Any = self._core  # that of a store, not of a service
        core.make_owner = partial(Inline, clock)


class _JustBefore:
    """
    The clock as those see it who set jobs: a nanosecond earlier.

    Instants are whole milliseconds, and a millisecond that has begun is never counted as whole. So a delay from a whole
    one would end a millisecond after it, and `advance(60)` would not fire what was set with `delay=60`.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def wall_ns(self) -> int:
        return self._clock.wall_ns() - 1
