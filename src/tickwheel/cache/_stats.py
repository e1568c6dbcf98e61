"""
Counts of what a cache has done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tickwheel.cache._reason import Reason

__all__ = ["CacheInfo", "CacheStats", "LoadStats"]


@dataclass(frozen=True, slots=True)
class LoadStats:
    """
    Counters of the loads by `take`, its variants and `cached`.

    Attributes:
        loaded: Keys whose loader has returned.
        failed: Calls of loaders that raised.
        uncached: Values that did not fit in, and were returned without being kept.
        overtaken: Values that were not kept because their key was written or removed while they were loaded.
        stale: Values that were returned after their life, by `Refresh.stale_while_revalidate` or `stale_if_error`.
        refreshes: Loads begun in the background.
        shared: Keys that a call waited for while another thread or task loaded them, instead of loading them itself.
        refused: Loads not begun in the background because `Refresh.loads_max` were running, or for want of a thread.
    """

    loaded: int = 0
    failed: int = 0
    uncached: int = 0
    overtaken: int = 0
    stale: int = 0
    refreshes: int = 0
    refused: int = 0
    shared: int = 0


class CacheInfo(NamedTuple):
    """
    The counters that `functools.lru_cache` gives a function as `cache_info()`.

    Attributes:
        hits: Calls that were answered by the cache.
        misses: All others.
        maxsize: The bound of the cache.
        currsize: Its size.
    """

    hits: int
    misses: int
    maxsize: float
    currsize: float


@dataclass(frozen=True, slots=True)
class CacheStats:
    """
    The counts of a cache since it was made.

    Attributes:
        hits: Lookups that found a value: `cache[key]`, `get`, `setdefault`, `take`, one for each key of the bulk forms.
        misses: Lookups that did not; also one that is answered by a value after its life. A cache with
            `Refresh.stale_if_error` looks once more when a load has failed.
        expirations: Entries whose life was over, counted when they were removed.
        evictions: All others that have left, by their reason.
        loads: What loaders have done.
    """

    hits: int
    misses: int
    expirations: int
    evictions: Mapping[Reason, int]
    loads: LoadStats = field(default_factory=LoadStats)

    @property
    def hit_rate(self) -> float:
        """
        Return hits by lookups, 0 before the first one.
        """
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0
