"""
Internal: the policies for missed runs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["MISFIRE_GRACE_MS", "Misfire"]

MISFIRE_GRACE_MS: Final = 60_000
"""Lateness above which a run counts as missed. It is a minute, Quartz's default; a restart is usually shorter."""


class Misfire(StrEnum):
    """
    The policy for runs whose instant passed while no process could fire them.
    """

    ONCE = "once"
    """One late run replaces all missed runs."""
    ALL = "all"
    """Each missed run is made up for, one after the other."""
    SKIP = "skip"
    """Missed runs are left out; the next run is the next one in the future."""
