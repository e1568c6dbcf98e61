"""
The decorator `cached`.
"""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest

from tickwheel.cache import CacheInfo, TTLCache, cached, call_key, typed_call_key
from tickwheel.testing import ManualClock


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


def test_a_function_is_called_once_for_its_arguments():
    """
    A second call with the same arguments returns the cached result until its ttl has passed.
    """
    clock, calls = ManualClock(), []

    @cached(TTLCache(10, 60.0, clock=clock))
    def add(a, b=0):
        """
        Add.
        """
        calls.append((a, b))
        return a + b

    assert [add(1), add(1, b=2), add(1), add(1, b=2)] == [1, 3, 1, 3]
    assert (calls, add.__name__, add.__doc__.strip()) == ([(1, 0), (1, 2)], "add", "Add.")
    assert (len(add.cache), add.cache_key(1, b=2) in add.cache) == (2, True)
    clock.advance(60.0)
    assert add(1) == 1
    add.cache_clear()
    assert add(1) == 1
    assert calls == [(1, 0), (1, 2), (1, 0), (1, 0)]


def test_an_error_is_not_kept():
    calls = []

    @cached(TTLCache(10, 60.0))
    def fail_once():
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return "up"

    with pytest.raises(OSError, match="down"):
        fail_once()
    assert (fail_once(), fail_once(), len(calls)) == ("up", "up", 2)


def test_calls_at_the_same_time_are_one():
    """
    Calls with the same arguments at the same time share one call of the function.
    """
    calls, go_on = [], threading.Event()

    @cached(TTLCache(10, 60.0))
    def slow(n):
        calls.append(n)
        go_on.wait(30.0)
        return n

    threads = [threading.Thread(target=slow, args=(5,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert calls == [5]


def test_recursion():
    @cached(TTLCache(1000, 60.0))
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    assert fibonacci(80) == 23416728348467685


def test_a_coroutine_function():
    calls = []

    @cached(TTLCache(10, 60.0))
    async def double(n):
        calls.append(n)
        await asyncio.sleep(0)
        return n * 2

    async def main():
        assert await asyncio.gather(double(4), double(4), double(5)) == [8, 8, 10]
        return await double(4)

    assert (asyncio.run(main()), calls) == (8, [4, 5])


def test_a_key_of_ones_own():
    cache = TTLCache(10, 60.0)

    @cached(cache, key=lambda text, **_: text.lower())
    def shout(text, *, times=1):
        return text.upper() * times

    assert (shout("a"), shout("A", times=3), list(cache)) == ("A", "A", ["a"])


def test_keys_of_calls():
    """
    The order of keyword arguments does not matter, but a keyword argument differs from a tuple of its name and value.
    """
    assert call_key(1, a=2, b=3) == call_key(1, b=3, a=2)
    assert len({call_key(), call_key(1), call_key(a=1), call_key(("a", 1)), call_key("a", 1)}) == 5
    assert pickled(call_key(1, a=2)) == call_key(1, a=2)


def test_only_our_caches_are_accepted():
    """
    The decorator `cached` accepts only a cache of tickwheel. It refuses other objects before it gets a function.
    """
    for cache in ({}, TTLCache):
        with pytest.raises(TypeError, match=r"cache is .*: pass a TTLCache or TLRUCache, or None to keep nothing"):
            cached(cache)
    with pytest.raises(TypeError, match="and typed is True: let the key have the types of the arguments in it"):
        cached(TTLCache(10, 60.0), key=call_key, typed=True)


def test_without_a_cache_nothing_is_stored():
    """
    With `cached(None)` nothing is stored. Each call runs the function and counts as a miss.
    """
    calls = []

    @cached(None)
    def note(what):
        calls.append(what)
        return len(calls)

    assert [note([1]), note([1]), note("a")] == [1, 2, 3]
    assert note.cache_info()[:2] == (0, 3)
    note.cache_clear()
    assert note.cache_info()[:2] == (0, 0)


def test_a_result_that_does_not_fit_is_returned():
    """
    If a result is too large for the cache, or the cache stores nothing, the result is still returned.
    """
    for cache in (TTLCache(0, 60.0), TTLCache(3, 60.0, getsizeof=len)):

        @cached(cache)
        def double(text):
            return text * 2

        @cached(cache)
        async def double_async(text):
            return text * 2

        assert (double("ab"), asyncio.run(double_async("abc"))) == ("abab", "abcabc")
        assert (len(cache), cache.stats().loads.uncached) == (0, 2)


def test_typed_arguments():
    @cached(TTLCache(100, 60.0), typed=True)
    def name_of(value, **more):
        return type(value).__name__ + "".join(type(each).__name__ for each in more.values())

    assert [name_of(1), name_of(1.0), name_of(True)] == ["int", "float", "bool"]
    assert [name_of(1, b=1), name_of(1, b=1.0), name_of(value=1)] == ["intint", "intfloat", "int"]
    assert name_of.cache_key(1) == typed_call_key(1) != typed_call_key(1.0)
    assert typed_call_key(a=1, b=2.0) == typed_call_key(b=2.0, a=1)
    assert pickled(typed_call_key(1, a=2)) == typed_call_key(1, a=2)


def test_cache_info():
    """
    `cache_info` counts like the `cache_info` of functools.lru_cache, and `cache_clear` resets the counts.
    """

    @cached(TTLCache(2, 60.0))
    def same(n):
        return n

    assert same.cache_info() == (0, 0, 2, 0)
    for n in (1, 1, 2, 3, 1):
        same(n)
    assert same.cache_info() == CacheInfo(hits=1, misses=4, maxsize=2, currsize=2)
    assert str(same.cache_info()) == "CacheInfo(hits=1, misses=4, maxsize=2, currsize=2)"
    same.cache_clear()
    same(1)
    assert (same.cache_info(), same.cache.stats().hits) == ((0, 1, 2, 1), 1)
    assert (same.__wrapped__(5), same.cache_info().misses) == (5, 1)


def test_a_method_that_is_cached():
    """
    For a method, the object is part of the key.
    """

    class Squares:
        @cached(TTLCache(10, 60.0))
        def square(self, n):
            return n * n

    squares = Squares()
    assert (squares.square(3), squares.square(3), Squares().square(3)) == (9, 9, 9)
    assert squares.square.cache_info()[:2] == (1, 2)
    assert Squares.square.cache_key(squares, 3) in squares.square.cache


def test_which_functions_count_as_coroutine_functions():
    """
    An object with an async `__call__` counts as a coroutine function. A plain function may not return a coroutine.
    """

    class Double:
        async def __call__(self, n):
            return n * 2

    double = cached(TTLCache(10, 60.0))(Double())

    @cached(TTLCache(10, 60.0))
    def hidden(n):
        return Double()(n)

    async def main():
        assert [await double(4), await double(4), double.cache_info().hits] == [8, 8, 1]
        for take in (hidden, lambda n: hidden.cache.take(n, Double()), lambda n: hidden.cache.take_many([n], many)):
            with pytest.raises(TypeError, match="can be awaited only once: use a coroutine function, and take_async"):
                take(4)
        assert len(hidden.cache) == 0

    def many(keys):
        return {key: Double()(key) for key in keys}

    asyncio.run(main())


def test_objects_that_make_generators():
    """
    The decorator refuses an object whose `__call__` is a generator function.
    """

    class Count:
        def __call__(self):
            yield 1

    class CountAsync:
        async def __call__(self):
            yield 1

    for count in (Count(), CountAsync()):
        with pytest.raises(TypeError, match="is a generator function"):
            cached(TTLCache(10, 60.0))(count)
