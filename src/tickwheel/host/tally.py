"""
Metrics of the writer's commits.
"""

from __future__ import annotations

from dataclasses import replace

from tickwheel.host.distribution import Distribution
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.model import record

__all__ = ["WriterMetrics", "WriterStats"]


@record
class WriterStats:
    commits: int = 0
    writes: int = 0
    seconds: float = 0.0
    largest: int = 0
    last_size: int = 0
    last_seconds: float = 0.0
    retries: int = 0
    failures: int = 0


class WriterMetrics:
    def __init__(self, runtime: Runtime) -> None:
        self._lock = runtime.lock()
        self.stats = WriterStats()
        self.times = Distribution()
        self.sizes = [0] * 32

    def committed(self, writes: int, seconds: float) -> None:
        with self._lock:
            old = self.stats
            self.stats = WriterStats(
                commits=old.commits + 1,
                writes=old.writes + writes,
                seconds=old.seconds + seconds,
                largest=max(old.largest, writes),
                last_size=writes,
                last_seconds=seconds,
                retries=old.retries,
                failures=old.failures,
            )
            self.times.add((seconds * 1000,))
            self.sizes[(writes - 1).bit_length()] += 1

    def retried(self) -> None:
        with self._lock:
            self.stats = replace(self.stats, retries=self.stats.retries + 1)

    def failed(self, writes: int) -> None:
        with self._lock:
            self.stats = replace(self.stats, failures=self.stats.failures + writes)
