"""
Caches whose entries end by themselves, on the wheel.
"""

from __future__ import annotations

from tickwheel.cache._cached import cached, call_key
from tickwheel.cache._reason import Reason
from tickwheel.cache._stats import CacheStats
from tickwheel.cache._timer import CacheTimer
from tickwheel.cache._tlru import TLRUCache
from tickwheel.cache._ttl import TTLCache

__all__ = ["CacheStats", "CacheTimer", "Reason", "TLRUCache", "TTLCache", "cached", "call_key"]
