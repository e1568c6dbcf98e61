"""
Keys and values that misbehave: their `__hash__`, `__eq__` and finalizers raise, use the cache or collect garbage.
"""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from tickwheel.cache import Reason, TTLCache
from tickwheel.testing import ManualClock


class Key:
    """
    A key with a constant hash. Comparing it with another key first calls a function of the test.
    """

    def __init__(self, name, action=lambda: None):
        self.name = name
        self.action = action

    def __hash__(self):
        return 7

    def __eq__(self, other):
        self.action()
        other.action()
        return self.name == other.name


def fail():
    message = "from the key"
    raise OSError(message)


def test_a_hash_that_raises():
    """
    If a key's `__hash__` raises, the caller gets the error, and the cache stays consistent.
    """

    class Bad:
        def __hash__(self):
            return fail()

    cache = TTLCache(10, 60.0)
    cache["a"] = 1
    for use in (cache.get, cache.__contains__, cache.pop, cache.touch, lambda key: cache.set(key, 1, ttl=1)):
        with pytest.raises(OSError, match="from the key"):
            use(Bad())
    cache.check()
    assert dict(cache.items()) == {"a": 1}


def test_an_eq_that_raises():
    """
    If a key's `__eq__` raises, the caller gets the error, and nothing is set, removed or counted.
    """
    cache = TTLCache(10, 60.0)
    bad = Key("bad")
    cache[bad], cache["a"] = 1, 2
    bad.action = fail
    for use in (cache.get, cache.__contains__, cache.pop, cache.touch, lambda key: cache.set(key, 1, ttl=1)):
        with pytest.raises(OSError, match="from the key"):
            use(Key("other"))
    cache.check()
    assert (len(cache), cache["a"], cache[bad]) == (2, 2, 1), "the key itself is found without comparing"


@pytest.mark.parametrize("end", ["clear", "popitem", "expire"])
@pytest.mark.parametrize("use", ["get", "set", "pop", "touch", "in"])
def test_an_eq_that_empties_the_cache(end, use):
    """
    If a key's `__eq__` removes the entry that is being compared, the cache stays consistent, in any operation.
    """
    clock = ManualClock()
    cache = TTLCache(10, 60.0, timer=clock.monotonic)

    def empty():
        if end == "expire":
            cache.expire(clock.monotonic() + 60.0)
        elif len(cache):
            getattr(cache, end)()

    verbs = {
        "get": cache.get,
        "set": lambda key: cache.set(key, "new", ttl=60.0),
        "pop": lambda key: cache.pop(key, None),
        "touch": cache.touch,
        "in": cache.__contains__,
    }
    for name in ("a", "b", "c"):
        cache[Key(name)] = name
    verbs[use](Key("b", empty))
    for key in [Key("b", empty), Key("z", empty)]:
        cache.update({Key("a"): 1, Key("b"): 2})
        verbs[use](key)
        cache.check()
    cache.clear()
    cache["a"] = 1
    assert dict(cache.items()) == {"a": 1}


def test_an_eq_that_sets_the_same_key():
    """
    If a key's `__eq__` sets an equal key while the key is being set, the cache has one entry afterwards.
    """
    cache = TTLCache(10, 60.0)
    cache[Key("other")] = 0
    depth = []

    def again():
        if len(depth) < 5:
            depth.append(1)
            cache[Key("a")] = len(depth)

    cache[Key("a", again)] = "outer"
    cache.check()
    assert sorted(key.name for key in cache) == ["a", "other"]


def test_an_eq_that_collects():
    """
    If a key's `__eq__` runs the garbage collector during a lookup, the collector finds the cache consistent.
    """
    cache = TTLCache(10, 60.0)
    for name in "abc":
        cache[Key(name)] = [cache]
    assert cache[Key("c", gc.collect)] == [cache]
    cache[Key("b", gc.collect)] = 2
    cache.check()
    assert len(cache) == 3


def test_finalizers_may_use_the_cache():
    """
    In whichever way an entry leaves the cache, the finalizer of its value may use the cache.
    """
    cache = TTLCache(3, 60.0)
    seen = []

    class Value:
        def __del__(self):
            cache.check()
            seen.append(len(cache))
            cache.get("x")
            if len(seen) < 50:
                cache[len(seen)] = None

    for n in range(10):
        cache[-n] = Value()
    cache[-9] = None
    cache[-8] = Value()
    cache.pop(-8, None)
    cache["last"] = Value()
    cache.clear()
    cache.check()
    assert len(seen) >= 11


def test_references_are_dropped_at_once():
    """
    In whichever way an entry leaves the cache, its key and value are released at once.
    """

    class Thing:
        pass

    clock = ManualClock()
    cache = TTLCache(2, 60.0, clock=clock)

    def put(key):
        thing = cache[key] = Thing()
        return weakref.ref(thing)

    replaced, evicted, popped, expired = put("a"), put("b"), put("c"), put("d")
    assert replaced() is None
    cache["c"] = None
    assert popped() is None
    assert evicted() is None
    clock.advance(60.0)
    assert expired() is None
    cleared = put("e")
    cache.clear()
    assert cleared() is None


def test_a_cycle_through_a_cache_is_collected():
    """
    A reference cycle through a cache is collected, whether it includes a value, a callback or getsizeof.
    """

    class Cache(TTLCache):
        def getsizeof(self, _value):
            return 1

        def told(self, *_):
            pass

    cache = Cache(10, 60.0)
    cache["self"] = cache
    cache[Key("key")] = [cache]
    other = TTLCache(10, 60.0, on_evict=cache.told, clock=ManualClock())
    cache["other"] = other
    other["cache"] = cache
    dead = [weakref.ref(cache), weakref.ref(other)]
    del cache, other
    gc.collect()
    assert [ref() for ref in dead] == [None, None]


def test_a_cache_without_cycles_ends_with_its_last_reference():
    """
    A cache without cycles is freed with its last reference, even if it has a clock.
    """
    gc.disable()
    try:
        for options in ({}, {"clock": ManualClock()}, {"on_expire": print}):
            cache = TTLCache(10, 60.0, **options)
            cache["a"] = 1
            dead = weakref.ref(cache)
            del cache
            assert dead() is None, options
    finally:
        gc.enable()


def test_storms_of_hostile_keys():
    """
    Random operations break no invariant, even if the comparisons of keys run more random operations on the cache.
    """
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    clock = ManualClock()
    left = []
    cache = TTLCache(8, 10.0, timer=clock.monotonic, on_evict=lambda *entry: left.append(entry))
    depth = 0

    def storm():
        nonlocal depth
        if depth < 3 and draw.random() < 0.3:
            depth += 1
            step()
            depth -= 1

    def step():
        key = Key(draw.randrange(12), storm)
        verb = draw.randrange(8)
        if verb <= 2:
            cache[key] = draw.random()
        elif verb == 3:
            cache.get(key)
        elif verb == 4:
            cache.pop(key, None)
        elif verb == 5:
            cache.touch(key, ttl=draw.random() * 10)
        elif verb == 6:
            clock.advance(draw.random())
        else:
            cache.expire()
        cache.check()

    for _ in range(3000):
        step()
    assert len(cache) <= 8, f"seed {seed}"
    assert {reason for *_, reason in left} == {Reason.SIZE, Reason.REPLACED, Reason.REMOVED}, f"seed {seed}"
