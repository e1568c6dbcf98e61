from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["REASONS", "Reason"]


class Reason(StrEnum):
    """
    The reason for which an entry has left a cache.
    """

    EXPIRED = "expired"
    """The deadline of the entry passed."""
    SIZE = "size"
    """The entry was the least recently used one, and a new entry needed its space."""
    REPLACED = "replaced"
    """The key of the entry was set to another value."""
    REMOVED = "removed"
    """A caller removed the entry: `del`, `pop`, `popitem`, `clear`."""


REASONS: Final = tuple(Reason)
"""The reasons in the order of the native core's numbers."""
