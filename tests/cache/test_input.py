"""
Invalid input raises a clear error, and the cache stays unchanged.
"""

from __future__ import annotations

import math
import re
import time

import pytest

from tickwheel import InvalidDelayError, TimerWheel
from tickwheel.cache import TLRUCache, TTLCache, cached
from tickwheel.testing import ManualClock

TTLS = [
    (math.nan, InvalidDelayError, "ttl is nan: pass seconds as a number that is not NaN"),
    (-1, ValueError, "ttl is -1: pass 0 or more, math.inf for no end"),
    (-math.inf, ValueError, "ttl is -inf: pass 0 or more, math.inf for no end"),
    (None, TypeError, "ttl is None: pass seconds as a number, math.inf for no end"),
    ("5", TypeError, "ttl is '5': pass seconds as a number or a timedelta, not str"),
]


@pytest.mark.parametrize(("ttl", "error", "message"), TTLS, ids=[repr(ttl) for ttl, *_ in TTLS])
@pytest.mark.parametrize("timer", [None, lambda: 5], ids=["system", "timer"])
def test_an_invalid_ttl(ttl, error, message, timer):
    """
    An invalid ttl of a cache or of a single key is refused, and the error has the argument's name and the value.
    """
    with pytest.raises(error, match=re.escape(message)):
        TTLCache(10, ttl, timer=timer)
    cache = TTLCache(10, 60.0, timer=timer)
    cache["a"] = 1
    if ttl is not None:
        with pytest.raises(error, match=re.escape(message)):
            cache.set("a", 2, ttl=ttl)
        with pytest.raises(error, match=re.escape(message)):
            cache.touch("a", ttl=ttl)
    assert dict(cache.items()) == {"a": 1}


@pytest.mark.parametrize("timer", [None, lambda: 5], ids=["system", "timer"])
def test_a_ttl_without_end(timer):
    """
    A ttl of inf, or of more seconds than the cache can represent, means that the entry never expires.
    """
    for ttl in (math.inf, 1e300):
        cache = TTLCache(10, ttl, timer=timer)
        cache["a"] = 1
        assert cache.remaining("a") == math.inf


@pytest.mark.parametrize(
    ("maxsize", "error", "message"),
    [
        (-1, ValueError, "maxsize is -1: it must be non-negative, pass math.inf for no bound"),
        (-math.inf, ValueError, "maxsize is -inf: it must be non-negative"),
        (math.nan, ValueError, "maxsize is nan: it must be non-negative"),
        (None, TypeError, "maxsize is None: pass a number, math.inf for no bound"),
        ("10", TypeError, "maxsize is '10': pass a number"),
        (10**400, ValueError, "0000, past all floats: pass math.inf for no bound"),
    ],
    ids=["-1", "-inf", "nan", "None", "text", "10**400"],
)
def test_an_invalid_maxsize(maxsize, error, message):
    """
    An invalid maxsize is refused, and the error has the argument's name and the value.
    """
    for make in (lambda: TTLCache(maxsize, 60.0), lambda: TLRUCache(maxsize, lambda *_: math.inf)):
        with pytest.raises(error, match=re.escape(message)):
            make()


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (-1, ValueError, "getsizeof returned -1: the size of a value must be non-negative"),
        (math.nan, ValueError, "getsizeof returned nan: the size of a value must be non-negative"),
        (None, TypeError, "getsizeof returned None: return the size as a number, not NoneType"),
        ("5", TypeError, "getsizeof returned '5': return the size as a number, not str"),
        (math.inf, ValueError, "value too large: its size is inf"),
    ],
)
def test_an_invalid_size(size, error, message):
    """
    If getsizeof returns an invalid size, an error is raised and nothing is set.
    """
    cache = TTLCache(10, 60.0, getsizeof=lambda value: size if value == "bad" else 1)
    cache["a"] = "good"
    with pytest.raises(error, match=re.escape(message)):
        cache["a"] = "bad"
    assert (cache["a"], cache.currsize) == ("good", 1)
    cache.check()


def test_a_getsizeof_that_raises():
    """
    If getsizeof raises, the caller gets the error, and nothing is set.
    """

    def getsizeof(value):
        return 1 / value

    cache = TTLCache(10, 60.0, getsizeof=getsizeof)
    with pytest.raises(ZeroDivisionError):
        cache["a"] = 0
    assert len(cache) == 0


def test_a_ttu_that_raises_or_returns_nonsense():
    """
    If ttu raises, the caller gets that error.

    If ttu returns an invalid result, the caller gets a TypeError or ValueError. In both cases nothing is set.
    """
    cache = TLRUCache(10, lambda _key, value, _now: value())
    for value, error in [(lambda: 1 / 0, ZeroDivisionError), (lambda: math.nan, ValueError), (dict, TypeError)]:
        with pytest.raises(error):
            cache["a"] = value
    assert len(cache) == 0
    with pytest.raises(TypeError, match="ttu is 5: pass a function"):
        TLRUCache(10, 5)


@pytest.mark.parametrize("jitter", [-0.1, 1.5, math.nan])
def test_a_jitter_that_is_none(jitter):
    with pytest.raises(ValueError, match=r"jitter is .*: pass a fraction of the ttl in 0\.\.1"):
        TTLCache(10, 60.0, jitter=jitter)


def test_time_comes_from_one_place():
    """
    A cache accepts only one of `timer`, `wheel` and `clock`, because each of them is a source of time.
    """
    wheel = TimerWheel(clock=ManualClock())
    with pytest.raises(TypeError, match="time would come from timer and wheel: pass one of them"):
        TTLCache(10, 60.0, timer=time.time, wheel=wheel)
    with pytest.raises(TypeError, match="from wheel and clock"):
        TTLCache(10, 60.0, wheel=wheel, clock=ManualClock())


def test_keys_that_cannot_be_hashed():
    cache = TTLCache(10, 60.0)
    for use in (cache.get, cache.__contains__, cache.touch, cache.remaining, cache.pop, cache.__getitem__):
        with pytest.raises(TypeError, match="unhashable"):
            use([])
    with pytest.raises(TypeError, match="unhashable"):
        cache[[]] = 1


def test_generators_are_not_cached():
    """
    The decorator refuses a generator function, because its result could be used only once.
    """
    with pytest.raises(TypeError, match="is a generator function: what it returns can be used only once"):

        @cached(TTLCache(10, 60.0))
        def numbers():
            yield 1


def test_a_ttl_of_another_library():
    """
    A ttl may be any number that can be converted to a float, even if it supports no other operation.
    """

    class Length:
        def __init__(self, seconds):
            self.seconds = seconds

        def __float__(self):
            return self.seconds

    cache = TTLCache(10, Length(5.0))
    cache["a"] = 1
    cache.set("b", 2, ttl=Length(1.0))
    assert 4.0 < cache.remaining("a") <= 5.0
    assert cache.remaining("b") <= 1.0
    with pytest.raises(ValueError, match="pass 0 or more"):
        TTLCache(10, Length(-1.0))


@pytest.mark.parametrize("name", ["on_expire", "on_evict"])
def test_coroutine_functions_as_callbacks_are_refused(name):
    """
    A callback is refused if it is a coroutine function or not callable.
    """

    async def tell(_key, _value, _reason):
        pass

    with pytest.raises(TypeError, match=f"{name} is .*, which makes a coroutine, and a cache awaits none"):
        TTLCache(10, 60.0, **{name: tell})
    with pytest.raises(TypeError, match=f"{name} is 5: pass something that can be called"):
        TLRUCache(10, lambda *_: math.inf, **{name: 5})
