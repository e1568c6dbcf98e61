"""
Keyed timers on a manual clock replay traces of real workloads.

Their counts are exactly the counts of the oracle, an independent timer queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tickwheel import TimerWheel
from tickwheel.lab.trace import read_trace
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

TRACES = (
    pytest.param("captured_asyncio", marks=pytest.mark.slow),
    "dns_request_timeout_5s",
    "dns_ttl_cache",
    "genai_request_timeout_120s",
    "hpc_walltime_hpc2n",
    "llm_request_timeout_30s_conv",
)
WHEELS: dict[str, Callable[[], Any]] = {"native": lambda: None, "heap": HeapWheel}
END_S = 365 * 86_400
"""
Seconds to advance after a trace.

The longest delay of the traces is 14 days.
"""


def replay(path: Path, make_wheel: Callable[[], Any]) -> dict[str, int]:
    """
    Play a trace on a wheel, and return the counts of calls and firings.
    """
    clock = ManualClock()
    count: Counter[str] = Counter()
    deadlines: dict[str, int] = {}
    time_us = peak = 0

    def on_expire(key: str, deadline_us: int) -> None:
        assert deadlines.pop(key) == deadline_us, "the value of the last set, once"
        assert clock.monotonic_ns() == start_ns + deadline_us * 1_000, "at its microsecond"
        count["fire"] += 1

    wheel = TimerWheel(wheel=make_wheel(), clock=clock, on_expire=on_expire, on_error=raise_it)
    start_ns = clock.monotonic_ns()
    for now_us, op, key, delay_us in read_trace(path):
        clock.advance((now_us - time_us) / 1e6)  # no time fires what is due at once
        time_us = now_us
        if op == "S":
            deadlines[key] = now_us + max(delay_us, 0)
            count["move" if key in wheel else "set"] += 1
            wheel.set(key, deadlines[key], delay_us / 1e6)
        elif wheel.cancel(key):
            del deadlines[key]
            count["cancel"] += 1
        else:
            count["late_cancel"] += 1
        peak = max(peak, len(wheel))
    clock.advance(0)
    count["fired_within_span"] = count["fire"]
    clock.advance(END_S)
    wheel.check()
    assert len(wheel) == len(deadlines) == 0
    return {**count, "peak_pending": peak}


def raise_it(error: BaseException, _: object) -> None:
    """
    Make an exception of a callback fail the test.
    """
    raise error


@pytest.mark.parametrize("kind", WHEELS)
@pytest.mark.parametrize("trace", TRACES)
def test_the_counts_of_the_oracle(traces, oracle, trace, kind):
    """
    The counts of calls, of late cancels and of firings equal the oracle's.

    The largest number of pending timers is also the same.
    """
    path = traces / f"{trace}.timers.csv.gz"
    assert replay(path, WHEELS[kind]) == oracle(path)
