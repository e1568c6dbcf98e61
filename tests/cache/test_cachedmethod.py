"""
The decorator `cachedmethod`: each object has its own cache.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import weakref

import pytest

from tickwheel.cache import TTLCache, cachedmethod, call_key


class Prices:
    __hash__ = None  # the objects need not be hashable

    def __init__(self, factor=1):
        self.factor = factor
        self.calls = []
        self.cache = TTLCache(10, 60.0)

    @cachedmethod(lambda self: self.cache)
    def price(self, name, *, times=1):
        """
        Return a price.
        """
        self.calls.append(name)
        return len(name) * self.factor * times

    @cachedmethod(lambda self: self.cache, key=lambda name: ("slow", name))
    async def slow_price(self, name):
        self.calls.append(name)
        await asyncio.sleep(0)
        return len(name) * self.factor

    @cachedmethod(lambda self: self.cache, typed=True)
    def kind(self, value):
        return type(value).__name__

    @cachedmethod(lambda _: {})
    def misguided(self): ...


def test_every_object_has_its_own_results():
    """
    Results are stored in the object's own cache, and the object is not part of the key.
    """
    one, two = Prices(1), Prices(2)
    assert [one.price("abc"), one.price("abc"), two.price("abc"), Prices.price(two, "abc")] == [3, 3, 6, 6]
    assert [one.price("abc", times=2), one.price("abc", times=2)] == [6, 6]
    assert (one.calls, two.calls) == (["abc", "abc"], ["abc"])
    assert call_key("abc") in one.cache
    assert one.price.cache_key("abc") in two.price.cache
    assert [one.kind(1), one.kind(1.0)] == ["int", "float"]


def test_counts_and_clearing_are_of_one_object():
    one, two = Prices(), Prices()
    for prices in (one, two, two):
        prices.price("a")
    assert (one.price.cache_info(), two.price.cache_info()) == ((0, 1, 10, 1), (1, 1, 10, 1))
    two.price.cache_clear()
    assert (one.price.cache_info(), two.price.cache_info()) == ((0, 1, 10, 1), (0, 0, 10, 0))


def test_coroutine_methods():
    """
    If several calls of a coroutine method run at the same time, they share one await.

    The decorated method is recognised as a coroutine function.
    """
    prices = Prices()

    async def main():
        return await asyncio.gather(*(prices.slow_price("ab") for _ in range(3)))

    assert (asyncio.run(main()), prices.calls) == ([2, 2, 2], ["ab"])
    assert inspect.iscoroutinefunction(prices.slow_price)
    assert not inspect.iscoroutinefunction(prices.price)


def test_it_has_the_name_and_docstring_of_the_method():
    """
    The decorated method has the name and docstring of the original method.
    """
    prices = Prices()
    for price in (Prices.price, prices.price):
        assert (price.__name__, price.__doc__.strip()) == ("price", "Return a price.")
    assert repr(Prices.price).startswith("<cachedmethod <function Prices.price at")


def test_an_object_is_not_kept_alive():
    """
    An object whose methods were called is freed with its last reference, whereas `cached` would keep it alive.
    """
    prices = Prices()
    prices.price("a")
    reference = weakref.ref(prices)
    del prices
    gc.collect()
    assert reference() is None


def test_generators_and_bad_cache_functions_are_refused():
    """
    The decorator refuses generator functions, and *cache* functions without an argument or with a wrong result.
    """
    with pytest.raises(TypeError, match="pass a function of the object that returns its cache"):
        cachedmethod(TTLCache(10, 60.0))
    with pytest.raises(TypeError, match=r"cache is \{\}: pass a TTLCache or TLRUCache"):
        Prices().misguided()
    with pytest.raises(TypeError, match="is a generator function"):

        @cachedmethod(lambda self: self.cache)
        def numbers(self):
            yield self


@pytest.mark.parametrize("name", ["price", "slow_price"])
def test_a_method_of_an_object_is_a_value(name):
    """
    A bound method is equal only to itself, and has the object as `__self__`.

    It can be hashed, copied and pickled.
    """
    one, two = Prices(1), Prices(2)
    method = getattr(one, name)
    assert (method, hash(method), method.__self__) == (getattr(one, name), hash(getattr(one, name)), one)
    assert method not in (getattr(two, name), one.kind, 5)
    assert copy.copy(method) == method
    for other in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):  # noqa: S301 - our own bytes
        assert (other.__name__, other.__self__.factor, other.__self__ is one) == (name, 1, False)
        assert other.cache is other.__self__.cache
