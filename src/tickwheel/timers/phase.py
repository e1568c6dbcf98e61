"""
Internal: the times of a series at an interval, in fixed phase.

The time of firing n is first + n * interval, where the interval is rounded to whole nanoseconds, like a delay. Errors
therefore do not add up: call_every(0.1) fires at the times of call_later(n * 0.1). The user chooses the policy for
missed firings, as in tokio's `MissedTickBehavior`. Below, x is a firing; the callback of time 1 runs until 3.5:

    policy     0    1    2    3    4    5        after the long callback, the series
    skip       x    x-----------)  x    x        continues with the next time in phase
    burst      x    x-----------)xxx    x        fires once for each missed time, immediately
    delay      x    x-----------)    x    x      continues an interval later, in a new phase
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from tickwheel.clock import NEVER, Clock, to_deadline, to_ns
from tickwheel.typing import Seconds

__all__ = ["Missed", "Phase", "Reading", "to_jitter"]

Missed: TypeAlias = Literal["skip", "burst", "delay"]
"""Policy for firings whose time has passed."""

Reading: TypeAlias = tuple[int, int]
"""A reading of a clock in nanoseconds: the monotonic time, and, if the phase needs it, the wall-clock time."""


class Phase:
    """
    The times of a series, in nanoseconds.

    *first* is the time of firing 0. *until* is the last allowed time of a firing, before jitter. *interval* and
    *jitter*, the maximum random delay of each firing, are in seconds.
    """

    def __init__(
        self, first: int, interval: Seconds, missed: Missed, jitter: Seconds = 0.0, until: int = NEVER
    ) -> None:
        self._interval_ns = to_deadline(interval, "interval")
        if not 0 < self._interval_ns < NEVER:
            message = f"interval is {interval!r}: pass more than 0 seconds, and less than 292 years"
            raise ValueError(message)
        if missed not in get_args(Missed):
            message = f"missed is {missed!r}: pass one of {', '.join(map(repr, get_args(Missed)))}"
            raise ValueError(message)
        self.missed: Final = missed
        self.jitter: Final = jitter
        self._jitter_ns = to_jitter(jitter)
        self.until: Final = until
        self._due = 0
        self._put_off = 0
        self.state = first, 0
        """The time of firing 0, and the number of the next firing. `following` returns the state after that firing."""

    def is_over(self) -> bool:
        return self.until < NEVER and self._time_of(self.state[1]) > self.until

    def read(self, clock: Clock) -> Reading:
        return clock.monotonic_ns(), 0

    def look(self, now: Reading) -> tuple[int, tuple[int, int]]:
        # No firing before the next one is left out: see `following`.
        return 0, self.state

    def is_due(self, now: Reading) -> bool:
        return True

    def next_at(self) -> None: ...

    def time(self, now: Reading, span_ns: int | None = None) -> int:
        """
        Return the time of the next firing, with jitter. The jitter is cut so that the time is within *span_ns* of now.
        """
        time = self._time_of(self.state[1])
        if not self._jitter_ns:
            return min(time, NEVER)
        from random import random  # noqa: PLC0415  only jitter needs it, and it costs as much as this module

        jitter_ns = int(random() * self._jitter_ns)  # noqa: S311  it spreads load, and guards nothing
        due = time + jitter_ns if span_ns is None else min(time + jitter_ns, max(time, now[0] + span_ns))
        self._due = max(due, self._due)  # never before the previous firing
        self._put_off = self._due - time
        return min(self._due, NEVER)

    def following(self, now: Reading) -> tuple[int, tuple[int, int]]:
        """
        Return the number of missed firings to leave out, and the `state` after the next firing.
        """
        time = now[0] - self._put_off  # jitter makes no firing late
        first, number = self.state
        number += 1
        if self.missed == "burst" or self._time_of(number) > time:
            return 0, (first, number)
        passed = self._passed(time)
        left_out = passed - number + 1
        return left_out, (first, passed + 1) if self.missed == "skip" else (now[0], 1)

    def go_on(self, now: Reading) -> int:
        left_out, self.state = self.following(now)
        return left_out

    def pass_over(self, now: Reading) -> None:
        first, number = self.state
        if self._time_of(number) <= now[0]:
            self.state = first, self._passed(now[0]) + 1

    def _passed(self, now: int) -> int:
        return (now - self.state[0]) // self._interval_ns

    def _time_of(self, number: int) -> int:
        return self.state[0] + number * self._interval_ns


def to_jitter(jitter: Seconds) -> int:
    jitter_ns = to_ns(jitter, "jitter")
    if not 0 <= jitter_ns < NEVER:
        message = f"jitter is {jitter!r}: pass 0 or more seconds, and less than 292 years"
        raise ValueError(message)
    return jitter_ns
