"""
The workloads for `TimerWheel`.

The other programs in this folder have the same workloads for their timers. The wheel runs on its own thread, and the
garbage collector is on.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from threading import Event

from benchmarks.process import resident
from benchmarks.timers.contenders import do_nothing
from benchmarks.timers.operations import CHUNK, SEED, timed
from benchmarks.timers.realtime import switches
from tickwheel import Timer, TimerWheel

__all__ = ["WORKS"]

LATEST_S = 7200.0
STEP_S = 30.0
WARM_NS = 100_000_000
WINDOW_NS = 300_000_000
Step = Callable[[], object]


def pending(wheel: TimerWheel, count: int) -> dict[str, float]:
    """
    Measure the memory of *count* pending timers, and the CPU time of a second in which none of them is due.

    Then measure the time to set and cancel another timer, and to move pending timers.
    """
    draw = random.Random(SEED)
    delays = [draw.uniform(LATEST_S / 4, LATEST_S) for _ in range(count)]
    handles = [wheel.call_later(LATEST_S, do_nothing)] * count  # creates everything that is made at the first use
    handles[0].cancel()
    time.sleep(0.01)
    gc.collect()
    before = resident()
    for place, delay in enumerate(delays):
        handles[place] = wheel.call_later(delay, do_nothing)
    time.sleep(0.3)
    gc.collect()
    found = {"bytes per timer": (resident() - before) / count}
    slept = switches()
    cpu = time.process_time_ns()
    time.sleep(1)
    found["idle second"] = (time.process_time_ns() - cpu) / 1e3
    found["wake-ups"] = switches() - slept
    start = time.monotonic()
    busy = [handles[place] for place in draw.sample(range(count), min(CHUNK, count))]
    steps = [draw.uniform(1, STEP_S) for _ in range(CHUNK)]

    def set_and_cancel() -> None:
        for _ in range(CHUNK):
            wheel.call_later(LATEST_S, do_nothing).cancel()

    def restart() -> None:
        for handle in busy:
            handle.restart(LATEST_S)

    def move(chosen: list[Timer], whens: list[float]) -> None:
        for handle, when in zip(chosen, whens, strict=True):
            handle.reschedule(when)

    def moves(chosen: Callable[[], list[Timer]], chunk: int, first: float) -> Step:
        begin = start + first + chunk * STEP_S
        timers = chosen()
        return partial(move, timers, [begin + step for step in steps[: len(timers)]])

    found["set+cancel"] = each(lambda _chunk: set_and_cancel, CHUNK)
    found["restart"] = each(lambda _chunk: restart, len(busy))
    found["move"] = each(lambda chunk: moves(lambda: busy, chunk, LATEST_S), len(busy))
    found["move, cold"] = each(lambda chunk: moves(lambda: draw.choices(handles, k=CHUNK), chunk, 2 * LATEST_S), CHUNK)
    return found


def each(make: Callable[[int], Step], size: int) -> float:
    """
    Return the CPU nanoseconds of one operation.

    *make* returns a step of *size* operations. Steps are run until the time window is over; the time of *make* itself
    does not count.
    """
    chunk = 0
    figure = 0.0
    for limit in (WARM_NS, WINDOW_NS):
        spent, first = 0, chunk
        while spent < limit:
            spent += timed(make(chunk))[0]
            chunk += 1
        figure = spent / ((chunk - first) * size)
    return figure


def fire(wheel: TimerWheel, count: int) -> dict[str, float]:
    """
    Set *count* timers for one instant, and wait until all were called.
    """
    spent = []
    for _ in range(max(3, min(20, 500_000 // count))):
        called: list[None] = []
        done = Event()
        cpu = time.process_time_ns()
        when = time.monotonic() + 0.02 + count * 2e-6
        for _ in range(count):
            wheel.call_at(when, called.append, None)
        wheel.call_at(when + 0.002, done.set)
        done.wait()
        spent.append((time.process_time_ns() - cpu) / count)
        assert len(called) == count, f"only {len(called)} timers of the batch fired"
    return {"set+fire": statistics.median(spent)}


def lateness(wheel: TimerWheel, count: int) -> dict[str, float]:
    """
    Set short timers of whole milliseconds at a steady pace, and measure how late each is called.
    """
    draw = random.Random(SEED)
    late: list[float] = []

    def note(deadline: float) -> None:
        late.append(time.monotonic() - deadline)

    for place in range(1, count + 1):
        delay = draw.randint(1, 50) / 1000
        wheel.call_later(delay, note, time.monotonic() + delay)
        if place % 100 == 0:
            time.sleep(0.005)
    time.sleep(0.5)
    late.sort()
    return {
        "lateness p50": late[len(late) // 2] * 1e6,
        "lateness p99": late[len(late) * 99 // 100] * 1e6,
        "early": sum(value < 0 for value in late),
        "lost": count - len(late),
    }


WORKS: dict[str, Callable[[TimerWheel, int], dict[str, float]]] = {
    "pending": pending,
    "fire": fire,
    "lateness": lateness,
}
