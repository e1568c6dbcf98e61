"""
The last firings: what an operator asks for first, kept so that each costs a tuple and no event.

Internal: other rooms use it, users do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tickwheel.scheduler.engine._staged_job import StagedJob
from tickwheel.scheduler.model import Progress

__all__ = ["FiringRecord", "Recent", "Remembered"]

Remembered: TypeAlias = tuple[StagedJob, str, str | None]
"""An attempt that ended, what became of it, and what went wrong."""

_SIZE: Final = 500
_Fields: TypeAlias = tuple[int, str, int, int, str, str, int, float, str, str | None, float | None]


class FiringRecord(NamedTuple):
    """
    One firing, and what became of it.

    Attributes:
        number: Grows with every end; 0 while it runs.
        key: Of its job.
        generation: Of its job.
        attempt: From 1.
        target: The kind of place it went to.
        handler: Which one of that kind.
        due_at: When it was to fire, in ms since the epoch.
        fired_at: When it did, with the fraction.
        outcome: "running", "succeeded", "retried", "snoozed", "died", "stopped", or "superseded", where its end was
            refused.
        error: What went wrong, or None.
        took_ms: How long it ran, once it has ended, where that was measured: for its history, a worker or an observer.
        by: The owner that fired it.
        progress: What its handler has noted of its progress, while it runs.
    """

    number: int
    key: str
    generation: int
    attempt: int
    target: str
    handler: str
    due_at: int
    fired_at: float
    outcome: str
    error: str | None
    took_ms: float | None
    by: str
    progress: Progress | None = None


class Recent:
    """
    The ends of the last firings. One thread writes, any may read.
    """

    def __init__(self) -> None:
        self.number = 0
        self._ring: deque[_Fields] = deque(maxlen=_SIZE)

    def add(self, ended: Sequence[Remembered]) -> None:
        """
        Note what *ended*, in order; payloads are let go.
        """
        first, self.number = self.number + 1, self.number + len(ended)
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
        Return the firings that ended after that *number*, in order, and those that run now; all are *by* one owner.

        *running* is asked last: what ends meanwhile comes with the next answer, and not with this one as both.
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
