"""
The contract suite of caches, run on every kind of cache.
"""

from __future__ import annotations

from tickwheel.cache import TLRUCache, TTLCache
from tickwheel.testing.cache_suite import CacheSuite


class TestTTLCache(CacheSuite):
    """
    The contract suite on a TTLCache that gets a clock function (`timer`).
    """

    def make(self, clock, **options):
        return TTLCache(1000, ttl=60.0, timer=clock.monotonic, **options)


class TestTLRUCache(CacheSuite):
    def make(self, clock, **options):
        return TLRUCache(1000, lambda _key, _value, now: now + 60.0, timer=clock.monotonic, **options)


class TestDriven(CacheSuite):
    def make(self, clock, **options):
        return TTLCache(1000, ttl=60.0, clock=clock, **options)


class TestAged(CacheSuite):
    """
    The contract suite on a TTLCache with a maximum age.
    """

    def make(self, clock, **options):
        return TTLCache(1000, ttl=60.0, max_age=1e6, timer=clock.monotonic, **options)


class Sub(TTLCache):
    def expire(self, time=None):
        return super().expire(time)


class TestSubclass(CacheSuite):
    def make(self, clock, **options):
        return Sub(1000, ttl=60.0, timer=clock.monotonic, **options)
