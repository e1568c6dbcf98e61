"""
What a cache has done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tickwheel.cache._reason import Reason

__all__ = ["CacheStats"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """
    The counts of a cache since it was made.

    Attributes:
        hits: Lookups that found a value: `cache[key]`, `get`, `setdefault`, `take`.
        misses: Lookups that did not.
        expirations: Entries whose life was over, counted when they were removed.
        evictions: All others that have left, by their reason.
    """

    hits: int
    misses: int
    expirations: int
    evictions: Mapping[Reason, int]

    @property
    def hit_rate(self) -> float:
        """
        Return hits by lookups, 0 before the first one.
        """
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0
