"""
The store's clock, read without asking the store.
"""

from __future__ import annotations

from tickwheel.clock import Clock

__all__ = ["StoreClock"]


class StoreClock:
    """
    This machine's time of day plus the offset of the store's, and the way from there to the monotonic clock.

    `offset_ms` is 0 for a store that reads this machine's clock, and sampled at each renewal for one that has its own.
    """

    __slots__ = ("_clock", "offset_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset_ms = 0.0

    def now(self) -> float:
        """
        Return the store's time in ms since the epoch, with its fraction.
        """
        return self._clock.wall_ns() / 1e6 + self.offset_ms

    def now_ms(self) -> int:
        """
        Return the store's time in whole ms, rounded down as the store does.
        """
        return int(self.now())

    def deadline(self, at: float) -> float:
        """
        Return the monotonic seconds at which the store's clock is going to read *at* ms, if nobody sets it meanwhile.
        """
        return (self._clock.monotonic_ns() / 1e6 + at - self.now()) / 1e3

    def monotonic(self) -> float:
        """
        Return the monotonic clock in seconds.
        """
        return self._clock.monotonic_ns() / 1e9

    def sample(self, store_ms: int, before: float, after: float) -> None:
        """
        Take the offset from one reading of the store's clock, made between two of this machine's (`local`).
        """
        self.offset_ms = (
            store_ms + 0.5 - (before + after) / 2
        )  # it was cut to whole milliseconds: half of one on average

    def local(self) -> float:
        """
        Return this machine's time of day in ms.
        """
        return self._clock.wall_ns() / 1e6
