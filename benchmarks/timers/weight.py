"""
The memory of many timers, the time of a full garbage collection, and the longest pause while timers are set.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections import deque
from collections.abc import Callable

from benchmarks.model import Measure
from benchmarks.process import resident
from benchmarks.timers.contenders import Contender, Work, do_nothing
from benchmarks.timers.operations import SEED, timed

__all__ = ["CONDITIONS", "WEIGHTS"]

CONDITIONS = {
    "bytes per pending timer": (
        "growth of the resident set of a fresh process over the fill, by number of timers; the handles "
        "are kept, in a list whose own 8 bytes a place are not counted; one callback for all"
    ),
    "bytes per pending timer, by id": "the same, set by one call_later_many; the ids are kept, their array counts",
    "gc.collect": "a full collection with the population pending and no handle kept; the median of three",
    "gc.collect, handles in a list": "the same with a list of all handles, which the collector walks three times",
    "longest pause": (
        "set one, cancel the oldest, as many times as are pending and half as many again, a turn of the "
        "loop every 100; the longest such turn, collector on; cpu is the time of the thread, which other "
        "processes cannot lengthen"
    ),
}


def weight(contender: Contender, pending: int, found: list[Measure]) -> Work:
    """
    Measure the memory of *pending* timers and their handles, and the time of a full garbage collection.
    """
    yield None
    draw = random.Random(SEED)
    delays = [draw.uniform(1800, 7200) for _ in range(pending)]
    handles: list[object] = [None] * pending
    timers = contender.timers
    timers.call_later(7200, do_nothing)  # creates everything that is made at the first use
    yield 0.1
    gc.collect()
    before = resident()
    for place, delay in enumerate(delays):
        handles[place] = timers.call_later(delay, do_nothing)
    found.append(Measure("bytes per pending timer", (resident() - before) / pending, "bytes"))
    yield None
    delays.clear()  # otherwise the collector would also visit this list
    found += collections("gc.collect, handles in a list")
    handles.clear()
    found += collections("gc.collect")


def collections(work: str) -> list[Measure]:
    """
    Return the median time of three full garbage collections.
    """
    cpu, wall = (statistics.median(clock) for clock in zip(*(timed(gc.collect) for _ in range(3)), strict=True))
    return [Measure(work, cpu / 1e6, "ms", "cpu"), Measure(work, wall / 1e6, "ms", "wall")]


def weight_by_id(contender: Contender, pending: int, found: list[Measure]) -> Work:
    """
    Measure the memory of *pending* timers that are known by ids in place of handles, if the contender has ids.
    """
    yield None
    timers = contender.timers
    if not hasattr(timers, "call_later_many"):
        return
    draw = random.Random(SEED)
    delays = [draw.uniform(1800, 7200) for _ in range(pending)]
    timers.call_later_many([7200.0], print)
    yield 0.1
    gc.collect()
    before = resident()
    ids = timers.call_later_many(delays, print)
    found.append(Measure("bytes per pending timer, by id", (resident() - before) / len(ids), "bytes"))


def pauses(contender: Contender, pending: int, found: list[Measure]) -> Work:
    """
    Set and cancel timers while *pending* other timers wait, and measure the longest turn.
    """
    yield None
    draw = random.Random(SEED)
    handles = deque(contender.fill([draw.uniform(1800, 7200) for _ in range(pending)], do_nothing))
    timers = contender.timers
    delays = [draw.uniform(1800, 7200) for _ in range(100)]
    yield None
    longest_cpu = longest_wall = 0
    for _ in range(pending * 3 // 2 // len(delays)):
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        for delay in delays:
            handles.append(timers.call_later(delay, do_nothing))
            handles.popleft().cancel()
        yield None
        longest_cpu = max(longest_cpu, time.thread_time_ns() - cpu)
        longest_wall = max(longest_wall, time.perf_counter_ns() - wall)
    found.append(Measure("longest pause", longest_cpu / 1e6, "ms", "cpu"))
    found.append(Measure("longest pause", longest_wall / 1e6, "ms", "wall"))


WEIGHTS: dict[str, Callable[[Contender, int, list[Measure]], Work]] = {
    "weight": weight,
    "weight by id": weight_by_id,
    "longest pause": pauses,
}
