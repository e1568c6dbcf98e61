from __future__ import annotations

from enum import StrEnum
from typing import Final

from tickwheel.jobs.record import record

__all__ = ["ANY_ATTEMPT", "AttemptState", "AttemptStatus"]


class AttemptState(StrEnum):
    """
    The state of a counted attempt, as reported by a node that knows it for certain.
    """

    STARTED = "started"
    """The target has started the attempt."""
    WITHDRAWN = "withdrawn"
    """The attempt has not started and never will, so it does not count."""
    CUT_OFF = "cut_off"
    """The owner is gone, so the attempt cannot start any more. The attempt may have started already, so it counts."""


@record
class AttemptStatus:
    """
    The state of one counted attempt of one job.

    The store knows that an attempt is counted, but not whether it has started, because a start writes nothing. A write
    to a job with a counted attempt must therefore contain the attempt's status, which only the job's owner knows.
    Without the status, the store answers TOO_LATE and changes nothing.
    """

    generation: int
    due_at: int
    attempt: int
    standing: AttemptState


ANY_ATTEMPT: Final = AttemptStatus(0, 0, 0, AttemptState.STARTED)
"""Matches every attempt. A `Set` in a caller's transaction has this status, because it cannot ask the job's owner."""
