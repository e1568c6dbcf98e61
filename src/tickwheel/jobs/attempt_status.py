"""
The status of a counted attempt: how far it has come.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tickwheel.jobs.record import record

__all__ = ["ANY_ATTEMPT", "AttemptStatus", "Standing"]


class Standing(StrEnum):
    """
    The progress of a counted attempt, as reported by the node that knows it for certain.
    """

    STARTED = "started"
    """Its target has it."""
    WITHDRAWN = "withdrawn"
    """It has not started and never will: it does not count."""
    CUT_OFF = "cut_off"
    """Its owner is gone, so that it does not start any more; whether it had is unknown, so it counts."""


@record
class AttemptStatus:
    """
    One counted attempt of one job, and how far it has come: a fact, which stays true whatever becomes of the job.

    The store sees that an attempt is counted, and not whether it has started, since no commit comes between an instant
    and its firing. So a write to a job whose attempt is counted carries the status that its owner gives; without it, or
    with that on another attempt, it is answered TOO_LATE and changes nothing.
    """

    generation: int
    due_at: int
    attempt: int
    standing: Standing


ANY_ATTEMPT: Final = AttemptStatus(0, 0, 0, Standing.STARTED)
"""For a set in a caller's transaction, where nobody can be asked: it replaces whatever is there."""
