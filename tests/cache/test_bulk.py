"""
Methods that take many keys in one call.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.cache import TTLCache
from tickwheel.errors import ReentrantError, ValueTooLargeError
from tickwheel.testing import ManualClock


def test_get_many_and_set_many():
    """
    get_many counts a lookup and a use for each key. set_many gives all keys the same lifetime.
    """
    clock = ManualClock()
    cache = TTLCache(10, 60.0, timer=clock.monotonic)
    cache.set_many({"a": 1, "b": 2, "c": 3})
    cache.set_many({"b": 4}, ttl=5)
    assert cache.get_many(["c", "a", "no", "a"]) == {"c": 3, "a": 1}
    assert (list(cache), cache.stats().hits, cache.stats().misses) == (["b", "c", "a"], 3, 1)
    assert (cache.remaining("a"), cache.remaining("b")) == (60.0, 5.0)
    clock.advance(5.0)
    assert cache.get_many("ab") == {"a": 1}
    with pytest.raises(TypeError, match="unhashable"):
        cache.get_many([[]])
    with pytest.raises(ValueError, match="ttl is -1: pass 0 or more"):
        cache.set_many({"z": 1}, ttl=-1)
    with pytest.raises(TypeError, match=r"items is \[\('z', 1\)\]: pass a mapping of keys to values"):
        cache.set_many([("z", 1)])
    with pytest.raises(ValueTooLargeError):
        TTLCache(0, 60.0).set_many({"z": 1})


def test_bulk_forms_of_a_subclass():
    """
    If a subclass overrides methods such as `__getitem__`, the bulk methods call the overridden methods for each key.
    """

    class Lower(TTLCache):
        def __getitem__(self, key):
            return super().__getitem__(key.lower())

        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

        def __contains__(self, key):
            return super().__contains__(key.lower())

    cache = Lower(10, 60.0)
    cache.set_many({"A": 1, "B": 2})
    assert list(cache) == ["a", "b"]
    assert cache.get_many(["a", "B", "c"]) == {"a": 1, "B": 2}
    assert cache.take_many(["a", "C"], lambda keys: dict.fromkeys(keys, 3)) == {"a": 1, "C": 3}
    assert list(cache) == ["b", "a", "c"]
    with pytest.raises(TypeError, match=r"items is \[\('z', 1\)\]: pass a mapping of keys to values"):
        cache.set_many([("z", 1)])


def test_take_many_loads_missing_keys_in_one_call():
    """
    The loader is called once with all missing keys, in order. A key without a value is neither returned nor stored.
    """
    cache, calls = TTLCache(10, 60.0), []
    cache["b"] = "kept"

    def load(keys):
        calls.append(keys)
        return {key: key.upper() for key in keys if key != "z"} | {"more": 1}

    assert cache.take_many(iter("cbazc"), load) == {"c": "C", "b": "kept", "a": "A"}
    assert list(cache.take_many("abc", load)) == ["a", "b", "c"]
    assert calls == [["c", "a", "z"]]
    assert list(cache) == ["a", "b", "c"]
    assert cache.take_many([], load) == {}
    assert (cache.stats().hits, cache.stats().misses) == (4, 3)


def test_a_bulk_loader_that_fails_or_returns_nonsense():
    """
    If the loader raises or returns nonsense, the error is raised, no value is stored, and a later load may succeed.
    """
    cache = TTLCache(10, 60.0)
    with pytest.raises(ZeroDivisionError):
        cache.take_many("ab", lambda _: 1 / 0)
    with pytest.raises(TypeError, match=r"the loader returned \['a'\]: return a mapping of keys to values"):
        cache.take_many("a", list)
    with pytest.raises(ReentrantError, match=r"take\('a'\)"):
        cache.take_many("a", lambda _: cache.take_many("ba", dict))
    with pytest.raises(TypeError, match="unhashable"):
        cache.take_many(["a", []], dict)
    assert cache.take_many("ab", lambda keys: dict.fromkeys(keys, 1)) == {"a": 1, "b": 1}


def test_values_that_do_not_fit_are_returned():
    """
    Values that are too large are returned and not stored.
    """
    cache = TTLCache(3, 60.0, getsizeof=len)
    assert cache.take_many("ab", lambda _: {"a": "long", "b": "b"}) == {"a": "long", "b": "b"}
    assert (dict(cache), cache.stats().loads.uncached) == ({"b": "b"}, 1)


def test_single_and_bulk_loads_share():
    """
    A bulk load waits for keys that other callers are loading, and loads only the remaining keys.
    """
    cache = TTLCache(10, 60.0)
    begun, go_on = threading.Event(), threading.Event()
    outcomes, calls = [], []

    def one(key):
        begun.set()
        go_on.wait(30.0)
        return f"one {key}"

    def many(keys):
        calls.append(keys)
        go_on.set()
        return {key: f"many {key}" for key in keys}

    thread = threading.Thread(target=lambda: outcomes.append(cache.take("a", one)))
    thread.start()
    begun.wait(30.0)
    assert cache.take_many("abc", many) == {"a": "one a", "b": "many b", "c": "many c"}
    thread.join(30.0)
    assert (outcomes, calls) == (["one a"], [["b", "c"]])


def test_a_caller_loads_the_key_that_a_bulk_loader_did_not_find():
    """
    If a bulk load finds no value for a key, a caller that waits for this key loads it separately.
    """
    cache = TTLCache(10, 60.0)
    begun, go_on = threading.Event(), threading.Event()
    outcomes = []

    def many(_keys):
        begun.set()
        go_on.wait(30.0)
        return {}

    first = threading.Thread(target=lambda: outcomes.append(cache.take_many("a", many)))
    first.start()
    begun.wait(30.0)
    second = threading.Thread(target=lambda: outcomes.append(cache.take("a", str.upper)))
    second.start()
    go_on.set()
    first.join(30.0)
    second.join(30.0)
    assert sorted(map(str, outcomes)) == ["A", "{}"]


def test_bulk_in_tasks():
    """
    take_many_async awaits its loader once for all missing keys, and shares loads with take_async on the same loop.
    """
    cache, calls = TTLCache(10, 60.0), []

    async def many(keys):
        calls.append(keys)
        await asyncio.sleep(0)
        return {key: key.upper() for key in keys if key != "z"}

    async def one(key):
        calls.append(key)
        return f"one {key}"

    async def main():
        both = await asyncio.gather(
            cache.take_many_async("abz", many), cache.take_many_async("bc", many), cache.take_async("c", one)
        )
        assert both == [{"a": "A", "b": "B"}, {"b": "B", "c": "C"}, "C"]
        assert await cache.take_async("z", one) == "one z"

    asyncio.run(main())
    assert calls == [["a", "b", "z"], ["c"], "z"]


def test_a_bulk_load_is_cancelled_with_its_last_waiter():
    """
    A bulk load continues as long as any caller waits for one of its keys. Without callers it is cancelled.
    """
    cache = TTLCache(10, 60.0)
    cancelled = []

    async def many(keys):
        try:
            await asyncio.sleep(3600.0)
        except asyncio.CancelledError:
            cancelled.append(keys)
            raise

    async def main():
        first = asyncio.ensure_future(cache.take_many_async("ab", many))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(cache.take_async("b", None))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        assert cancelled == []
        second.cancel()
        await asyncio.wait({second})
        await asyncio.sleep(0)
        assert cancelled == [["a", "b"]]

    asyncio.run(main())
    assert len(cache) == 0
