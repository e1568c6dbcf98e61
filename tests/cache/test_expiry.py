"""
Expiry of entries at their deadlines.
"""

from __future__ import annotations

import math
import random
import time
from decimal import Decimal
from fractions import Fraction

import pytest

from tickwheel.cache import Loaded, TLRUCache, TTLCache
from tickwheel.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


def lazy(clock, maxsize=100, ttl=10.0, **options):
    """
    Return a cache that reads *clock*, and has no wheel.
    """
    return TTLCache(maxsize, ttl, timer=clock.monotonic, **options)


def test_an_entry_is_gone_at_its_deadline_and_not_before(clock):
    """
    An entry is found one nanosecond before its deadline, and not at the deadline itself.
    """
    cache = TTLCache(100, 10.0, clock=clock)
    cache["a"] = 1
    clock.advance(9.999_999_999)
    assert (cache["a"], "a" in cache, len(cache)) == (1, True, 1)
    clock.advance(1e-9)
    assert ("a" in cache, cache.get("a"), list(cache), len(cache)) == (False, None, [], 0)
    with pytest.raises(KeyError):
        cache["a"]


def test_on_the_system_clock():
    """
    Without the argument `timer`, a cache uses the monotonic clock.
    """
    cache = TTLCache(100, 3600.0)
    cache["hour"] = 1
    cache.set("gone", 2, ttl=1e-9)
    cache.set("second", 3, ttl=0.9)
    while time.monotonic() == cache.timer():
        pass
    assert (cache["hour"], "gone" in cache, cache.get("gone"), cache["second"]) == (1, False, None, 3)
    assert 3599.0 < cache.remaining("hour") <= 3600.0


def test_expire_returns_due_entries_in_order(clock):
    """
    `expire` removes the entries that are due at a given time, and returns them in the order of their deadlines.
    """
    cache = lazy(clock)
    start = clock.monotonic()
    for key, ttl in [("late", 30.0), ("first", 10.0), ("second", 20.0)]:
        cache.set(key, ttl, ttl=ttl)
    assert cache.expire() == []
    assert cache.expire(start + 20.0) == [("first", 10.0), ("second", 20.0)]
    assert list(cache) == ["late"]
    cache.check()


def test_a_set_begins_a_new_life(clock):
    """
    Setting a key again gives it a new deadline, later or earlier.
    """
    cache = lazy(clock)
    cache["a"] = 1
    clock.advance(6.0)
    cache["a"] = 2
    clock.advance(6.0)
    assert (cache["a"], cache.remaining("a")) == (2, pytest.approx(4.0))
    cache.set("a", 3, ttl=1.0)
    clock.advance(1.0)
    assert "a" not in cache


def test_remaining_and_touch(clock):
    """
    `remaining` returns the seconds until an entry expires.

    `touch` restarts the lifetime of an entry, and can change its length.
    """
    cache = lazy(clock)
    cache["a"] = 1
    cache.set("b", 2, ttl=math.inf)
    clock.advance(7.0)
    assert (cache.remaining("a"), cache.remaining("b"), cache.remaining("c")) == (pytest.approx(3.0), math.inf, None)
    assert (cache.touch("a"), cache.touch("c")) == (True, False)
    assert cache.remaining("a") == pytest.approx(10.0)
    assert cache.touch("b", ttl=2.0)
    assert cache.touch("a", ttl=0.0), "there, but no longer"
    assert list(cache) == ["b"]
    clock.advance(2.0)
    assert len(cache) == 0
    cache.check()


def test_sliding_or_fixed(clock):
    """
    With `sliding`, a lookup restarts the lifetime of an entry, but `in` does not.

    Without `sliding`, neither of them does.
    """
    fixed, sliding = lazy(clock), lazy(clock, sliding=True)
    fixed["a"] = sliding["a"] = sliding["b"] = 1
    clock.advance(9.0)
    assert (fixed["a"], sliding["a"], "b" in sliding) == (1, 1, True)
    clock.advance(9.0)
    assert ("a" in fixed, sliding.get("a"), "b" in sliding) == (False, 1, False)
    clock.advance(10.0)
    assert len(sliding) == 0


def test_jitter_spreads_lives(clock):
    """
    A jitter of 5 % makes lifetimes up to 5 % longer or shorter than the ttl.
    """
    cache = lazy(clock, maxsize=math.inf, ttl=100.0, jitter=0.05)
    cache.update((n, n) for n in range(1000))
    lives = [cache.remaining(n) for n in range(1000)]
    assert 95.0 <= min(lives) < 96.0
    assert 104.0 < max(lives) <= 105.0
    cache.set("ever", 1, ttl=math.inf)
    assert cache.remaining("ever") == math.inf


def test_expired_entries_make_room_first(clock):
    """
    A full cache drops expired entries before it evicts any live entry, even a live entry that was used less recently.
    """
    cache = lazy(clock, maxsize=3)
    cache["old"] = 1
    cache.set("a", 2, ttl=1.0)
    cache.set("b", 3, ttl=1.0)
    clock.advance(1.0)
    cache["new"] = 4
    cache["newer"] = 5
    assert list(cache) == ["old", "new", "newer"]


def test_a_ttl_of_zero_keeps_nothing(clock):
    """
    If the ttl is 0, the value is not stored, and the key is removed.
    """
    cache = lazy(clock)
    cache["a"] = 1
    cache.set("a", 2, ttl=0)
    assert ("a" in cache, len(cache)) == (False, 0)
    assert dict(lazy(clock, ttl=0)) == {}


def test_ttu_returns_the_deadline(clock):
    """
    TLRUCache calls its ttu function with key, value and time, and does not store a value that has already expired.
    """
    asked = []

    def ttu(key, value, now):
        asked.append((key, value, now))
        return now + value

    cache = TLRUCache(10, ttu, timer=clock.monotonic)
    now = clock.monotonic()
    cache["a"], cache["b"], cache["c"] = 5.0, 3.0, 0.0
    assert asked == [("a", 5.0, now), ("b", 3.0, now), ("c", 0.0, now)]
    assert list(cache) == ["a", "b"]
    clock.advance(3.0)
    assert list(cache) == ["a"]
    cache["a"] = -1.0
    assert len(cache) == 0


def test_ttu_on_the_system_clock():
    """
    Without the argument `timer`, the ttu function gets the monotonic time in seconds.

    If it returns `inf`, the entry never expires.
    """
    cache = TLRUCache(10, lambda key, _value, now: math.inf if key == "ever" else now + 60.0)
    cache["ever"] = cache["minute"] = 1
    assert cache.remaining("ever") == math.inf
    assert 59.0 < cache.remaining("minute") <= 60.0


@pytest.mark.parametrize(
    ("now", "step"),
    [(0, 1), (-5, 1), (0.0, 0.25), (1.7e9, 2**-10), (1_700_000_000 * 10**9, 10**9), (5 * 10**9, 1), (10**30, 10**6)],
    ids=["integers", "below zero", "floats", "seconds", "large steps", "large integers", "larger than nanoseconds"],
)
def test_timers_count_in_seconds(now, step):
    """
    The clock function (`timer`) of a cache may count seconds from any origin, in integers or floats.
    """
    cache = TTLCache(10, 2 * step, timer=lambda: now)
    cache["a"] = 1
    assert cache.remaining("a") == 2 * step
    now += step
    assert "a" in cache
    now += step
    assert "a" not in cache


@pytest.mark.parametrize("timer", [time.monotonic_ns, time.perf_counter_ns, time.time_ns])
def test_a_timer_of_nanoseconds_is_refused(timer):
    """
    A function of the standard library that returns nanoseconds is refused as the `timer` of a cache.
    """
    message = f"timer is time.{timer.__name__}: pass a function that returns seconds, or give the cache a clock"
    for make in (lambda: TTLCache(10, 60.0, timer=timer), lambda: TLRUCache(10, lambda *_: 0, timer=timer)):
        with pytest.raises(TypeError, match=message):
            make()


CACHES = {
    "ttl": lambda life, timer: TTLCache(10, life, timer=timer),
    "sliding": lambda life, timer: TTLCache(10, life, timer=timer, sliding=True),
    "max_age": lambda life, timer: TTLCache(10, math.inf, timer=timer, max_age=life),
    "ttu": lambda life, timer: TLRUCache(10, lambda _key, _value, now: now + life, timer=timer),
}


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("number", [int, float, Fraction, Decimal])
@pytest.mark.parametrize("power", [0, 2, 3, 6, 9, 12])
def test_a_timer_counts_in_any_unit_for_years(kind, number, power):
    """
    Whatever the unit of a cache's clock function, lifetimes end on time, even if the clock runs for more than a year.
    """
    rate, day, life = 10**power, 86_400, min(60 * 10**power, 10**9)
    moment = max(life // 100, 1)
    now = 1_700_000_000 * rate
    cache = CACHES[kind](number(life), lambda: number(now))
    for _ in range(400):
        cache["a"] = 1
        now += life - moment
        assert "a" in cache
        now += moment if number is not float else 2 * moment  # a float near 10**21 has steps of 262,144
        assert "a" not in cache
        now += day * rate
        cache.check()


@pytest.mark.parametrize("number", [int, float, Fraction, Decimal])
@pytest.mark.parametrize("power", [9, 12])
def test_a_life_that_is_too_long_for_the_unit_is_refused(number, power):
    """
    A ttl is refused if it is much too long for a cache's clock, unless it is `inf`.
    """
    life, timer = number(60 * 10**power), lambda: number(5)
    for make in (CACHES["ttl"], CACHES["sliding"], CACHES["max_age"]):
        with pytest.raises(ValueError, match=r"(ttl|max_age) is .*: pass at most 146 years, in seconds .* or math.inf"):
            make(life, timer)
    cache = TTLCache(10, math.inf, timer=timer)
    for refused in (
        lambda: cache.set("a", 1, ttl=life),
        lambda: cache.set_many({"a": 1}, ttl=life),
        lambda: cache.take("a", lambda _: Loaded(1, ttl=life)),
        lambda: CACHES["ttu"](life, timer).update(a=1),
    ):
        with pytest.raises(ValueError, match="pass at most 146 years"):
            refused()
    cache.set("b", 1, ttl=math.inf)
    assert list(cache) == ["b"]


def test_entries_keep_their_lives_when_the_timer_outgrows_its_range():
    """
    If a cache's clock function counts seconds, the cache must count from a later origin after 36 years.

    This does not change lifetimes, order or ages.
    """
    now, year = 0, 365 * 86_400
    cache = TTLCache(math.inf, 10 * year, timer=lambda: now, max_age=40 * year)
    for n in range(100):
        cache.set(n, n, ttl=(50 - n % 50) * year + n)
    cache.set("ever", 1, ttl=math.inf)
    before = iter(cache)
    now += 36 * year
    cache.set("new", 1, ttl=year)
    now += 2 * year
    cache.check()
    assert "new" not in cache
    cache.expire()
    living = [n for n in range(100) if min((50 - n % 50) * year + n, 40 * year) > now]
    assert list(before) == [*living, "ever"]
    assert cache.remaining("ever") == 40 * year - now
    now += 10**20
    ends = {n: min((50 - n % 50) * year + n, 40 * year) for n in living}
    assert [key for key, _ in cache.expire()] == [*sorted(living, key=ends.__getitem__), "ever"]
    assert len(cache) == 0
    cache.check()


def test_a_key_that_compares_slowly_keeps_its_life():
    """
    If a key's `__eq__` moves the cache's clock by years during `set`, the new entry still gets the right deadline.
    """
    now, year = 0, 365 * 86_400

    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            nonlocal now
            if now:
                now = 200 * year
                len(cache)
            return self is other

    cache = TTLCache(10, math.inf, timer=lambda: now)
    cache[Key()] = 1
    key, now = Key(), 35 * year
    cache.set(key, 2, ttl=year)
    assert now == 200 * year
    assert len(cache) == 1
    cache.check()


def test_a_clock_counts_in_nanoseconds():
    """
    With a clock that counts nanoseconds from near zero, lifetimes end on time.
    """
    clock = ManualClock(start_ns=5)
    cache = TTLCache(10, 60, clock=clock)
    cache["a"] = 1
    clock.advance(59.999)
    assert "a" in cache
    clock.advance(0.001)
    assert "a" not in cache


def test_the_timer_can_be_frozen():
    """
    During a `with` block of a cache's `timer`, the time does not change, and no entry expires.
    """
    ticks = iter(range(1000))
    cache = TTLCache(10, 5, timer=lambda: next(ticks))
    with cache.timer as now:
        cache["a"] = 1
        assert {cache.timer() for _ in range(20)} == {now}
        assert "a" in cache
    assert [cache.timer() for _ in range(6)][-1] > now
    assert "a" not in cache


def test_long_uptime_and_long_lives(clock):
    """
    Lifetimes of ten years and of a nanosecond end on time, even after a long uptime.
    """
    cache = TTLCache(math.inf, 86_400.0 * 3650, clock=clock)
    cache["decade"] = 1
    cache.set("blink", 2, ttl=1e-9)
    clock.advance(86_400.0 * 3650 - 2**-10)
    assert list(cache) == ["decade"]
    clock.advance(2**-10 + 1e-6)
    assert list(cache) == []


def test_one_million_deadlines_leave_in_order(clock):
    """
    A million entries expire in order of their deadlines, each exactly once.
    """
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    cache = TTLCache(math.inf, 1.0, timer=clock.monotonic)
    lives = {n: draw.uniform(0.001, 5000.0) for n in range(100_000)}
    for n, life in lives.items():
        cache.set(n, life, ttl=life)
    left = []
    for _ in range(10):
        clock.advance(500.0)
        left += cache.expire()
    assert [n for n, _ in left] == sorted(lives, key=lives.__getitem__), f"seed {seed}"
    cache.check()
