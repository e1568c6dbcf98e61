"""
A real workload: the names that a DNS resolver looked up, each cached for its time to live.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter
from pathlib import Path

import pytest

from tickwheel.cache import Reason, TTLCache
from tickwheel.testing import ManualClock

TRACE = Path(__file__).parents[3] / "shared" / "traces" / "dns_ttl_cache.timers.csv.gz"
END_S = 365 * 86_400
"""Seconds to advance at the end. This is more than the longest time to live, which is 14 days."""
COUNTS = {"set": 4_617, "move": 35_058, "expired": 4_617, "expired within the span": 4_092, "peak": 555}
"""The expected counts for the workload, computed with a heap and a dict."""


@pytest.mark.skipif(not TRACE.exists(), reason="../shared/traces/dns_ttl_cache.timers.csv.gz is not here")
@pytest.mark.parametrize("is_driven", [True, False], ids=["driven", "lazy"])
def test_the_counts_of_a_resolver(is_driven):
    """
    Every name expires exactly as often as expected, at the exact microsecond if a wheel drives the cache.
    """
    clock, count = ManualClock(), Counter()
    deadlines: dict[str, int] = {}
    start_ns = clock.monotonic_ns()

    def on_expire(key, deadline_ns, reason):
        assert reason is Reason.EXPIRED
        assert deadlines.pop(key) == deadline_ns, "the value of the last set, once"
        lateness_ns = clock.monotonic_ns() - deadline_ns
        assert lateness_ns == 0 if is_driven else lateness_ns >= -1
        count["expired"] += 1

    time = {"clock": clock} if is_driven else {"timer": clock.monotonic}
    cache = TTLCache(math.inf, 60.0, on_expire=on_expire, **time)
    now_us = 0
    with gzip.open(TRACE, "rt") as lines:
        for row in csv.DictReader(lines):
            at_us, key = int(row["t_us"]), row["key"]
            clock.advance((at_us - now_us) / 1e6)
            now_us = at_us
            # A name with a lifetime of zero would not be stored; with a nanosecond it is, and its expiry can be seen.
            life_ns = max(int(row["delay_us"]) * 1000, 1)
            count["move" if key in cache else "set"] += 1
            cache.expire()
            deadlines[key] = start_ns + at_us * 1000 + life_ns
            cache.set(key, deadlines[key], ttl=life_ns / 1e9)
            count["peak"] = max(count["peak"], len(cache))
    clock.advance(0)
    count["expired within the span"] = count["expired"]
    clock.advance(END_S)
    assert len(cache) == len(deadlines) == 0
    assert dict(count) == COUNTS
    assert cache.stats().expirations == count["expired"]
    cache.check()
