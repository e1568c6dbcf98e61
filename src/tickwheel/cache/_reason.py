from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["REASONS", "Reason"]


class Reason(StrEnum):
    """
    The reason for which an entry has left a cache.
    """

    EXPIRED = "expired"
    """Its deadline passed."""
    SIZE = "size"
    """It was the least recently used entry, and a new entry needed its space."""
    REPLACED = "replaced"
    """Its key was set to another value."""
    REMOVED = "removed"
    """A caller removed it: `del`, `pop`, `popitem`, `clear`."""


REASONS: Final = tuple(Reason)
"""The reasons in the order of the native core's numbers."""
