"""
The store's clock, read without asking the store; and what happens to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwheel.drivers.contract import is_stepped
from tickwheel.host.runtime import Runtime

__all__ = ["StoreClock"]

_DRIFT: Final = 1e-4
"""How much faster than the store's this machine's clock usually runs: two bad crystals, 50 millionths off each."""

_SLEW: Final = 0.1
"""How much faster it may run while somebody lets it catch up, or slows the store's down: nothing is early then."""

_ROUNDING_S: Final = 1e-6
"""More than rounding can take off a deadline: a timer early by so little finds nothing due, and is set again."""

_STALE_MS: Final = 10_000.0
"""After so long without a sample the drift that is allowed for comes to a millisecond."""

_STEP_NS: Final = 250_000_000
"""A time of day that moved by this much against elapsed time was set by somebody."""
_SERVER_STEP_MS: Final = 1_000.0
"""The same for a server's, which is seen through a network: more than a drift of hours adds up to."""

_GLANCE_NS: Final = 5_000_000
_GLANCES: Final = 20
"""Two clocks are compared by readings no further apart than this; a busy machine gets this many tries."""


class StoreClock:
    """
    The store's time, computed from this machine's clocks, and the way from there to the monotonic one.

    A store that reads this machine's time of day has that. One with a clock of its own is sampled when it is opened, at
    each renewal, and before a write long after that, against the monotonic clock: nobody who sets this machine's time
    of day changes what is due.
    It takes the earliest instant that a sample leaves, and runs a little slower than the machine from then on. It is
    behind by what the quickest of the last samples took, and ahead only while a clock is slewed (made to run faster or
    slower until it is right). `earliest` is never ahead, whatever their rates, up to a tenth apart, and so decides
    when a job fires; it is near `now` for some milliseconds after a sample. Both count the time of a suspend.

    Either clock may be set, which begins a new `era`. It is noticed by the first reading of this machine's clock after
    it, or by the next sample; so every reading belongs to one era, and two readings of one era differ by the time that
    has elapsed. `moved_ms` says how far an instant of an earlier era is from the same distance in the current one.
    """

    __slots__ = (
        "_anchor_ns",
        "_clock",
        "_elapsed_ns",
        "_is_stepped",
        "_least",
        "_listener",
        "_lock",
        "_offset_ms",
        "_sampled_at",
        "_skews",
        "shown_ms",
    )

    def __init__(self, runtime: Runtime) -> None:
        self._clock = clock = runtime.clock
        self._elapsed_ns: Callable[[], int] = getattr(clock, "elapsed_ns", clock.monotonic_ns)
        self._is_stepped = is_stepped(clock)
        self._lock = runtime.lock()
        self._offset_ms: float | None = None
        self._sampled_at = 0.0
        self._least = 0.0, 0.0
        self._anchor_ns = clock.wall_ns() - self._elapsed_ns()
        self._skews: list[int] = [0]
        self.shown_ms = 0
        """The latest time that was shown before the clock was set back: what is later has never come."""
        self._listener: Callable[[], object] | None = None

    @property
    def era(self) -> int:
        """
        The number of times that the clock was set, as far as that was noticed.
        """
        return len(self._skews) - 1

    def moved_ms(self, since: int, until: int) -> int:
        """
        Return by how much the clock was set from one era to another, in all.
        """
        return self._skews[until] - self._skews[since]

    @property
    def is_sampled(self) -> bool:
        """
        True if the store has a clock of its own: then nobody has to look at this machine's.
        """
        return self._offset_ms is not None

    @property
    def is_stale(self) -> bool:
        """
        True if the store has a clock of its own that was not sampled for so long that what is set now would be early.
        """
        return self._offset_ms is not None and self.age_ms() > _STALE_MS

    @property
    def offset_ms(self) -> float:
        """
        The store's time of day minus this machine's, in ms; 0 for a store that reads this machine's.
        """
        return 0.0 if self._offset_ms is None else self.now() - self._clock.wall_ns() / 1e6

    def listen(self, listener: Callable[[], object]) -> None:
        """
        Call *listener*, and no other, when an era begins; on any thread, perhaps with locks held: it only sets a flag.
        """
        self._listener = listener

    def now(self) -> float:
        """
        Return the store's time in ms since the epoch, with its fraction.
        """
        if self._offset_ms is None:
            wall_ns = self._clock.wall_ns()
            if not -_STEP_NS < wall_ns - self._elapsed_ns() - self._anchor_ns < _STEP_NS:
                self._look_closely()
            return wall_ns // 1000 / 1e3  # a float of all digits could round up, and so be early
        elapsed = self.elapsed()
        return elapsed + self._offset_ms - (elapsed - self._sampled_at) * _DRIFT

    def earliest(self) -> float:
        """
        Return the least that the store's clock can read now, in ms, whatever the rates of both clocks; never early.
        """
        if self._offset_ms is None:
            return self.now()
        least, at = self._least
        return least + (self.elapsed() - at) * (1 - _SLEW)

    def least_wait_s(self, at: float) -> float:
        """
        Return after how many seconds `earliest` reads *at* ms, if the store's clock is not sampled before.
        """
        missing = (at - self.earliest()) / 1e3
        return max(0.0, missing if self._offset_ms is None else missing / (1 - _SLEW)) + _ROUNDING_S

    def age_ms(self) -> float:
        """
        Return how long ago the store's clock was sampled.
        """
        return self.elapsed() - self._sampled_at

    def now_ms(self) -> int:
        """
        Return the store's time in whole ms, rounded down as the store does.
        """
        return int(self.now())

    def reading(self) -> tuple[int, int]:
        """
        Return the store's time in whole ms, and the era that it belongs to.
        """
        skews = self._skews
        while True:
            eras, now = len(skews), int(self.now())
            if len(skews) == eras:
                return now, eras - 1

    def reading_for_delay(self) -> tuple[int, int]:
        """
        Return the reading that a delay is counted from, after which the clock is at most a millisecond further.

        A delay is rounded up by a millisecond, since one has begun. A clock that is moved by hand can read a whole one:
        the one before is returned then, and a move by exactly the delay reaches the instant.
        """
        now, era = self.reading()
        if self._is_stepped and self._clock.wall_ns() == now * 1_000_000:
            now -= 1
        return now, era

    def deadline(self, at: float) -> float:
        """
        Return the monotonic seconds at which the store's clock is going to read *at* ms, if nobody sets it meanwhile.

        A thread that is held up between the two clocks gets an instant before that, never one after it.
        """
        local_ms = self._clock.monotonic_ns() / 1e6
        missing = at - self.now()
        if self._offset_ms is not None:
            missing /= 1 - _DRIFT
        return (local_ms + missing) / 1e3 + _ROUNDING_S

    def monotonic(self) -> float:
        """
        Return the monotonic clock in seconds.
        """
        return self._clock.monotonic_ns() / 1e9

    def sample(self, store_ms: int, before: float, after: float) -> None:
        """
        Learn from one reading of the store's clock, made between two of this machine's (`elapsed`).

        The reading was cut to whole milliseconds, and made anywhere between the two: so the offset is between two
        bounds. What is believed by now is kept if it is between them, as a quicker sample found it; otherwise the lower
        bound is taken.
        """
        lowest, highest = store_ms - after, store_ms + 1 - before
        believed = None if self._offset_ms is None else self.now() - self.elapsed()
        least, at = self._least
        least += (after - at) * (1 - _SLEW)
        if believed is None or not store_ms <= least <= store_ms + 1 + (after - before) / (1 - _SLEW):
            least = store_ms
        self._least = least, after  # at once, for readers in other threads
        is_kept = believed is not None and lowest <= believed <= highest
        self._offset_ms = believed if is_kept else lowest
        self._sampled_at = after
        if believed is not None and not lowest - _SERVER_STEP_MS < believed < highest + _SERVER_STEP_MS:
            self._begin_era(round(lowest - believed), believed + after)

    def local(self) -> float:
        """
        Return this machine's monotonic clock in ms.
        """
        return self._clock.monotonic_ns() / 1e6

    def elapsed(self) -> float:
        """
        Return the ms that have elapsed on this machine since some fixed point, in suspend as well.
        """
        return self._elapsed_ns() / 1e6

    def _look_closely(self) -> None:
        """
        Begin an era if the time of day was set: two readings that somebody else ran between prove nothing.
        """
        with self._lock:
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
        if self._listener is not None:
            self._listener()
