"""
The reason for which an entry has left a cache.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["REASONS", "Reason"]


class Reason(StrEnum):
    """
    The reason for which an entry has left a cache.
    """

    EXPIRED = "expired"
    """Its life was over."""
    SIZE = "size"
    """Another one needed the room, and this one was used longest ago."""
    REPLACED = "replaced"
    """Its key was set to another value."""
    REMOVED = "removed"
    """Somebody took it out: `del`, `pop`, `popitem`, `clear`."""


REASONS: Final = tuple(Reason)
"""The reasons in the order of the numbers that the native core gives them."""
