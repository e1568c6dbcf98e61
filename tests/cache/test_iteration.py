"""
Iteration over a cache that changes.
"""

from __future__ import annotations

import gc

import pytest

from tickwheel.cache import TTLCache
from tickwheel.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


def test_expired_entries_are_skipped(clock):
    """
    An iterator skips entries that have expired, and removes nothing.
    """
    cache = TTLCache(10, 10.0, timer=clock.monotonic)
    cache["a"] = 1
    cache.set("b", 2, ttl=5.0)
    cache["c"] = 3
    walk = iter(cache)
    assert next(walk) == "a"
    clock.advance(5.0)
    assert list(walk) == ["c"]
    assert cache.expire() == [("b", 2)]


def test_changes_in_the_middle(clock):
    """
    An iterator skips entries that are removed or added during the iteration, and returns the new value of others.
    """
    cache = TTLCache(10, 10.0, timer=clock.monotonic)
    cache.update({n: n for n in range(5)})
    seen = []
    for key, value in cache.items():
        seen.append((key, value))
        if key == 0:
            del cache[1]
            cache[2] = "new"
            cache[99] = "later"
            assert cache[3] == 3
    assert seen == [(0, 0), (2, "new"), (3, 3), (4, 4)]


def test_a_key_that_came_back_is_another_entry(clock):
    """
    A key that is removed and set again during the iteration counts as a new entry, so the iterator skips it.
    """
    cache = TTLCache(10, 10.0, timer=clock.monotonic)
    cache.update({1: 1, 2: 2})
    walk = iter(cache.values())
    del cache[2]
    cache[2] = "again"
    assert list(walk) == [1]


def test_walks_change_nothing(clock):
    """
    Iterating over keys, values or items does not count as a use, a hit or a miss.
    """
    cache = TTLCache(10, 10.0, timer=clock.monotonic, sliding=True)
    cache.update({"a": 1, "b": 2})
    clock.advance(5.0)
    assert (list(cache), list(cache.values()), list(cache.items())) == (["a", "b"], [1, 2], [("a", 1), ("b", 2)])
    assert (2 in cache.values(), ("a", 1) in cache.items(), "a" in cache) == (True, True, True)
    assert cache.remaining("a") == pytest.approx(5.0)
    assert cache.popitem() == ("a", 1)


def test_an_iterator_outlives_its_names(clock):
    """
    An iterator keeps its cache alive until the iteration has ended. Afterwards it stays exhausted.
    """
    walk = iter(TTLCache(10, 10.0, timer=clock.monotonic))
    gc.collect()
    assert list(walk) == []
    cache = TTLCache(10, 10.0, timer=clock.monotonic)
    cache["a"] = 1
    walk = iter(cache)
    assert walk.__length_hint__() == 1
    del cache
    gc.collect()
    assert next(walk) == "a"
    assert list(walk) == []
    assert list(walk) == []
