from __future__ import annotations

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
        self._commits = self._writes = self._largest = self._last_size = self._retries = self._failures = 0
        self._seconds = self._last_seconds = 0.0
        self.times = Distribution()
        self.sizes = [0] * 32

    @property
    def stats(self) -> WriterStats:
        with self._lock:
            return WriterStats(
                commits=self._commits,
                writes=self._writes,
                seconds=self._seconds,
                largest=self._largest,
                last_size=self._last_size,
                last_seconds=self._last_seconds,
                retries=self._retries,
                failures=self._failures,
            )

    def committed(self, writes: int, seconds: float) -> None:
        with self._lock:
            self._commits += 1
            self._writes += writes
            self._seconds += seconds
            self._largest = max(self._largest, writes)
            self._last_size, self._last_seconds = writes, seconds
            self.times.add((seconds * 1000,))
            self.sizes[(writes - 1).bit_length()] += 1

    def retried(self) -> None:
        with self._lock:
            self._retries += 1

    def failed(self, writes: int) -> None:
        with self._lock:
            self._failures += writes
