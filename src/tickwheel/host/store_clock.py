from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from tickwheel.drivers.contract import is_stepped
from tickwheel.host.runtime import Runtime

__all__ = ["StoreClock"]

_DRIFT: Final = 1e-4
"""Usual maximum difference between the rates of two clocks."""

_SLEW: Final = 0.1
"""Maximum difference of rates while a clock is slewed (sped up or slowed down). Within this limit, no job is early."""

_ROUNDING_S: Final = 1e-6
"""Upper bound of a deadline's rounding error. A timer that fires early by less than this is set again."""

_LESS_NS: Final = 0.25
"""Nanoseconds subtracted from a deadline: more than the rounding error of a float."""

_STALE_MS: Final = 10_000.0
"""Maximum age of a sample. At this age the usual drift is a millisecond, and the largest possible drift a second."""

_STEP_NS: Final = 250_000_000
"""Minimum change of the wall clock against elapsed time that counts as a step."""
_SERVER_STEP_MS: Final = 1_000.0
"""
Minimum change of a server's clock that counts as a step. Hours of drift stay below this value.
"""

_GLANCE_NS: Final = 5_000_000
_GLANCES: Final = 20
"""Maximum number of tries to read two clocks without an interruption in between."""


class StoreClock:
    """
    The store's time, computed from this machine's clocks, and the conversion to monotonic time.

    A store on this machine uses the machine's wall clock. A store with its own clock is sampled against the monotonic
    clock: when it is opened, at each renewal, and before a write if the last sample is old. A change of this machine's
    wall clock then does not change due times. All times include suspend.

    `earliest` is never ahead of the store's clock, so it decides when a job fires. `latest` is never behind, so it
    decides when a run has ended. Both statements hold while the two clocks' rates differ by at most a tenth. `now` is
    the usual estimate. It is behind by at most the duration of the quickest recent sample, and ahead only while a clock
    is slewed (sped up or slowed down until it is right).

    Each step of a clock has a number, `clock_step`. The next reading or sample detects the step. Two readings with the
    same number differ by the elapsed time. `moved_ms` returns the sum of the steps between two numbers, in ms.
    """

    __slots__ = (
        "_anchor_ns",
        "_clock",
        "_doubt_ms",
        "_elapsed_ns",
        "_is_stepped",
        "_least",
        "_listener",
        "_lock",
        "_most",
        "_offset_ms",
        "_sampled_at",
        "_skews",
        "clock_step",
        "shown_ms",
    )

    def __init__(self, runtime: Runtime) -> None:
        self._clock = clock = runtime.clock
        self._elapsed_ns: Callable[[], int] = getattr(clock, "elapsed_ns", clock.monotonic_ns)
        self._is_stepped = is_stepped(clock)
        self._lock = runtime.lock()
        self._offset_ms: float | None = None
        self._sampled_at = 0.0
        self._doubt_ms = 0.0
        """Maximum error of the offset at the last sample, in ms."""
        self._least = self._most = 0.0, 0.0
        self._anchor_ns = clock.wall_ns() - self._elapsed_ns()
        self._skews: list[int] = [0]
        self.clock_step = 0
        self.shown_ms = 0
        """The latest time read before the clock was set back."""
        self._listener: Callable[[], object] | None = None

    def moved_ms(self, since: int, until: int) -> int:
        return self._skews[until] - self._skews[since]

    @property
    def is_sampled(self) -> bool:
        return self._offset_ms is not None

    @property
    def is_stale(self) -> bool:
        """
        True if the last sample of the store's own clock is so old that a new due time could be a second late.
        """
        return self._offset_ms is not None and self.age_ms() > _STALE_MS

    @property
    def offset_ms(self) -> float:
        """
        The store's wall-clock time minus this machine's, in ms; 0 for a store on this machine's clock.
        """
        return 0.0 if self._offset_ms is None else self.now() - self._clock.wall_ns() / 1e6

    def listen(self, listener: Callable[[], object]) -> None:
        """
        Set *listener*, which is called at each clock step. It must only set a flag, because the caller may hold locks.
        """
        self._listener = listener

    def now(self) -> float:
        if self._offset_ms is None:
            wall_ns = self._clock.wall_ns()
            if not -_STEP_NS < wall_ns - self._elapsed_ns() - self._anchor_ns < _STEP_NS:
                self._look_closely()
            return wall_ns // 1000 / 1e3  # a float of all digits could round up, and so be early
        elapsed = self.elapsed()
        return elapsed + self._offset_ms - (elapsed - self._sampled_at) * _DRIFT

    def earliest(self) -> float:
        if self._offset_ms is None:
            return self.now()
        least, at = self._least
        return least + (self.elapsed() - at) * (1 - _SLEW)

    def latest(self) -> float:
        if self._offset_ms is None:
            return self.now()
        most, at = self._most
        return most + (self.elapsed() - at) / (1 - _SLEW)

    def least_deadline(self, at: float) -> float:
        """
        Return the monotonic seconds at which `earliest` will read *at* ms, if there is no new sample until then.
        """
        if self._offset_ms is None:
            return self.deadline(at)
        local_ms = self._clock.monotonic_ns() / 1e6
        return (local_ms + max(0.0, at - self.earliest()) / (1 - _SLEW)) / 1e3 + _ROUNDING_S

    def age_ms(self) -> float:
        return self.elapsed() - self._sampled_at

    def now_ms(self) -> int:
        return int(self.now())

    def reading(self) -> tuple[int, int]:
        skews = self._skews
        while True:
            steps, now = len(skews), int(self.now())
            if len(skews) == steps:
                return now, steps - 1

    def reading_for_delay(self) -> tuple[int, int, int]:
        """
        Return the result of `reading`, and the time in ms to which the caller adds a delay and 1 ms.

        The 1 ms makes up for the part of the current millisecond that has passed. If a manual clock shows a whole
        millisecond, the returned time is 1 ms earlier, so that advancing the clock by the delay reaches the due time.
        """
        now, clock_step = self.reading()
        if self._offset_ms is not None:
            return now, clock_step, ceil(self.latest()) - 1
        return now, clock_step, now - (self._is_stepped and self._clock.wall_ns() == now * 1_000_000)

    def deadline(self, at: float) -> float:
        """
        Return the monotonic seconds at which the store's clock will read *at* ms, if no clock is set until then.
        """
        local_ns = self._clock.monotonic_ns()
        if self._is_stepped and self._offset_ms is None:  # a manual clock may stop at this very nanosecond
            return (local_ns + round(at * 1_000_000) - self._clock.wall_ns() - _LESS_NS) / 1e9
        missing = at - self.now()
        if self._offset_ms is not None:
            missing /= 1 - _DRIFT
        return (local_ns / 1e6 + missing) / 1e3 + _ROUNDING_S

    def monotonic(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def sample(self, store_ms: int, before: float, after: float) -> None:
        """
        Update the estimated offset: between *before* and *after* (by `elapsed`), the store's clock showed *store_ms*.

        The true offset is between two bounds. An estimate between the bounds is kept, and any other estimate is
        replaced by the nearer bound. The lower bound is used for the first sample, and after a clock step of the
        server.
        """
        lowest, highest = store_ms - after, store_ms + 1 - before
        believed = None if self._offset_ms is None else self.now() - self.elapsed()
        least, at = self._least
        least += (after - at) * (1 - _SLEW)
        if believed is None or not store_ms <= least <= store_ms + 1 + (after - before) / (1 - _SLEW):
            least = store_ms
        self._least = least, after  # one assignment, for readers in other threads
        most, at = self._most
        carried, read = most + (after - at) / (1 - _SLEW), store_ms + 1 + (after - before) / (1 - _SLEW)
        self._most = (min(carried, read) if believed is not None and carried >= store_ms else read), after
        doubt = self._doubt_ms + (after - self._sampled_at) * _SLEW / (1 - _SLEW)
        limit = _SERVER_STEP_MS + doubt
        is_near = believed is not None and lowest - limit < believed < highest + limit
        self._doubt_ms = min(highest - lowest, doubt) if is_near else highest - lowest
        self._offset_ms = min(max(believed, lowest), highest) if believed is not None and is_near else lowest
        self._sampled_at = after
        if believed is not None and not is_near:
            self._begin_era(round(lowest - believed), believed + after)

    def local(self) -> float:
        return self._clock.monotonic_ns() / 1e6

    def elapsed(self) -> float:
        return self._elapsed_ns() / 1e6

    def _look_closely(self) -> None:
        """
        Count a clock step if the wall clock was set.
        """
        with self._lock:
            # a pair of readings with an interruption in between is read again
            for _ in range(_GLANCES):
                before = self._elapsed_ns()
                wall_ns = self._clock.wall_ns()
                if self._elapsed_ns() - before < _GLANCE_NS:
                    break
            step_ns = wall_ns - before - self._anchor_ns
            if -_STEP_NS < step_ns < _STEP_NS:
                return
            self._anchor_ns += step_ns
            self._begin_era(round(step_ns / 1e6), (wall_ns - step_ns) / 1e6)

    def _begin_era(self, step_ms: int, shown_ms: float) -> None:
        if step_ms < 0:
            self.shown_ms = max(self.shown_ms, int(shown_ms))
        self._skews.append(self._skews[-1] + step_ms)
        self.clock_step = len(self._skews) - 1
        if self._listener is not None:
            self._listener()
