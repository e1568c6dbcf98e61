"""
Caches whose entries expire automatically, on the wheel.
"""

from __future__ import annotations

from tickwheel.cache._cached import CachedFunction, cached
from tickwheel.cache._cachedmethod import CachedMethod, cachedmethod
from tickwheel.cache._keys import call_key, typed_call_key
from tickwheel.cache._loaded import Loaded
from tickwheel.cache._reason import Reason
from tickwheel.cache._refresh import Refresh
from tickwheel.cache._stats import CacheInfo, CacheStats, LoadStats
from tickwheel.cache._timer import CacheTimer
from tickwheel.cache._tlru import TLRUCache
from tickwheel.cache._ttl import TTLCache

__all__ = [
    "CacheInfo",
    "CacheStats",
    "CacheTimer",
    "CachedFunction",
    "CachedMethod",
    "LoadStats",
    "Loaded",
    "Reason",
    "Refresh",
    "TLRUCache",
    "TTLCache",
    "cached",
    "cachedmethod",
    "call_key",
    "typed_call_key",
]
