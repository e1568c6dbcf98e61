"""
The parts of a cache that a subclass may change, as with the classes of cachetools.
"""

from __future__ import annotations

import copy
import pickle

import pytest

from tickwheel.cache import TTLCache
from tickwheel.testing import ManualClock


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


class Loading(TTLCache):
    def __missing__(self, key):
        self[key] = key * 2
        return key * 2


def test_only_item_access_calls_missing():
    """
    `cache[key]` calls `__missing__`, but `get`, `pop`, `setdefault` and `in` do not.
    """
    cache = Loading(10, 60.0)
    assert (cache[1], cache.get(2), cache.pop(3, None), 4 in cache, cache.setdefault(5, 0)) == (2, None, None, False, 0)
    assert dict(cache.items()) == {1: 2, 5: 0}
    assert pickled(cache) == cache


def test_item_methods_of_a_subclass_are_called():
    """
    If a subclass overrides methods such as `__getitem__`, get, pop, setdefault and update call the overridden methods.
    """

    class Lower(TTLCache):
        def __getitem__(self, key):
            return super().__getitem__(key.lower())

        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

        def __delitem__(self, key):
            super().__delitem__(key.lower())

        def __contains__(self, key):
            return super().__contains__(key.lower())

    cache = Lower(10, 60.0)
    cache.update(ABC=1)
    assert (cache.get("aBc"), cache.setdefault("Abc", 5), cache.setdefault("New", 6), "NEW" in cache) == (1, 1, 6, True)
    assert cache.pop("ABC") == 1
    assert cache.pop("ABC", None) is None
    with pytest.raises(KeyError):
        cache.pop("ABC")
    assert list(cache) == ["new"]


def test_popitem_of_a_subclass_evicts():
    """
    Every eviction calls a subclass's `popitem`, which chooses the entry to evict.
    """
    gone = []

    class Newest(TTLCache):
        def popitem(self):
            key = list(self)[-1]
            gone.append(key)
            return key, self.pop(key)

    cache = Newest(2, 60.0)
    cache.update({1: 1, 2: 2, 3: 3})
    assert (gone, list(cache)) == ([2], [1, 3])
    cache[3] = "replaced"
    assert gone == [2]


def test_expire_of_a_subclass_is_called_by_every_set():
    """
    If a subclass overrides `expire`, every call of `set` calls its method, which removes the expired entries.
    """
    seen = []

    class Telling(TTLCache):
        def expire(self, time=None):
            expired = super().expire(time)
            seen.extend(expired)
            return expired

    clock = ManualClock()
    cache = Telling(10, 5.0, timer=clock.monotonic)
    cache["a"] = 1
    clock.advance(5.0)
    cache["b"] = 2
    assert seen == [("a", 1)]


def test_getsizeof_of_a_subclass():
    """
    A subclass's getsizeof is used, as a method or a static method.
    """

    class ByLength(TTLCache):
        def getsizeof(self, value):
            return len(value)

    cache = ByLength(5, 60.0)
    cache.update(a="12", b="345", c="67")
    assert (dict(cache.items()), cache.currsize) == ({"b": "345", "c": "67"}, 5)


def test_attributes_travel_with_a_pickle():
    """
    The attributes and slots of a subclass are pickled and copied, and `__init__` is not called again.
    """
    cache = Named("prices")
    cache["a"] = 1
    other = pickled(cache)
    assert (other.name, other["a"], other.ttl, other.maxsize) == ("prices", 1, 60.0, 10)
    slotted = Slotted(10, 60.0)
    slotted.name, slotted.note = "prices", 5
    for other in (copy.copy(slotted), pickled(slotted)):
        assert (other.name, other.note, other.ttl) == ("prices", 5, 60.0)
    assert not hasattr(pickled(Slotted(10, 60.0)), "name")


class Named(TTLCache):
    """
    A cache whose only argument is a name.
    """

    def __init__(self, name):
        super().__init__(10, 60.0)
        self.name = name


class Slotted(TTLCache):
    __slots__ = ("name",)


def test_classes_can_be_subscripted():
    """
    Cache classes accept type parameters at run time.
    """
    assert TTLCache[str, int](10, 60.0).maxsize == 10
