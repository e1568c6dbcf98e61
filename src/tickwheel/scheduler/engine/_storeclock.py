"""
The store's clock, read without asking the store.
"""

from __future__ import annotations

from typing import Final

from tickwheel.clock import Clock

__all__ = ["StoreClock"]

_DRIFT: Final = 1e-4
"""How much faster than the store's this machine's clock may run: two bad crystals, 50 millionths off each."""

_ROUNDING_S: Final = 1e-6
"""More than rounding can take off a deadline: a timer early by so little finds nothing due, and is set anew."""


class StoreClock:
    """
    The store's time, told from this machine's clocks, and the way from there to the monotonic one.

    A store that reads this machine's time of day has that. One with a clock of its own is sampled when it is opened and
    at each renewal, against the monotonic clock: nobody who sets this machine's time of day changes what is due.
    It is never ahead of the store, or a job would fire early: it takes the earliest instant that a sample leaves, and
    from there on runs a little slower than the machine. It is behind by what the quickest of the last samples took.
    """

    __slots__ = ("_clock", "_offset_ms", "_sampled_at")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms: float | None = None
        self._sampled_at = 0.0

    @property
    def offset_ms(self) -> float:
        """
        How far this machine's time of day is behind the store's; 0 for a store that reads it.
        """
        return 0.0 if self._offset_ms is None else self.now() - self._clock.wall_ns() / 1e6

    def now(self) -> float:
        """
        Return the store's time in ms since the epoch, with its fraction.
        """
        if self._offset_ms is None:
            return self._clock.wall_ns() // 1000 / 1e3  # a float of all digits could round up, and so be early
        local = self.local()
        return local + self._offset_ms - (local - self._sampled_at) * _DRIFT

    def now_ms(self) -> int:
        """
        Return the store's time in whole ms, rounded down as the store does.
        """
        return int(self.now())

    def deadline(self, at: float) -> float:
        """
        Return the monotonic seconds at which the store's clock is going to read *at* ms, if nobody sets it meanwhile.
        """
        missing = at - self.now()
        if self._offset_ms is not None:
            missing /= 1 - _DRIFT
        return (self._clock.monotonic_ns() / 1e6 + missing) / 1e3 + _ROUNDING_S

    def monotonic(self) -> float:
        """
        Return the monotonic clock in seconds.
        """
        return self._clock.monotonic_ns() / 1e9

    def sample(self, store_ms: int, before: float, after: float) -> None:
        """
        Learn from one reading of the store's clock, made between two of this machine's (`local`).

        The reading was cut to whole milliseconds, and made anywhere between the two: so the offset lies between two
        bounds. What is believed by now is kept if it lies there, as a quicker sample found it; otherwise the lower
        bound is taken.
        """
        lowest, highest = store_ms - after, store_ms + 1 - before
        believed = None if self._offset_ms is None else self.now() - self.local()
        is_kept = believed is not None and lowest <= believed <= highest
        self._offset_ms = believed if is_kept else lowest
        self._sampled_at = after

    def local(self) -> float:
        """
        Return this machine's monotonic clock in ms.
        """
        return self._clock.monotonic_ns() / 1e6
