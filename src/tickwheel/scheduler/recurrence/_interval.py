"""
Every so many milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """
    Fires at `anchor_at + n * every_ms`, for every n: the phase is fixed, so lateness never adds up to drift.

    Attributes:
        every_ms: The distance, at least 1.
        anchor_at: Any instant of the series, in ms since the epoch.
        tz: The IANA name of the zone in which a job reads what it leaves out; it moves no instant.
    """

    every_ms: int
    anchor_at: int
    tz: str = "UTC"

    def next(self, after: int) -> int:
        """
        Return the first instant of the series that is later than *after*.
        """
        return self.anchor_at + ((after - self.anchor_at) // self.every_ms + 1) * self.every_ms
