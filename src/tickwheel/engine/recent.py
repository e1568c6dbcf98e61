"""
The last firings, kept at the cost of a tuple each and no event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tickwheel.engine._staged_job import StagedJob
from tickwheel.jobs.firing_record import FiringRecord

__all__ = ["Recent", "Remembered"]

Remembered: TypeAlias = tuple[StagedJob, str, str | None]
"""A finished attempt, its outcome, and its error."""

_SIZE: Final = 500
_Fields: TypeAlias = tuple[int, str, int, int, str, str, int, float, str, str | None, float | None]


class Recent:
    """
    The ends of the last firings. One thread writes, any may read.
    """

    def __init__(self) -> None:
        self.number = 0
        self._ring: deque[_Fields] = deque(maxlen=_SIZE)

    def add(self, ended: Sequence[Remembered]) -> None:
        self.number += len(ended)
        ended = ended[-_SIZE:]  # the others would leave the ring at once
        first = self.number - len(ended) + 1
        self._ring.extend(
            [
                (
                    number,
                    (job := entry.job).key,
                    job.generation,
                    job.attempt + 1,
                    job.target,
                    job.handler,
                    job.due_at,
                    entry.fired_at,
                    outcome,
                    error,
                    entry.ran_ms or None,
                )
                for number, (entry, outcome, error) in enumerate(ended, first)
            ]
        )

    def after(self, number: int, running: Callable[[], Iterable[StagedJob]], by: str) -> list[FiringRecord]:
        """
        Return the firings that ended after *number*, in order, and those that run now; all are *by* one owner.

        *running* is called last: a firing that ends in between is only in the next answer.
        """
        ended = [FiringRecord(*fields, by) for fields in self._ring.copy() if fields[0] > number]
        return ended + [_running(entry, by) for entry in running() if entry.fired_at]


def _running(entry: StagedJob, by: str) -> FiringRecord:
    job = entry.job
    return FiringRecord(
        0,
        job.key,
        job.generation,
        entry.attempt,
        job.target,
        job.handler,
        job.due_at,
        entry.fired_at,
        "running",
        None,
        None,
        by,
        entry.progress,
    )
