"""
The times of a series that follows the wall clock.

The wheel counts monotonic time, and the wall clock may be set at any moment. So a series looks at it now and then, at
the latest every minute, and aims again. It fires once the wall clock shows the instant, never before:

    set forward past the instant    fires at the next look, or is left out, as the misfire rule says
    set back                        the next firing is the next match from the corrected time on, also where that time
                                    was shown before
    there and back between looks    is not noticed

All looks of a machine are at the same instants, the whole minutes of the monotonic clock, and so share their wake-up.

Internal: other packages use it, users do not.
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
"""The first instant later than the one given, in nanoseconds since the epoch, or None if there is none."""

_LOOK_NS: Final = 60_000_000_000
"""The wall clock is looked at after this long at the latest."""
_STEP_NS: Final = 250_000_000
"""A clock that goes back by less was not set, but drifts; as for jobs."""
_LEAST_NS: Final = 100_000
"""A wall clock that stops just before an instant is not asked more often than that."""
_GRACE_NS: Final = MISFIRE_GRACE_MS * NS_PER_MS
_FIRST_NS: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1_000 + 2 * 86_400 * 10**9
"""An instant before that is due at once as well; in some zones it could not be shown."""
_COUNTED_MAX: Final = 100
"""So many firings that were left out at once are counted; a second's line over a year has 31 million."""


class WallPhase:
    """
    The phase of a series by the wall clock; the methods are those of `Phase`.

    Args:
        rule: The instants.
        zone: What to show them in.
        after: The first of them is later than this.
        misfire: What to do about those that were missed.
        jitter: By up to how many seconds each comes later.

    Raises:
        ValueError: If *jitter* is negative, infinite or NaN.
    """

    missed: Final[Missed] = "skip"
    """For an interval that it is given later."""

    def __init__(
        self, rule: Rule, zone: tzinfo, after: int, misfire: Misfire = Misfire.ONCE, jitter: Seconds = 0.0
    ) -> None:
        self.jitter: Final = jitter
        self._jitter_ns = to_jitter(jitter)
        self._rule = rule
        self._zone = zone
        self._misfire = misfire
        self._due = after
        self._next: int | None = None
        self._aim(after)

    def is_over(self) -> bool:
        """
        Return whether there is no further firing.
        """
        return self._next is None

    def read(self, clock: Clock) -> Reading:
        """
        Return what the clock reads.
        """
        return clock.monotonic_ns(), clock.wall_ns()

    def look(self, now: Reading) -> int:
        """
        Notice that the wall clock was set, and return how many firings that leaves out.
        """
        wall = now[1]
        if wall < self._after - _STEP_NS:
            self._aim(wall)
        if self._misfire is Misfire.SKIP and wall - self._due > _GRACE_NS:
            return 1 + self._leave_out(wall)
        return 0

    def is_due(self, now: Reading) -> bool:
        """
        Return whether the wall clock shows the instant, or a later one.
        """
        return self._next is not None and self._due <= now[1]

    def time(self, now: Reading) -> int:
        """
        Return when to look again.
        """
        monotonic, wall = now
        wait = 0 if self._due <= wall else max(self._due - wall, _LEAST_NS)
        look = ((monotonic + _LEAST_NS) // _LOOK_NS + 1) * _LOOK_NS  # seconds in a float may round to just before it
        return min(monotonic + wait, look)

    def when(self, now: Reading) -> int:
        """
        Return the time of the next firing on the monotonic clock, by the present readings of the two.
        """
        return min(now[0] + self._due - now[1], NEVER)

    def next_at(self) -> datetime:
        """
        Return the instant of the next firing.
        """
        return (EPOCH + timedelta(microseconds=self._due // 1_000)).astimezone(self._zone)

    def go_on(self, now: Reading) -> int:
        """
        Go on from the firing that was due to the one after it, and return how many were left out.
        """
        if self._misfire is Misfire.ALL and self._next is not None:
            self._aim(self._next)
            return 0
        return self._leave_out(now[1])

    def pass_over(self, now: Reading) -> None:
        """
        Leave out what has passed.
        """
        self._aim(now[1])

    def _leave_out(self, wall: int) -> int:
        """
        Go on to the first firing after the one that was due and after *wall*; return how many are between.

        Jitter makes nothing late: *wall* counts without that of the firing that was due, and none is due before it.
        """
        assert self._next is not None
        due = self._due
        wall -= due - self._next
        count, reached, following = 0, self._next, self._rule(self._next)
        while following is not None and following <= wall and count < _COUNTED_MAX:
            count, reached, following = count + 1, following, self._rule(following)
        self._aim(max(reached, wall))
        self._due = max(self._due, due)
        return count

    def _aim(self, after: int) -> None:
        self._after = after
        self._next = self._rule(after)
        if self._next is not None:
            self._due = self._next + int(random.random() * self._jitter_ns)  # noqa: S311 - spreads load, guards nothing


def by_cron(clock: Clock, line: str, tz: str | ZoneInfo, misfire: str, jitter: Seconds) -> WallPhase:
    """
    Return the phase of a cron line that begins now; arguments and errors are those of `TimerVerbs.call_cron`.
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
    """
    Return the phase of a single instant.
    """
    due, zone = instant(when)
    due = max(due, _FIRST_NS)
    return WallPhase(lambda after: due if after < due else None, zone, min(clock.wall_ns(), due - 1))
