"""
One firing, as shown to operators: on the web page, over HTTP and by `Scheduler.recent`.
"""

from __future__ import annotations

from typing import NamedTuple

from tickwheel.jobs.model import Progress

__all__ = ["FiringRecord"]


class FiringRecord(NamedTuple):
    """
    One firing and its outcome.

    Attributes:
        number: Grows with each firing that ends; 0 while the firing runs.
        attempt: Number of the attempt, from 1.
        due_at: Due time in ms since the epoch.
        fired_at: Firing time in ms since the epoch, with a fraction.
        outcome: "running", "succeeded", "retried", "snoozed", "died", "stopped", or "superseded" if the store refused
            the result of the firing.
        took_ms: Duration; None while the firing runs.
        by: The owner that fired the job.
        progress: The last progress noted by the handler, while the firing runs.
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
