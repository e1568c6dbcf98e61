"""
The workloads of single operations, which are measured while a given number of other timers is pending.

Operations are timed in chunks, by the process's CPU clock (all threads) and by the wall clock. The median chunk counts.
The garbage collector is off during measurements, for all contenders. Between chunks a loop runs one turn, which is not
timed unless the workload says otherwise.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import cycle, islice
from threading import Event
from typing import Any

from benchmarks.model import Measure
from benchmarks.timers.contenders import Contender, Work, do_nothing
from tickwheel import TimerWheel

__all__ = ["CONDITIONS", "OPERATIONS"]

CHUNK = 1_000
BATCH = 10_000
SEED = 20_260

CONDITIONS = {
    "call_later+cancel": (
        "for delay in delays: timers.call_later(delay, callback).cancel(); one delay, later than all that "
        "is pending, which is the best case of a heap; a loop's own purges of cancelled timers fall "
        "outside"
    ),
    "call_later+cancel, int": "the same with the delay as an int, in turns with the other, chunk by chunk",
    **{
        f"call_later+cancel, {name}": f"the same with the delay as a {name}"
        for name in ("bool", "float subclass", "timedelta", "numpy.float64", "numpy.int64", "numpy.timedelta64")
    },
    "call_later+cancel, turns included": (
        "the same with a turn of the loop after every 1,000, which counts: purges are inside"
    ),
    "reschedule": (
        "1,000 busy ones of the pending timers, drawn at random, taken from the list of all and moved 1 to 60 s later, "
        "again and again: handle.reschedule(when), where there is such a thing, else handle.cancel() and "
        "call_at(when, callback)"
    ),
    "reschedule, own list": (
        "the same 1,000 in a list of their own, as connections hold their timers: no look-up in the list of all, whose "
        "pages are fetched as the wheel's are"
    ),
    "reschedule anywhere": "as reschedule, but to a random instant of the next hour, as often earlier as later",
    "reschedule, cold": "as reschedule, but each time 1,000 others: most of it is waiting for memory",
    "set+fire": (
        "call_at(when, callback) 10,000 times for one instant, until the last has been called; the "
        "callback is a C function; waiting costs no CPU"
    ),
    "fill": "call_later(delay, callback) for as many as are pending, handles kept in a list",
    "call_later_many": "the same set by one call",
}


def timed(step: Callable[[], object]) -> tuple[int, int]:
    """
    Return the CPU and wall nanoseconds that *step* takes.
    """
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    step()
    return time.process_time_ns() - cpu, time.perf_counter_ns() - wall


def per_operation(work: str, chunks: list[tuple[int, int]], size: int) -> list[Measure]:
    """
    Return the CPU time and the wall time of one operation in the median chunk of *chunks*.
    """
    cpu, wall = (statistics.median(clock) / size for clock in zip(*chunks, strict=True))
    return [Measure(work, cpu, "ns", "cpu"), Measure(work, wall, "ns", "wall")]


def filled(contender: Contender, pending: int, draw: random.Random) -> list[object]:
    """
    Set *pending* timers that are due in half an hour to two hours.

    Return their handles.
    """
    delays = [draw.uniform(1800, 7200) for _ in range(pending)]
    gc.collect()
    gc.disable()
    return contender.fill(delays, do_nothing)


class Length(float):
    """
    A subclass of float, which a user may pass as a delay.
    """


def delays_of_types(timers: object) -> list[tuple[str, Any]]:
    """
    Return the name of each type of delay that *timers* accepts, with an example of a delay.
    """
    delays: list[tuple[str, Any]] = [("int", 7200)]
    if isinstance(timers, TimerWheel):
        delays += [("bool", True), ("float subclass", Length(7200)), ("timedelta", timedelta(hours=2))]
        with suppress(ImportError):
            import numpy as np  # noqa: PLC0415 - the benchmark runs without it

            delays += [("numpy.float64", np.float64(7200)), ("numpy.int64", np.int64(7200))]
            delays.append(("numpy.timedelta64", np.timedelta64(2, "h")))
    return delays


def call_later_cancel(contender: Contender, pending: int, chunks: int, found: list[Measure]) -> Work:
    """
    Set a timer and cancel it, as a request with a timeout does.
    """
    yield None
    draw = random.Random(SEED)
    handles = filled(contender, pending, draw)
    timers = contender.timers

    def step(delays: Sequence[float]) -> None:
        for delay in delays:
            timers.call_later(delay, do_nothing).cancel()

    floats = [7200.0] * CHUNK
    others = {name: [delay] * CHUNK for name, delay in delays_of_types(timers)}
    yield None
    spent, whole = [], 0.0
    spent_on: dict[str, list[tuple[int, int]]] = {name: [] for name in others}
    for _ in range(chunks):
        begin = time.process_time_ns()
        spent.append(timed(partial(step, floats)))
        yield None
        whole += (time.process_time_ns() - begin) / (chunks * CHUNK)
        for name, values in others.items():
            spent_on[name].append(timed(partial(step, values)))
            yield None
    found += per_operation("call_later+cancel", spent, CHUNK)
    for name, spent_on_one in spent_on.items():
        found += per_operation(f"call_later+cancel, {name}", spent_on_one, CHUNK)
    found.append(Measure("call_later+cancel, turns included", whole, "ns", "cpu"))
    del handles


def reschedule(contender: Contender, pending: int, chunks: int, found: list[Measure]) -> Work:
    """
    Move pending timers.

    In one part they move to a later time, as timeouts of busy connections do, and in another part to any time. One part
    moves random timers, which are not in the processor's cache.
    """
    yield None
    draw = random.Random(SEED)
    handles = filled(contender, pending, draw)
    # An array of numbers, because float objects would be scattered over as much memory as the timers, and the measured
    # time would include the time to load them from memory.
    whens = array("d", [contender.now() + 7200]) * pending

    def later(place: int) -> float:
        return whens[place] + draw.uniform(1, 60)

    def anywhere(_place: int) -> float:
        return contender.now() + draw.uniform(1, 3600)

    busy = list(islice(cycle(draw.sample(range(pending), min(CHUNK, pending))), CHUNK))
    everyone = list(range(CHUNK))
    works = (
        ("reschedule", later),
        ("reschedule, own list", later),
        ("reschedule anywhere", anywhere),
        ("reschedule, cold", later),
    )
    for work, instant in works:
        is_own = work == "reschedule, own list"
        held = [handles[place] for place in busy] if is_own else handles
        spent = []
        for _ in range(chunks):
            places = busy if work != "reschedule, cold" else [draw.randrange(pending) for _ in range(CHUNK)]
            targets = []
            for place in places:
                whens[place] = target = instant(place)
                targets.append(target)
            yield None
            spent.append(timed(partial(contender.move, held, everyone if is_own else places, targets)))
        if is_own:
            for place, handle in zip(busy, held, strict=True):
                handles[place] = handle  # a move may have made a new handle
        found += per_operation(work, spent, CHUNK)


def set_and_fire(contender: Contender, pending: int, chunks: int, found: list[Measure]) -> Work:
    """
    Set a batch of timers for one instant, and let it fire while other timers wait.
    """
    yield None
    draw = random.Random(SEED)
    handles = filled(contender, pending, draw)
    timers = contender.timers
    spent = []
    for _ in range(max(3, chunks // 20)):
        yield None
        called: list[None] = []
        fired = Event()
        when, due = contender.now() + 0.15, time.monotonic() + 0.15
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(BATCH):
            timers.call_at(when, called.append, None)
        timers.call_at(when + 0.002, fired.set)
        time.sleep(max(0.0, due + 0.005 - time.monotonic()))
        yield fired
        for _ in range(100):  # rloop may call the last timer before some others
            if len(called) == BATCH:
                break
            yield 0.01
        spent.append((time.process_time_ns() - cpu, time.perf_counter_ns() - wall))
        assert len(called) == BATCH, f"only {len(called)} timers of the batch fired"
    found.append(per_operation("set+fire", spent, BATCH)[0])
    del handles


def fill(contender: Contender, pending: int, _chunks: int, found: list[Measure]) -> Work:
    """
    Set *pending* timers by a loop of calls, and then by a bulk call, if the contender has one.

    All these timers are pending at the end.
    """
    yield None
    draw = random.Random(SEED)
    delays = [draw.uniform(1800, 7200) for _ in range(pending)]
    gc.collect()
    gc.disable()
    handles: list[object] = []
    found += per_operation("fill", [timed(lambda: handles.append(contender.fill(delays, do_nothing)))], pending)
    if hasattr(contender.timers, "call_later_many"):
        many = contender.timers.call_later_many
        found += per_operation("call_later_many", [timed(lambda: handles.append(many(delays, do_nothing)))], pending)


OPERATIONS: dict[str, Callable[[Contender, int, int, list[Measure]], Iterator[float | Event | None]]] = {
    "call_later+cancel": call_later_cancel,
    "reschedule": reschedule,
    "set+fire": set_and_fire,
    "fill": fill,
}
