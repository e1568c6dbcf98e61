"""
When entries end.
"""

from __future__ import annotations

import math
import random
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tickwheel.cache import TLRUCache, TTLCache
from tickwheel.testing import ManualClock


@pytest.fixture
def clock():
    """
    Return a clock that moves only when a test moves it.
    """
    return ManualClock()


def lazy(clock, maxsize=100, ttl=10.0, **options):
    """
    Return a cache that goes by the clock but is not driven by it.
    """
    return TTLCache(maxsize, ttl, timer=clock.monotonic, **options)


def test_an_entry_is_gone_at_its_deadline_and_not_before(clock):
    """
    One nanosecond before the deadline the entry is found, exactly at it nothing finds it.
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
    Without a timer the monotonic clock counts, and an entry in its last second is looked at exactly.
    """
    cache = TTLCache(100, 3600.0)
    cache["hour"] = 1
    cache.set("gone", 2, ttl=1e-9)
    cache.set("second", 3, ttl=0.9)
    while time.monotonic() == cache.timer():
        pass
    assert (cache["hour"], "gone" in cache, cache.get("gone"), cache["second"]) == (1, False, None, 3)
    assert 3599.0 < cache.remaining("hour") <= 3600.0


def test_expire_returns_what_was_due_in_order(clock):
    """
    `expire` removes what is due as of a time, and returns it by deadline.
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
    A key that is set again lives from then on, a deadline later or sooner.
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
    `remaining` returns what is left; `touch` starts the entry's life again, or gives it another one.
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
    With sliding, a lookup starts the life again and `in` does not; otherwise lookups change nothing.
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
    A jitter of 5 % gives lives on both sides of the ttl, none further off than that.
    """
    cache = lazy(clock, maxsize=math.inf, ttl=100.0, jitter=0.05)
    cache.update((n, n) for n in range(1000))
    lives = [cache.remaining(n) for n in range(1000)]
    assert 95.0 <= min(lives) < 96.0
    assert 104.0 < max(lives) <= 105.0
    cache.set("ever", 1, ttl=math.inf)
    assert cache.remaining("ever") == math.inf


def test_what_is_due_makes_room_before_the_living(clock):
    """
    A full cache drops expired entries before it evicts one that lives, however recently they were used.
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
    A value that is set for no time is not kept, and its key is gone.
    """
    cache = lazy(clock)
    cache["a"] = 1
    cache.set("a", 2, ttl=0)
    assert ("a" in cache, len(cache)) == (False, 0)
    assert dict(lazy(clock, ttl=0)) == {}


def test_ttu_says_until_when(clock):
    """
    TLRUCache asks its function with key, value and time; a deadline that is not after the time keeps nothing.
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
    Without a timer the function gets monotonic seconds, and `inf` means forever.
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
    A timer may count from anywhere, in integers or floats: what it returns are seconds, however many.
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
    The functions of the standard library that return nanoseconds are refused, with the remedy.
    """
    message = f"timer is time.{timer.__name__}: pass a function that returns seconds, or give the cache a clock"
    for make in (lambda: TTLCache(10, 60.0, timer=timer), lambda: TLRUCache(10, lambda *_: 0, timer=timer)):
        with pytest.raises(TypeError, match=message):
            make()


@pytest.mark.parametrize(("rate", "unit"), [(10**3, "milliseconds"), (10**6, "microseconds"), (1e9, "nanoseconds")])
def test_a_timer_that_does_not_count_seconds_is_refused_within_minutes(monkeypatch, rate, unit):
    """
    A timer a thousand times as fast as the system's clock is refused long before it passes 292 years of seconds.
    """
    real = [7.0]
    monkeypatch.setattr("tickwheel.cache._timer.time", SimpleNamespace(monotonic=lambda: real[0]))
    cache = TTLCache(10, 5 * rate, timer=lambda: real[0] * rate + 1_700_000_000 * rate)
    cache["a"] = 1

    def use() -> None:
        while real[0] < 200:
            real[0] += 1.0
            cache.get("a")

    with pytest.raises(ValueError, match=f"(in {unit}|292 years after .*): return seconds"):
        use()


def test_a_timer_that_a_test_moves_is_not_taken_for_one_of_milliseconds(monkeypatch):
    """
    One jump to a thousand times the time that has passed, and any rate below, is the timer's own affair.
    """
    real, now = [0.0], [0.0]
    monkeypatch.setattr("tickwheel.cache._timer.time", SimpleNamespace(monotonic=lambda: real[0]))
    jumped = TTLCache(10, 5, timer=lambda: now[0])
    quick = TTLCache(10, 5, timer=lambda: real[0] * 60)
    real[0], now[0] = 60.0, 60_000.0
    for _ in range(1_000):
        real[0] += 1.0
        now[0] += 1.0
        jumped["a"] = quick["a"] = 1
    assert "a" in jumped


def test_a_timer_that_passes_292_years_is_refused():
    """
    A timer that turns out to count nanoseconds is refused by the next call, instead of keeping everything forever.
    """
    now = 10**9
    cache = TTLCache(10, 60, timer=lambda: now)
    cache["a"] = 1
    now += 10 * 10**9
    with pytest.raises(ValueError, match="timer returned 11000000000, 292 years after 1000000000: return seconds, or"):
        cache.get("a")


def test_a_clock_says_nanoseconds_by_its_type():
    """
    A clock that starts low, and counts in nanoseconds, ends lives on time.
    """
    clock = ManualClock(start_ns=5)
    cache = TTLCache(10, 60, clock=clock)
    cache["a"] = 1
    clock.advance(59.999)
    assert "a" in cache
    clock.advance(0.001)
    assert "a" not in cache


def test_timers_of_datetimes():
    """
    A timer may return datetimes, with a timedelta as ttl; a deadline that overflows sets nothing.
    """
    now = datetime(2026, 1, 1, tzinfo=UTC)
    cache = TTLCache(10, timedelta(days=1), timer=lambda: now)
    cache["a"] = 1
    cache.set("b", 2, ttl=timedelta(days=2))
    assert cache.expire(now + timedelta(days=1)) == [("a", 1)]
    now += timedelta(days=2)
    assert len(cache) == 0
    now = datetime.max.replace(tzinfo=UTC)
    with pytest.raises(OverflowError):
        cache["c"] = 3
    assert (list(cache), cache.currsize) == ([], 0)


def test_the_timer_can_be_frozen():
    """
    While it is entered, the timer returns one fixed time, and nothing in a cache that uses it expires.
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
    Lives of years end on time, beside lives of nanoseconds; that far out a float still resolves microseconds.
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
    Many entries expire by deadline, and none is lost or doubled.
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
