"""
The workloads that only event loops have.

These are a batch of timers that are due at once, and timeouts that do not expire.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.model import Measure
from benchmarks.timers.contenders import LoopContender, Work, do_nothing
from benchmarks.timers.operations import SEED, per_operation

__all__ = ["CONDITIONS", "due_batch", "timeouts"]

BATCH = 10_000
CHUNK = 1_000
LOST_NS = 10_000_000_000

CONDITIONS = {
    "due batch": (
        "10,000 timers are due, with a population pending behind them; the CPU from the turn that finds them until the "
        "last has been called; the callback is a C function"
    ),
    "timeout": (
        "async with timeout(30.0): pass, by asyncio.timeout on every loop but ours, where it is tickwheel.aio.timeout; "
        "the median of chunks of 1,000, a turn of the loop, untimed, between them"
    ),
    "timeout, int": "the same with the delay as an int, in turns with the other",
    "timeout on asyncio's loop": "tickwheel.aio.timeout on asyncio's own loop; on uvloop likewise",
}


def due_batch(contender: LoopContender, pending: int, chunks: int, found: list[Measure]) -> Work:
    """
    Let a batch of timers become due while the loop is blocked.

    Time the turns of the loop in which the timers are called.
    """
    yield None
    draw = random.Random(SEED)
    handles = contender.fill([draw.uniform(1800, 7200) for _ in range(pending)], do_nothing)
    gc.collect()
    gc.disable()
    timers = contender.timers
    spent = []
    for _ in range(max(5, chunks // 20)):
        yield None
        calls: list[None] = []
        when = contender.now() + 0.02
        for _ in range(BATCH):
            timers.call_at(when, calls.append, None)
        time.sleep(max(0.0, when - contender.now()) + 0.05)
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        while len(calls) < BATCH:  # loops take different numbers of turns
            assert time.perf_counter_ns() - wall < LOST_NS, "some timers of the batch did not fire"
            yield None
        spent.append((time.process_time_ns() - cpu, time.perf_counter_ns() - wall))
    found += per_operation("due batch", spent, BATCH)
    del handles


async def timeouts(subject: str, chunks: int, found: list[Measure]) -> None:
    """
    Measure the time to enter and leave a timeout that does not expire.
    """
    gc.collect()
    gc.disable()
    ours = import_module("tickwheel.aio").timeout
    if subject == "tickwheel":
        found += await _entered("timeout", ours, chunks)
        return
    found += await _entered("timeout", asyncio.timeout, chunks)
    names = {"asyncio": "asyncio's loop"}
    found += await _entered(f"timeout on {names.get(subject, subject)}", ours, chunks)


async def _entered(work: str, manager: Callable[[float], Any], chunks: int) -> list[Measure]:
    delays_of: dict[str, list[float]] = {work: [30.0] * CHUNK, f"{work}, int": [30] * CHUNK}
    spent: dict[str, list[tuple[int, int]]] = {name: [] for name in delays_of}
    for _ in range(chunks):
        for name, delays in delays_of.items():
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            for delay in delays:
                async with manager(delay):
                    pass
            spent[name].append((time.process_time_ns() - cpu, time.perf_counter_ns() - wall))
            await asyncio.sleep(0)
    return [measure for name, chunks_of_it in spent.items() for measure in per_operation(name, chunks_of_it, CHUNK)]
