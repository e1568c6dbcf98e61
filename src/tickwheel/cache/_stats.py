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
        uncached: Values that did not fit, and were returned without being stored.
        overtaken: Values that were not stored, because their key was written or removed during the load.
        stale: Values that were returned after their lifetime, by `Refresh.stale_while_revalidate` or `stale_if_error`.
        refreshes: Background loads that started.
        shared: Keys for which a call waited for the load of another thread or task.
        refused: Background loads that did not start, because `Refresh.loads_max` were running or no thread was
            available.
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
    The counters of `cache_info()`, like those of `functools.lru_cache`.
    """

    hits: int
    misses: int
    maxsize: float
    currsize: float


@dataclass(frozen=True, slots=True)
class CacheStats:
    """
    The counters of a cache since it was made.

    Attributes:
        hits: Lookups that found a value, by `cache[key]`, `get`, `setdefault` or `take`. A bulk method does one lookup
            for each key.
        misses: All other lookups, including lookups that returned a stale value. A cache with
            `Refresh.stale_if_error` does a second lookup after a failed load.
        expirations: Expired entries, counted when they were removed.
        evictions: Number of entries that left before they expired, for each reason.
    """

    hits: int
    misses: int
    expirations: int
    evictions: Mapping[Reason, int]
    loads: LoadStats = field(default_factory=LoadStats)

    @property
    def hit_rate(self) -> float:
        """
        Return the number of hits divided by the number of lookups; 0 before the first lookup.
        """
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0
