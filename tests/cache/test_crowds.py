"""
A cache with many keys that have the same hash. A lookup compares the wanted key once with each of them, as in a dict.
"""

from __future__ import annotations

import math

import pytest

from tickwheel.cache import TTLCache

SIZE = 400
CROWD = 1_500
MODULUS = 2**61 - 1
"""A number whose multiples all have the hash 0."""


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
        other.action()
        return self.name == other.name


MAKE = {
    "objects": Key,
    "calls": lambda n: (n * MODULUS,),
    "calls with keywords": lambda n: (n * MODULUS, ("name", n * MODULUS)),
    "calls with objects": lambda n: (None, Key(n)),
}


@pytest.fixture
def cache():
    cache = TTLCache(1000, 60.0)
    cache.update({Key(n): n for n in range(SIZE)})
    return cache


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_inserting_many_keys_with_one_hash_ends(make):
    """
    Inserting n keys with one hash takes about n squared comparisons, as in a dict.
    """
    cache = TTLCache(CROWD, 60.0)
    for n in range(CROWD):
        cache[make(n)] = n
    assert cache[make(CROWD - 1)] == CROWD - 1
    assert len(cache) == CROWD


def test_each_key_is_compared_once(cache):
    """
    A lookup compares the wanted key at most once with each key that has the same hash.
    """
    compared = []
    key = Key("other", lambda: compared.append(1))
    for verb in (
        cache.get,
        cache.__contains__,
        cache.touch,
        lambda key: cache.pop(key, None),
        lambda key: cache.set(key, 1),
    ):
        compared.clear()
        verb(key)
        assert len(compared) == SIZE


def test_a_key_inserted_during_a_comparison_is_found(cache):
    """
    If a key is inserted while a lookup compares the last key with the same hash, the lookup finds the inserted key.
    """
    compared = []

    def add():
        compared.append(1)
        if len(compared) == SIZE:
            cache[Key("late")] = "value"

    assert cache.get(Key("late", add)) == "value"
    assert len(compared) == SIZE + 1


def test_keys_removed_during_a_comparison_are_not_found(cache):
    """
    If all keys with one hash are removed while a lookup compares the first of them, the lookup ends and finds nothing.
    """
    compared = []

    def leave():
        compared.append(1)
        cache.clear()

    assert cache.get(Key(SIZE - 1, leave)) is None
    assert len(compared) == 1
    cache.check()


def test_tuples_are_equal_as_in_python():
    """
    A tuple, nested or not, finds the same entries in a cache as in a dict.
    """
    nan, key = math.nan, Key("one")

    def items():
        numbers = [1, 1.0, True, None, float("1.5"), int("1" * 30), nan, float("nan")]
        return [*numbers, "1", "ab".upper(), b"1", key, Key("one"), (), (1,), (1, 1), ((1,),), ((("a".upper(),),),)]

    def keys():
        return [(), *((item,) for item in items()), *((one, other) for one in items() for other in items())]

    cache, found = TTLCache(1000, 60.0), {}
    for n, pair in enumerate(keys()):
        cache[pair] = found[pair] = n
    assert dict(cache.items()) == found
    assert [cache.get(pair) for pair in keys()] == [found.get(pair) for pair in keys()]
