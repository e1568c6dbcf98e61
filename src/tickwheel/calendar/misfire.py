"""
The rules for runs that were missed.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["MISFIRE_GRACE_MS", "Misfire"]

MISFIRE_GRACE_MS: Final = 60_000
"""A run that could not begin within a minute of its instant was missed; restarts take less. Quartz's default, too."""


class Misfire(StrEnum):
    """
    The policy for runs whose instant passed while nobody could fire them.
    """

    ONCE = "once"
    """One late run replaces all that were missed."""
    ALL = "all"
    """Each is made up for, one after the other."""
    SKIP = "skip"
    """None is; the next run is the next one in the future."""
