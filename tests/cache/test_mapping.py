"""
A cache as a mapping: its values, its bound, and its order of use.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import MutableMapping
from dataclasses import dataclass

import pytest

from tickwheel.cache import TLRUCache, TTLCache
from tickwheel.errors import ValueTooLargeError
from tickwheel.testing import ManualClock


def for_ever(_key, _value, _now):
    """
    Give every entry an endless lifetime.

    The function is at module level, so that it can be pickled.
    """
    return math.inf


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


CACHES = {"ttl": lambda maxsize, **options: TTLCache(maxsize, 60.0, **options)}
CACHES["tlru"] = lambda maxsize, **options: TLRUCache(maxsize, for_ever, **options)


@pytest.fixture(params=CACHES)
def make(request):
    return CACHES[request.param]


def test_it_is_a_mutable_mapping(make):
    """
    Items are set, found, replaced, counted and removed as in a dict.
    """
    cache = make(10)
    assert isinstance(cache, MutableMapping)
    cache.update({1: "a", "two": "b", (3, 3): "c"})
    cache[1] = "A"
    assert (cache[1], cache["two"], cache[3, 3], len(cache), cache.currsize) == ("A", "b", "c", 3, 3)
    assert (1 in cache, 2 in cache, cache.get(2), cache.get(2, "none")) == (True, False, None, "none")
    del cache["two"]
    assert cache.pop((3, 3)) == "c"
    assert (cache.pop("two", "none"), dict(cache)) == ("none", {1: "A"})
    assert (cache.setdefault(1, "B"), cache.setdefault(2, "B"), cache[2]) == ("A", "B", "B")
    cache.clear()
    assert (len(cache), cache.currsize, list(cache)) == (0, 0, [])
    cache.check()


def test_a_default_that_is_not_used_is_not_measured(make):
    """
    If a key exists, `setdefault` returns its value, even if the default value would be too large for the cache.
    """
    measured = []
    cache = make(10, getsizeof=lambda value: measured.append(value) or value)
    cache[1] = 3
    assert (cache.setdefault(1, 11), measured) == (3, [3])
    with pytest.raises(ValueTooLargeError):
        cache.setdefault(2, 11)


@pytest.mark.parametrize(
    "lose", [lambda cache: cache[1], lambda cache: cache.pop(1), lambda cache: cache.__delitem__(1)]
)
def test_a_missing_key_is_a_key_error(make, lose):
    with pytest.raises(KeyError) as caught:
        lose(make(10))
    assert caught.value.args == (1,)


def test_equal_keys_of_different_types_are_one(make):
    cache = make(10)
    cache[1] = "int"
    cache[1.0] = "float"
    cache[True] = "bool"
    assert list(cache.items()) == [(1, "bool")]


def test_the_least_recently_used_goes_first(make):
    """
    The key that has not been set or looked up for the longest time is evicted.

    `in` and iteration are not uses.
    """
    cache = make(3)
    cache.update({1: 1, 2: 2, 3: 3})
    assert cache[1] == 1
    assert 2 in cache
    assert list(cache.items()) == [(2, 2), (3, 3), (1, 1)]
    cache[4] = 4
    assert list(cache) == [3, 1, 4]
    assert cache.popitem() == (3, 3)
    cache[1] = 0
    assert cache.popitem() == (4, 4)
    cache.check()


def test_popitem_of_an_empty_cache(make):
    """
    On an empty cache, `popitem` raises a KeyError that names the class. The traceback shows no other exception.
    """
    with pytest.raises(KeyError, match="is empty") as caught:
        make(3).popitem()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_sizes_are_bounded(make):
    """
    With getsizeof, the sum of all sizes is bounded, and a larger value may evict others.
    """
    cache = make(10, getsizeof=len)
    cache.update(a="aaa", b="bbb", c="ccc")
    assert cache.currsize == 9
    cache["a"] = "aaaaa"
    assert (dict(cache.items()), cache.currsize) == ({"c": "ccc", "a": "aaaaa"}, 8)
    cache["a"] = ""
    assert cache.currsize == 3
    with pytest.raises(ValueTooLargeError, match="value too large: its size is 11 and maxsize is 10"):
        cache["d"] = "d" * 11
    assert (len(cache), cache["c"]) == (2, "ccc")
    cache.check()


class Own(TTLCache):
    """
    A cache that overrides `popitem`, which evictions must call.
    """

    def popitem(self):
        return super().popitem()


@pytest.mark.parametrize("kind", [TTLCache, Own])
def test_a_value_that_fits_in_alone_stays(kind):
    """
    The rounding errors of fractional sizes do not accumulate. They never evict the value that was just set.
    """
    cache = kind(0.3, 60.0, getsizeof=lambda value: value)
    cache["y"] = cache["z"] = 0.1
    cache["z"] = 0.3
    assert (dict(cache), cache.currsize) == ({"z": 0.3}, 0.3)
    for size in (0.1, 0.2, 0.3, 0.1, 0.3):
        cache["z"] = size
        assert (dict(cache), cache.currsize) == ({"z": size}, size)
    cache["y"] = 0.3
    assert (dict(cache), cache.currsize) == ({"y": 0.3}, 0.3)
    del cache["y"]
    assert cache.currsize == 0.0
    for size in (0.1, 0.03, 0.07):
        cache[size] = size
    del cache[0.1], cache[0.03]
    assert (dict(cache), cache.currsize) == ({0.07: 0.07}, 0.07)


def test_a_bound_of_zero_keeps_nothing(make):
    """
    With a maxsize of 0, a cache stores only values of size 0.
    """
    cache = make(0)
    with pytest.raises(ValueTooLargeError):
        cache[1] = 1
    assert (len(cache), cache.maxsize) == (0, 0)


def test_no_bound(make):
    cache = make(math.inf)
    cache.update((n, n) for n in range(5000))
    assert len(cache) == cache.currsize == 5000
    cache.check()


@pytest.mark.parametrize("copied", [copy.copy, pickled], ids=["copy", "pickle"])
def test_a_copy_has_the_same_items_in_the_same_order(make, copied):
    """
    A cache can be pickled and copied, and the copy has the same items, order of use and bound.
    """
    cache = make(3)
    cache.update({1: 1, 2: 2, 3: 3})
    assert cache[1] == 1
    other = copied(cache)
    assert other == cache
    other[4] = 4
    assert (list(other), list(cache)) == ([3, 1, 4], [2, 3, 1])
    other.check()


def test_a_copy_has_the_lives_that_were_left():
    """
    A pickle stores the remaining lifetimes. The time until it is loaded does not count.
    """
    clock = ManualClock()
    cache = TTLCache(10, 60.0, clock=clock, sliding=True)
    cache["a"] = 1
    cache.set("b", 2, ttl=math.inf)
    clock.advance(20.0)
    other = pickled(cache)
    assert 39.0 < other.remaining("a") <= 40.0
    assert other.remaining("b") == math.inf
    assert other["a"] == 1, "a use, after which it lives as long as at first"
    assert 59.0 < other.remaining("a") <= 60.0


def test_a_copy_of_a_copy():
    """
    A copy of a cache, or a copy of the copy, uses the same clock function (`timer`).
    """

    @dataclass
    class Clock:
        now: float = 0.0

        def __call__(self):
            return self.now

    cache = first = TTLCache(10, 60.0, timer=Clock())
    cache["a"] = 1
    for _ in range(1_000):
        cache = copy.copy(cache)
    assert cache.timer.function is first.timer.function
    with first.timer:
        first.timer.function.now = 61.0
        assert ("a" in first, "a" in cache) == (True, False)


def test_repr_of_a_timer():
    """
    The repr of a cache's `timer` names the clock function.
    """
    assert repr(TTLCache(10, 60.0).timer) == "CacheTimer(<built-in function monotonic>)"


def test_repr_of_a_cache(make):
    """
    The repr shows the class, at most twenty items, the bound, the size, and the ttl of a TTLCache.
    """
    cache = make(100)
    ttl = ", ttl=60.0" if isinstance(cache, TTLCache) else ""
    cache["a"] = 1
    assert repr(cache) == f"{type(cache).__name__}({{'a': 1}}, maxsize=100, currsize=1{ttl})"
    cache["b"] = cache
    assert repr(cache) == f"{type(cache).__name__}({{'a': 1, 'b': ...}}, maxsize=100, currsize=2{ttl})"
    cache.update({n: n for n in range(50)})
    assert repr(cache).endswith(f"17: 17, ...}}, maxsize=100, currsize=52{ttl})")


def test_memory_is_freed(make):
    """
    After many entries have left a cache, their storage is freed.
    """
    cache = make(math.inf)
    cache.update((n, None) for n in range(50_000))
    full = cache.__sizeof__()
    for n in range(50_000):
        del cache[n]
    cache.clear()
    assert cache.__sizeof__() < full / 20
