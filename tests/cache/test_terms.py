"""
Rules for the lifetimes of entries (kept, restarted or limited), and the public names of a cache.
"""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest

from tickwheel.cache import Reason, Refresh, TLRUCache, TTLCache
from tickwheel.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


def in_a_minute(_key, _value, now):
    return now + 60.0


@pytest.mark.parametrize("kind", ["ttl", "tlru", "sliding", "driven", "graceful"])
def test_an_overwrite_may_keep_the_deadline(clock, kind):
    """
    With `keep_ttl`, a new value keeps the deadline of the old value, if there is one.
    """
    left = []
    options = {"on_expire": lambda *entry: left.append(entry), "on_evict": lambda *entry: left.append(entry)}
    cache = {
        "ttl": lambda: TTLCache(10, 60.0, clock.monotonic, **options),
        "tlru": lambda: TLRUCache(10, in_a_minute, clock.monotonic, **options),
        "sliding": lambda: TTLCache(10, 60.0, clock.monotonic, sliding=True, **options),
        "driven": lambda: TTLCache(10, 60.0, clock=clock, **options),
        "graceful": lambda: TTLCache(10, 60.0, clock.monotonic, refresh=Refresh(stale_if_error=5.0), **options),
    }[kind]()
    cache.set("key", 1, keep_ttl=True)
    assert cache.remaining("key") == 60.0
    clock.advance(20.0)
    cache.set("key", 2, keep_ttl=True)
    assert (cache.peek("key"), cache.remaining("key")) == (2, 40.0)
    cache.set("key", 3, ttl=10.0)
    cache.set("key", 4, keep_ttl=True)
    assert (cache.peek("key"), cache.remaining("key")) == (4, 10.0)
    assert [reason for *_, reason in left] == [Reason.REPLACED] * 3
    clock.advance(15.0)
    cache.set("key", 5, keep_ttl=True)
    assert cache.remaining("key") == 60.0
    assert left[3] == ("key", 4, Reason.EXPIRED)
    cache.check()


def test_keep_ttl_and_ttl_exclude_each_other():
    with pytest.raises(TypeError, match=r"ttl is 5 and keep_ttl is True: pass one of them"):
        TTLCache(10, 60.0).set("key", 1, ttl=5, keep_ttl=True)


@pytest.mark.parametrize("max_age", [100, 100.0, timedelta(seconds=100)])
@pytest.mark.parametrize("is_driven", [False, True])
def test_an_idle_limit_and_an_absolute_one(clock, max_age, is_driven):
    """
    With `sliding`, an entry expires one ttl after its last use, but never later than its maximum age.
    """
    times = {"clock": clock} if is_driven else {"timer": clock.monotonic}
    cache = TTLCache(10, 60.0, sliding=True, max_age=max_age, **times)
    cache["used"] = cache["idle"] = 1
    clock.advance(50.0)
    assert cache["used"] == 1
    assert cache.remaining("used") == 50.0
    clock.advance(40.0)
    assert (cache.get("used"), cache.get("idle")) == (1, None)
    assert cache.touch("used")
    assert cache.touch("used", ttl=1000.0)
    assert cache.remaining("used") == 10.0
    cache.check()
    clock.advance(10.0)
    assert ("used" in cache, len(cache)) == (False, 0)
    cache["used"] = 2
    assert cache.remaining("used") == 60.0
    cache.set("used", 3, ttl=500.0)
    assert cache.remaining("used") == 100.0


def test_an_overwrite_begins_the_longest_age_again(clock):
    """
    The maximum age of an entry counts from the last time that its value was set without `keep_ttl`.
    """
    cache = TTLCache(10, 60.0, clock.monotonic, sliding=True, max_age=100.0)
    cache["key"] = 1
    clock.advance(50.0)
    cache.set("key", 2, keep_ttl=True)
    assert (cache["key"], cache.remaining("key")) == (2, 50.0)
    cache["key"] = 3
    clock.advance(50.0)
    assert (cache["key"], cache.remaining("key")) == (3, 50.0)


@pytest.mark.parametrize("copied", [copy.copy, lambda cache: pickle.loads(pickle.dumps(cache))])  # noqa: S301 - its own
def test_a_copy_has_what_is_left_of_the_longest_age(copied):
    cache = TTLCache(10, 60.0, sliding=True, max_age=100.0)
    cache["key"] = 1
    with_less = copied(cache)
    assert with_less.touch("key", ttl=1000.0)
    assert 99.0 < with_less.remaining("key") <= 100.0
    with_less._restore("key", 1, 60_000_000_000, 5_000_000_000, 7_000_000_000)
    again = copied(with_less)
    assert 4.0 < again.remaining("key") <= 5.0
    assert again["key"] == 1
    assert 6.0 < again.remaining("key") <= 7.0


def test_a_long_age_with_grace(clock):
    """
    With `stale_if_error`, a value may still be returned for some time after its maximum age.
    """
    cache = TTLCache(10, 60.0, clock.monotonic, sliding=True, max_age=80.0, refresh=Refresh(stale_if_error=30.0))
    cache["key"] = 1
    clock.advance(50.0)
    assert cache["key"] == 1
    clock.advance(40.0)

    def fail(_key):
        raise OSError("down")

    assert "key" not in cache
    assert cache.take("key", fail) == 1
    clock.advance(20.0)
    with pytest.raises(OSError, match="down"):
        cache.take("key", fail)


@pytest.mark.parametrize("name", ["max_age", "load_timeout"])
@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-1.0, ValueError), ("5", TypeError), (float("nan"), ValueError)]
)
def test_a_limit_must_be_positive(name, value, error):
    """
    A `max_age` or `load_timeout` that is not a number above zero is refused, and the error names the argument.
    """
    with pytest.raises(error, match=name):
        TTLCache(10, 60.0, **{name: value})


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_retry_after_is_a_short_time(value):
    """
    A Refresh whose `retry_after` would prevent every retry is refused.
    """
    with pytest.raises(ValueError, match="retry_after"):
        Refresh(retry_after=value)


def test_a_short_life_is_not_renewed_at_each_take(clock):
    """
    If `ahead` is at least as long as the lifetime, a take refreshes the value only in the second half of the lifetime.
    """
    cache = TTLCache(10, 60.0, clock.monotonic, refresh=Refresh(ahead=180.0))
    calls = []
    for _ in range(29):
        cache.take("key", calls.append)
        clock.advance(1.0)
    assert (calls, cache.stats().loads.refreshes) == (["key"], 0)


def test_failed_keys_are_forgotten(clock):
    """
    The cache remembers a failed load only until `retry_after` has passed.
    """
    cache = TTLCache(10_000, 1.0, clock.monotonic, refresh=Refresh(stale_if_error=1e6, retry_after=1.0))

    def fail(_key):
        raise OSError("down")

    for key in range(2000):
        cache[key] = 1
        clock.advance(2.0)
        assert cache.take(key, fail) == 1
    assert len(cache._loads._resting) < 200


LOOKUPS = {"get", "get_many", "peek", "items", "keys", "values", "remaining", "currsize", "maxsize", "timer", "stats"}
WRITES = {"set", "set_many", "setdefault", "update", "touch", "pop", "popitem", "clear", "expire", "getsizeof"}
LOADS = {"take", "take_many", "take_async", "take_many_async"}


@pytest.mark.parametrize(("kind", "own"), [(TTLCache, "ttl"), (TLRUCache, "ttu")])
def test_the_names_that_a_cache_shows(kind, own):
    """
    `dir` of a cache has only the public methods and attributes.
    """
    assert {name for name in dir(kind) if not name.startswith("_")} == LOOKUPS | WRITES | LOADS | {"check", own}
