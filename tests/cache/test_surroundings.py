"""
Every kind of cache in all surroundings.
"""

from __future__ import annotations

from tickwheel.cache import TLRUCache, TTLCache
from tickwheel.testing.cache_suite import CacheSuite


class TestTTLCache(CacheSuite):
    """
    A TTLCache that goes by a function of its own.
    """

    def make(self, clock, **options):
        return TTLCache(1000, ttl=60.0, timer=clock.monotonic, **options)


class TestTLRUCache(CacheSuite):
    """
    A TLRUCache.
    """

    def make(self, clock, **options):
        return TLRUCache(1000, lambda _key, _value, now: now + 60.0, timer=clock.monotonic, **options)


class TestDriven(CacheSuite):
    """
    A TTLCache that a wheel drives.
    """

    def make(self, clock, **options):
        return TTLCache(1000, ttl=60.0, clock=clock, **options)


class TestAged(CacheSuite):
    """
    A TTLCache whose entries have a longest age.
    """

    def make(self, clock, **options):
        return TTLCache(1000, ttl=60.0, max_age=1e6, timer=clock.monotonic, **options)


class Sub(TTLCache):
    """
    A subclass with expiry methods of its own.
    """

    def expire(self, time=None):
        """
        Do as before.
        """
        return super().expire(time)


class TestSubclass(CacheSuite):
    """
    A subclass that takes part in expiry.
    """

    def make(self, clock, **options):
        return Sub(1000, ttl=60.0, timer=clock.monotonic, **options)
