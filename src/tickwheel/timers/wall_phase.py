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

State: TypeAlias = tuple[int, int | None, int]

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
        self.state = self._aim(after, after)
        """
        The instant after which the next one comes, that, and when it is due with its jitter: `following` has those of
        the one after it.
        """

    def is_over(self) -> bool:
        """
        Return whether there is no further firing.
        """
        return self.state[1] is None

    def read(self, clock: Clock) -> Reading:
        """
        Return what the clock reads.
        """
        return clock.monotonic_ns(), clock.wall_ns()

    def look(self, now: Reading) -> tuple[int, State]:
        """
        Return how many firings are left out because the wall clock was set, or has passed them, and the state then.
        """
        wall, state = now[1], self.state
        after, _, due = state
        if wall < after - _STEP_NS:
            state = self._aim(wall, due)
        if self._misfire is Misfire.SKIP and wall - state[2] > _GRACE_NS:
            left_out, state = self._leave_out(state, wall)
            return 1 + left_out, state
        return 0, state

    def is_due(self, now: Reading) -> bool:
        """
        Return whether the wall clock shows the instant, or a later one.
        """
        _, following, due = self.state
        return following is not None and due <= now[1]

    def time(self, now: Reading) -> int:
        """
        Return when to look again.
        """
        monotonic, wall = now
        due = self.state[2]
        wait = 0 if due <= wall else max(due - wall, _LEAST_NS)
        look = ((monotonic + _LEAST_NS) // _LOOK_NS + 1) * _LOOK_NS  # seconds in a float may round to just before it
        return min(monotonic + wait, look)

    def when(self, now: Reading) -> int:
        """
        Return the time of the next firing on the monotonic clock, by the present readings of the two.
        """
        return min(now[0] + self.state[2] - now[1], NEVER)

    def next_at(self) -> datetime:
        """
        Return the instant of the next firing.
        """
        return (EPOCH + timedelta(microseconds=self.state[2] // 1_000)).astimezone(self._zone)

    def following(self, now: Reading) -> tuple[int, State]:
        """
        Return how many firings are left out between the one that was due and the one after it, and its state.
        """
        _, instant, due = self.state
        if self._misfire is Misfire.ALL and instant is not None:
            return 0, self._aim(instant, due)
        return self._leave_out(self.state, now[1])

    def pass_over(self, now: Reading) -> None:
        """
        Leave out what has passed.
        """
        self.state = self._aim(now[1], self.state[2])

    def _leave_out(self, state: State, wall: int) -> tuple[int, State]:
        """
        Return the first firing after the one that was due and after *wall*, behind how many are between.

        Jitter makes nothing late: *wall* counts without that of the firing that was due, and none is due before it.
        """
        _, reached, due = state
        assert reached is not None
        wall -= due - reached
        count, following = 0, self._rule(reached)
        while following is not None and following <= wall and count < _COUNTED_MAX:
            count, reached, following = count + 1, following, self._rule(following)
        after, instant, next_due = self._aim(max(reached, wall), due)
        return count, (after, instant, max(next_due, due))

    def _aim(self, after: int, due: int) -> State:
        """
        Return the first firing after an instant; if there is none, the one that was *due* stays the last.
        """
        instant = self._rule(after)
        if instant is not None:
            due = instant + int(random.random() * self._jitter_ns)  # noqa: S311 - spreads load, guards nothing
        return after, instant, due


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
