"""
The status of a counted attempt: how far it has come.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tickwheel.jobs.record import record

__all__ = ["ANY_ATTEMPT", "AttemptState", "AttemptStatus"]


class AttemptState(StrEnum):
    """
    The state of a counted attempt, as reported by the node that knows it for certain.
    """

    STARTED = "started"
    """Its target has started it."""
    WITHDRAWN = "withdrawn"
    """It has not started and never will: it does not count."""
    CUT_OFF = "cut_off"
    """Its owner is gone, so it cannot start any more; whether it had started is unknown, so it counts."""


@record
class AttemptStatus:
    """
    The state of one counted attempt of one job: a fact, which stays true whatever happens to the job.

    The store sees that an attempt is counted, and not whether it has started, since no commit comes between a due time
    and its firing. So a write to a job whose attempt is counted carries the status from its owner; without it, or
    with the status of another attempt, it is answered TOO_LATE and changes nothing.
    """

    generation: int
    due_at: int
    attempt: int
    standing: AttemptState


ANY_ATTEMPT: Final = AttemptStatus(0, 0, 0, AttemptState.STARTED)
"""For a set in a caller's transaction, which cannot ask an owner: it replaces any attempt."""
