from __future__ import annotations

from enum import StrEnum
from typing import Final

from tickwheel.jobs.record import record

__all__ = ["ANY_ATTEMPT", "AttemptState", "AttemptStatus"]


class AttemptState(StrEnum):
    """
    The state of an attempt that the store has counted, as reported by a node that knows the state for certain.
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
    The state of one attempt that the store has counted.

    Only the job's owner knows whether the attempt has started, because a start writes nothing. A write to a job with a
    counted attempt must therefore contain the attempt's status. Without it, the store answers TOO_LATE and changes
    nothing.
    """

    generation: int
    due_at: int
    attempt: int
    standing: AttemptState


ANY_ATTEMPT: Final = AttemptStatus(0, 0, 0, AttemptState.STARTED)
"""A status for any attempt. A `Set` in a caller's transaction has it, because the `Set` cannot ask the job's owner."""
