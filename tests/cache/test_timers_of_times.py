"""
A cache whose clock function (`timer`) returns dates and times, or NumPy numbers.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest

from tickwheel.cache import TLRUCache, TTLCache

np = pytest.importorskip("numpy", reason="numpy is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

DAY = timedelta(days=1)
UNITS = ("D", "h", "m", "s", "ms", "us", "ns")
"""The units of time in NumPy."""


def moment(unit, passed):
    return np.datetime64("2026-01-01", unit) + difference(unit, passed)


def difference(unit, passed):
    return np.timedelta64(passed).astype(f"m8[{unit}]")


TIMES = {
    "datetime": lambda passed: datetime(2026, 1, 1) + passed,  # noqa: DTZ001  timers may return naive times
    "aware": lambda passed: datetime(2026, 1, 1, tzinfo=UTC) + passed,
    "date": lambda passed: date(2026, 1, 1) + passed,
    "timedelta": lambda passed: passed,
    "pandas": lambda passed: pd.Timestamp("2026-01-01") + passed,
    "pandas difference": pd.Timedelta,
    **{f"numpy {unit}": partial(moment, unit) for unit in UNITS},
    **{f"numpy difference {unit}": partial(difference, unit) for unit in UNITS},
}
LIVES = {
    "seconds": 86_400,
    "float": 86_400.0,
    "integer of numpy": np.int32(86_400),
    "timedelta": DAY,
    "numpy": np.timedelta64(1, "D"),
    "nanoseconds of numpy": np.timedelta64(86_400 * 10**9, "ns"),
    "pandas": pd.Timedelta(days=1),
}


@pytest.mark.parametrize("time_of", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("ttl", LIVES.values(), ids=LIVES)
def test_timers_of_times(time_of, ttl):
    """
    The clock function (`timer`) of a cache may return dates and times of Python, NumPy or pandas in any unit.
    """
    passed = timedelta()
    cache = TTLCache(10, ttl, timer=lambda: time_of(passed))
    aged = TTLCache(10, math.inf, timer=lambda: time_of(passed), max_age=ttl, sliding=True)
    cache["a"] = aged["a"] = 1
    cache.set("b", 2, ttl=2 * DAY)
    cache.set("ever", 3, ttl=math.inf)
    assert (cache.remaining("a"), cache.remaining("ever")) == (86_400.0, math.inf)
    assert cache.expire(time_of(DAY)) == [("a", 1)]
    passed = 2 * DAY
    assert (list(cache), list(aged)) == (["ever"], [])
    passed = 40_000 * DAY
    cache["a"] = 1
    passed += DAY
    assert list(cache) == ["ever"]
    cache.check()


@pytest.mark.parametrize("time_of", TIMES.values(), ids=TIMES)
def test_deadlines_of_times(time_of):
    """
    A deadline may be infinite, or have the type that the cache's `timer` returns.
    """
    passed = timedelta()
    ends = {"a": time_of(DAY), "ever": math.inf, "never": -math.inf}
    cache = TLRUCache(10, lambda key, _value, _now: ends[key], timer=lambda: time_of(passed))
    cache.set_many(dict.fromkeys(ends, 1))
    assert set(cache) == {"a", "ever"}
    passed = DAY
    assert list(cache) == ["ever"]
    for wrong in ("soon", object()):
        with pytest.raises(TypeError, match=r"the timer returned .* after .*: return seconds, or a datetime"):
            cache.expire(wrong)
    cache.check()


@pytest.mark.parametrize("wrong", ["now", None, object(), [5], 5j])
def test_a_timer_of_neither_numbers_nor_times(wrong):
    with pytest.raises(TypeError, match=r"(the timer returned|time is) .*: (return|pass) seconds"):
        TTLCache(10, 5, timer=lambda: wrong)


@pytest.mark.parametrize("number", [np.uint8, np.int8, np.uint64, np.int64, np.float32, np.float64])
def test_a_timer_of_numbers_of_numpy_that_steps_back(number):
    """
    If a cache's clock function returns NumPy numbers and steps back, no number wraps around, and no entry expires.
    """
    now = number(100)
    cache = TTLCache(10, 50, timer=lambda: now)
    cache["a"] = 1
    now = number(90)
    assert "a" in cache
    now = number(127)
    assert cache.remaining("a") == 23.0
    now = number(100)
    assert cache.remaining("a") == 50.0
