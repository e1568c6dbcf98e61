"""
A clock that a test moves from deadline to deadline, and that fires attached engines. It resembles trio's `MockClock`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Protocol

from tickwheel.clock import NEVER, seconds, to_ns
from tickwheel.threads import RLock
from tickwheel.typing import NonCopyable, Seconds
from tickwheel.wheels.contract import checked_deadline

__all__ = ["Attached", "ManualClock"]

TURNS_MAX: Final = 20_000
"""Number of `fire_due` calls at one time of the clock after which `advance` reports an endless loop."""


class Attached(Protocol):
    """
    An object that follows a clock: an engine, or any object with these two methods.
    """

    def arm(self) -> int | None:
        """
        Return the next time to call `fire_due`, in clock nanoseconds, or None.
        """

    def fire_due(self, limit: int | None = None) -> int:
        """
        Fire due timers and return their number.
        """


class ManualClock(NonCopyable):
    """
    Time for tests, which moves only when you move it.

    The clock starts at a random offset, so that no test depends on zero. `repr()` shows the offset, so that you can
    repeat a run. A `TimerWheel` made with this clock attaches itself, and fires inside `advance` and `jump`, in the
    calling thread. Inside a callback, these methods only move the time, so a test can simulate a slow callback.

    All methods may be called from any thread. A second thread that moves the time waits for the first. A callback in a
    pool that blocks when full must not move the time, because this may deadlock.

    Args:
        start_ns: First reading of the monotonic clock, in nanoseconds; None for a random offset of hours to days.
        wall: First reading of the wall clock, in seconds since the epoch.

    Raises:
        ValueError: If *start_ns* or *wall* is negative, or not before NEVER.
    """

    def __init__(self, start_ns: int | None = None, *, wall: float = 1_000_000_000.0) -> None:
        start_ns = random.randrange(10**13, 10**15) if start_ns is None else start_ns
        self._start_ns = checked_deadline(start_ns, "start_ns")
        if self._start_ns == NEVER:
            message = f"start_ns is {start_ns!r}: pass an integer of nanoseconds in 0..2**63 - 2"
            raise ValueError(message)
        self._now = self._start_ns
        self._wall_offset = _wall_ns(wall) - self._start_ns
        self._attached: list[Attached] = []
        self._moving = RLock()
        self._noting = RLock()  # held only briefly, because a move may wait for a thread that attaches or detaches
        self._is_firing = False

    def __repr__(self) -> str:
        return f"ManualClock(start_ns={self._start_ns}, now_ns={self._now})"

    def monotonic_ns(self) -> int:
        return self._now

    def monotonic(self) -> float:
        """
        Return the time in seconds.
        """
        return seconds(self._now)

    def wall_ns(self) -> int:
        return self._now + self._wall_offset

    def set_wall(self, wall: float) -> None:
        """
        Set the wall clock to *wall* seconds since the epoch. Monotonic time does not change.

        Raises:
            ValueError: If *wall* is negative, or not before NEVER.
        """
        with self._noting:
            self._wall_offset = _wall_ns(wall) - self._now

    def step_wall(self, step: Seconds) -> None:
        """
        Move the wall clock by *step* seconds, which may be negative. Monotonic time does not change.

        Raises:
            ValueError: If *step* is NaN, or 292 years or more.
        """
        step_ns = to_ns(step, "step")
        if abs(step_ns) == NEVER:
            message = f"step is {step!r}: pass seconds below 292 years"
            raise ValueError(message)
        with self._noting:
            self._wall_offset += step_ns

    def attach(self, attached: Attached) -> None:
        with self._noting:
            if not any(each is attached for each in self._attached):
                self._attached = [*self._attached, attached]

    def detach(self, attached: Attached) -> None:
        with self._noting:
            self._attached = [each for each in self._attached if each is not attached]

    def advance(self, delay: Seconds) -> None:
        """
        Move the time by *delay* seconds, 0 or more, and stop at each deadline on the way to fire its timers.

        A delay of 0 fires due timers, and timers that their callbacks set with no delay.

        Raises:
            ValueError: If *delay* is negative, NaN or infinite.
            RuntimeError: If a timer keeps setting itself with no delay, so that time cannot pass.
        """
        self._move(delay, self._step_to)

    def jump(self, delay: Seconds) -> None:
        """
        Move the time by *delay* seconds in one step, as if the machine was busy, then fire all due timers.

        The argument and the errors are those of `advance`.
        """
        self._move(delay, self._jump_to)

    def jump_to_next(self) -> float | None:
        """
        Jump to the next deadline and fire its timers. Return the seconds passed, or None if no timer is pending.
        """
        with self._moving:
            deadline = self._next()
            if deadline is None:
                return None
            before = self._now
            self._jump_to(max(deadline, before))
            return seconds(self._now - before)

    def _move(self, delay: Seconds, move: Callable[[int], None]) -> None:
        delay_ns = to_ns(delay, "delay")
        with self._moving:
            target = self._now + delay_ns
            if delay_ns < 0 or target >= NEVER:
                message = f"delay is {delay!r}: a clock moves by 0 or more seconds, and stays below 292 years"
                raise ValueError(message)
            move(target)

    def _step_to(self, target: int) -> None:
        if not self._is_firing:
            turns, latest = 0, -1
            while (deadline := self._next()) is not None and deadline <= max(target, self._now):
                # A deadline after the target is reached only if a callback moves the time.
                turns = turns + 1 if deadline <= latest or deadline > target else 0
                latest = max(latest, deadline)
                self._check_turns(turns)
                self._jump_once(max(deadline, self._now))
        self._now = max(self._now, target)

    def _jump_to(self, target: int) -> None:
        self._now = target
        if not self._is_firing:
            self._step_to(target)

    def _jump_once(self, now: int) -> None:
        self._now = now
        self._is_firing = True
        try:
            for attached in self._attached:
                attached.fire_due()
        finally:
            self._is_firing = False

    def _next(self) -> int | None:
        deadlines = [deadline for each in self._attached if (deadline := each.arm()) is not None and deadline < NEVER]
        return min(deadlines, default=None)

    def _check_turns(self, turns: int) -> None:
        if turns > TURNS_MAX:
            message = (
                f"time stays at {self._now} ns after {turns} turns: a timer or job sets itself again with no delay, "
                "or a callback that makes up for missed firings takes longer than its interval"
            )
            raise RuntimeError(message)


def _wall_ns(wall: float) -> int:
    """
    Convert *wall* to nanoseconds, rounded to microseconds, because a float of today's date is not more precise.
    """
    read_ns = to_ns(wall, "wall")
    wall_ns = (read_ns + 500) // 1000 * 1000
    if read_ns < 0 or wall_ns >= NEVER:
        message = f"wall is {wall!r}: pass seconds since the epoch, 0 or more and below 292 years"
        raise ValueError(message)
    return wall_ns
