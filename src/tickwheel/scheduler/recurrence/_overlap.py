"""
The policies for a run that is not over when the next one is due.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Overlap"]


class Overlap(StrEnum):
    """
    The policy for instants that pass while a run lasts, its retries included.

    No policy runs a job beside itself: its key is its lock. For that, set a job that fires once for each run.
    """

    SKIP = "skip"
    """They are left out; the next run is the next one in the future."""
    ONCE = "once"
    """One run follows at once, for all of them."""
    ALL = "all"
    """As many runs follow, one after the other."""
    CANCEL = "cancel"
    """The run is asked to stop at the first of them, and the next one follows once it has ended."""
