"""
A simulated machine with its clocks, which can be paused and killed.
"""

from __future__ import annotations

from simulation._interleaver import Interleaver

__all__ = ["EPOCH_NS", "SimulatedMachine"]

EPOCH_NS = 1_700_000_000 * 10**9
"""The true time of day at the beginning of a simulation."""


class SimulatedMachine:
    """
    One machine, which is also the clock of its scheduler.

    Its monotonic clock begins at a random time and runs too fast or too slow. Its time of day is wrong, and may be
    stepped.
    """

    def __init__(self, name: str, run: Interleaver, *, drift_ppm: int = 0, start_ns: int = 0, skew_ns: int = 0) -> None:
        self.name = name
        self.run = run
        self.is_paused = False
        self.is_dead = False
        self.drift_ppm = drift_ppm
        self.skew_ns = skew_ns
        self.lacks: frozenset[str] = frozenset()
        """Equipment that this machine lacks."""
        self.lost: frozenset[str] = frozenset()
        """Equipment that this machine had and has lost."""
        self._start_ns = start_ns

    def monotonic_ns(self) -> int:
        """
        Return the monotonic clock.
        """
        return self._start_ns + self.run.now_ns + self.run.now_ns * self.drift_ppm // 1_000_000

    def wall_ns(self) -> int:
        """
        Return the time of day.
        """
        return EPOCH_NS + self.monotonic_ns() - self._start_ns + self.skew_ns

    def span_ns(self, monotonic_ns: int) -> int:
        """
        Return the true time that passes while the monotonic clock advances by *monotonic_ns*.
        """
        return -(-monotonic_ns * 1_000_000 // (1_000_000 + self.drift_ppm))

    def pause(self) -> None:
        """
        Stop everything on the machine, as SIGSTOP does.
        """
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def kill(self) -> None:
        """
        End everything on the machine, as SIGKILL does.
        """
        self.is_dead = True
        self.is_paused = False
        self.run.kill(self)
