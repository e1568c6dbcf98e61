"""
Internal: the times of a series that follows the wall clock.

The wheel counts monotonic time, but the wall clock may be set at any moment. So a series reads the wall clock at least
once a minute, and computes its deadline again. It fires when the wall clock shows the instant, never before:

    if the clock is set             the series
    forward past the instant        fires at the next reading, or skips the firing, by the misfire rule
    back                            continues with the next match after the new time, even if the clock has already
                                    shown that match
    forward and back between two    is not affected
    readings

All series of a machine read the clock at the whole minutes of the monotonic clock, so they share wake-ups.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from tickwheel.calendar import Cron, Misfire
from tickwheel.calendar.instant import EPOCH, instant
from tickwheel.calendar.misfire import MISFIRE_GRACE_MS
from tickwheel.calendar.zone import zone_name
from tickwheel.clock import NEVER, Clock
from tickwheel.errors import InvalidValueError, RecurrenceError
from tickwheel.timers.phase import Missed, Reading, to_jitter
from tickwheel.typing import Instant, Seconds

__all__ = ["WallPhase", "at_instant", "by_cron"]

NS_PER_MS: Final = 1_000_000

Rule: TypeAlias = Callable[[int], int | None]
"""Returns the first instant after the given one, in nanoseconds since the epoch, or None if there is none."""

State: TypeAlias = tuple[int, int | None, int]

_LOOK_NS: Final = 60_000_000_000
"""Maximum time between two readings of the wall clock."""
_STEP_NS: Final = 250_000_000
"""Minimum step back that counts as a change of the clock. Smaller steps count as drift."""
_LEAST_NS: Final = 100_000
"""Minimum time between two readings. It limits the number of readings if the wall clock stops."""
_GRACE_NS: Final = MISFIRE_GRACE_MS * NS_PER_MS
_FIRST_NS: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1_000 + 2 * 86_400 * 10**9
"""The first instant that every zone can represent as a datetime. An earlier instant is due at once."""
_COUNTED_MAX: Final = 100
"""Maximum number of missed firings that are counted at once."""


class WallPhase:
    """
    The phase of a series that follows the wall clock, with the methods of `Phase`.

    The first instant is later than *after*. *zone* is used for display. *jitter* is the maximum random delay in
    seconds.
    """

    missed: Final[Missed] = "skip"
    """Policy for missed firings if `set_interval` replaces this phase."""

    def __init__(
        self, rule: Rule, zone: tzinfo, after: int, misfire: Misfire = Misfire.ONCE, jitter: Seconds = 0.0
    ) -> None:
        self.jitter: Final = jitter
        self._jitter_ns = to_jitter(jitter)
        self._rule = rule
        self._zone = zone
        self._misfire = misfire
        self.state = self._state_after(after, after)
        """
        The state: previous instant, next instant, and the next instant's due time, which includes the jitter.
        `following` returns the state after the next firing.
        """

    def is_over(self) -> bool:
        return self.state[1] is None

    def read(self, clock: Clock) -> Reading:
        return clock.monotonic_ns(), clock.wall_ns()

    def look(self, now: Reading) -> tuple[int, State]:
        """
        Return the number of missed firings to leave out, and the `state` as of *now*.
        """
        wall, state = now[1], self.state
        after, _, due = state
        if wall < after - _STEP_NS:
            state = self._state_after(wall, due)
        if self._misfire is Misfire.SKIP and wall - state[2] > _GRACE_NS:
            left_out, state = self._leave_out(state, wall)
            return 1 + left_out, state
        return 0, state

    def is_due(self, now: Reading) -> bool:
        _, following, due = self.state
        return following is not None and due <= now[1]

    def time(self, now: Reading, span_ns: int | None = None) -> int:
        monotonic, wall = now
        due = self.state[2]
        wait = 0 if due <= wall else max(due - wall, _LEAST_NS)
        look = ((monotonic + _LEAST_NS) // _LOOK_NS + 1) * _LOOK_NS  # later, because a float may round down
        return min(monotonic + wait, look, look if span_ns is None else monotonic + span_ns)

    def when(self, now: Reading) -> int:
        return min(now[0] + self.state[2] - now[1], NEVER)

    def next_at(self) -> datetime:
        return (EPOCH + timedelta(microseconds=self.state[2] // 1_000)).astimezone(self._zone)

    def following(self, now: Reading) -> tuple[int, State]:
        _, instant, due = self.state
        if self._misfire is Misfire.ALL and instant is not None:
            return 0, self._state_after(instant, due)
        return self._leave_out(self.state, now[1])

    def pass_over(self, now: Reading) -> None:
        self.state = self._state_after(now[1], self.state[2])

    def _leave_out(self, state: State, wall: int) -> tuple[int, State]:
        """
        Leave out the firings after the due one, up to *wall*. Return their number and the `state` of the next firing.
        """
        _, reached, due = state
        assert reached is not None
        wall -= due - reached  # jitter alone must not leave a firing out
        count, following = 0, self._rule(reached)
        while following is not None and following <= wall and count < _COUNTED_MAX:
            count, reached, following = count + 1, following, self._rule(following)
        after, instant, next_due = self._state_after(max(reached, wall), due)
        return count, (after, instant, max(next_due, due))

    def _state_after(self, after: int, due: int) -> State:
        """
        Return the `state` for the first instant after *after*; at the end of a series, a state without an instant.
        """
        instant = self._rule(after)
        if instant is not None:
            due = instant + int(random.random() * self._jitter_ns)  # noqa: S311  it spreads load, and guards nothing
        return after, instant, due


def by_cron(clock: Clock, line: str, tz: str | ZoneInfo, misfire: str, jitter: Seconds) -> WallPhase:
    """
    Return a phase that follows a cron line from now on. Arguments and errors are those of `TimerVerbs.call_cron`.
    """
    cron = Cron.parse(line, zone_name(tz))
    if misfire not in list(Misfire):
        raise InvalidValueError("misfire", misfire, f"pass one of {', '.join(Misfire)}")

    def rule(after: int) -> int | None:
        found = cron.next(after // NS_PER_MS, makes_up=misfire != Misfire.SKIP)
        return None if found is None else found * NS_PER_MS

    phase = WallPhase(rule, cron.zone, clock.wall_ns(), Misfire(misfire), jitter)
    if phase.is_over():
        raise RecurrenceError("cron", line, "it does not fire within 50 years of now")
    return phase


def at_instant(clock: Clock, when: Instant) -> WallPhase:
    due, zone = instant(when)
    due = max(due, _FIRST_NS)
    return WallPhase(lambda after: due if after < due else None, zone, min(clock.wall_ns(), due - 1))
