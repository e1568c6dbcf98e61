"""
One firing as an operator sees it: on the page, over HTTP and from `Scheduler.recent`.
"""

from __future__ import annotations

from typing import NamedTuple

from tickwheel.jobs.model import Progress

__all__ = ["FiringRecord"]


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
