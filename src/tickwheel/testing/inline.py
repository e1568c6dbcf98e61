"""
A scheduler for tests: time is a manual clock's, and jobs fire in the thread that moves it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from tickwheel.scheduler import Scheduler, SchedulerOptions
from tickwheel.scheduler.engine.inline import Inline
from tickwheel.scheduler.stores import make_store
from tickwheel.scheduler.targets import Firing, Target
from tickwheel.testing.manual_clock import ManualClock
from tickwheel.typing import Duration

__all__ = ["InlineScheduler"]


class InlineScheduler(Scheduler):
    """
    A `Scheduler` in memory whose jobs fire in the thread that moves the clock, one after the other.

    They fire inside `clock.advance` and `clock.jump`.
    Attempts, retries, recurrence and expiry are those of a `Scheduler`. An async handler runs on an event loop of its
    own. What a handler raises is a failed attempt; an AssertionError also comes out of the call that moves the time.
    Limits and timeouts of handlers do not apply. Where the clock reads whole milliseconds, `delay=60` fires after
    exactly 60 s.

    Args:
        clock: What moves the time.
        options: The knobs; of these only the retry policy and the history matter.
        targets: Further targets.
    """

    def __init__(
        self, clock: ManualClock, *, options: SchedulerOptions | None = None, targets: dict[str, Target] | None = None
    ) -> None:
        self._clock = clock
        self._store = make_store("memory://", clock)
        self._history = (options or SchedulerOptions()).history
        super().__init__(self._store, options=options, targets=targets, clock=_JustBefore(clock))
        self._inline: Inline | None = None

    def start(self, *, role: str = "owner") -> Self:
        """
        Fire jobs as the clock moves; what is due already fires at `clock.advance(0)`. Started already, it does nothing.
        """
        if self._inline is None:
            core: Any = self._core  # that of a store, not of a service
            core.client.opened()
            runtime = replace(core.runtime, clock=self._clock)
            self._inline = Inline(self._store, core.registry, core.hooks, runtime, self._history)
            self._clock.attach(self._inline)
        return self

    def stop(self, timeout: Duration | None = 10.0) -> list[Firing]:
        """
        Leave the clock, and close; what is pending is gone. Twice is allowed.
        """
        if self._inline is not None:
            self._clock.detach(self._inline)
            self._inline.close()
            self._inline = None
        return super().stop(timeout)

    close = stop

    @property
    def is_started(self) -> bool:
        """
        Return whether jobs fire as the clock moves.
        """
        return self._inline is not None


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
