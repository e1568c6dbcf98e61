"""
Compares the scheduler's processor time with a bare loop of the same SQL, and shows the garbage collector's part.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.durable.file import BATCH, PAYLOAD, SEED, bare, batched, do_nothing, wait_for
from benchmarks.model import Measure
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["COLLECTOR", "DUE", "ROUNDS", "SPREAD", "measure"]

DUE: Final = "bare SQL over cycle, due at once"
SPREAD: Final = "bare SQL over cycle, spread over 2 s"
COLLECTOR: Final = "collector's share of a cycle, in percent"
ROUNDS: Final = 5
_SPREAD_MS: Final = 2_000


def measure(path: Path, keys: list[str]) -> list[Measure]:
    """
    Run jobs with *keys* and the bare loop in turns: first due at once, and then spread over two seconds.

    Both use the same file. Each round compares two consecutive runs. Each result is the median of the rounds.
    """
    draw = random.Random(SEED)
    spread = [draw.randrange(_SPREAD_MS) for _ in keys]
    found: list[Measure] = []
    for work, ahead in ((DUE, []), (SPREAD, spread)):
        costs: list[tuple[float, float, float]] = []
        for number in range(ROUNDS):
            gc.collect()
            begin = time.process_time_ns()
            bare(path, [f"bare/{number}/{key}" for key in keys], BATCH, ahead)
            used = time.process_time_ns() - begin
            costs.append((used, *_cycle(f"sqlite:///{path}", [f"{number}/{key}" for key in keys], ahead)))
        share = statistics.median(used / ours for used, ours, _ in costs)
        found.append(Measure(work, share, "of ours", "cpu"))
        for name, figures in (("bare", [cost[0] for cost in costs]), ("ours", [cost[1] for cost in costs])):
            found.append(Measure(f"{work}: {name}", statistics.median(figures) / len(keys), "ns", "cpu"))
        if not ahead:
            collected = statistics.median(100 * spent / ours for _, ours, spent in costs)
            found.append(Measure(COLLECTOR, collected, "%", "cpu"))
    return found


def _cycle(url: str, keys: list[str], ahead: list[int]) -> tuple[float, float]:
    """
    Return the processor time of this process from the first set until all jobs are settled, in ns.

    The second figure is the garbage collector's part of this time.
    """
    requests = [
        SetRequest(key, delay=late / 1000, payload=PAYLOAD, handler="nothing")
        for key, late in zip(keys, ahead or [0] * len(keys), strict=True)
    ]
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        gc.collect()
        with _collector() as spent:
            begin = time.process_time_ns()
            for part in batched(requests, BATCH):
                scheduler.set_many(part)
            if ahead:
                time.sleep(_SPREAD_MS / 1000)  # polling the counts would disturb the measurement
            wait_for(scheduler, len(keys))
            return time.process_time_ns() - begin, sum(spent)


@contextmanager
def _collector() -> Iterator[list[int]]:
    """
    Yield a list that gets the processor time of each run of the garbage collector, in ns.
    """
    spent: list[int] = []
    begin = 0

    def note(phase: str, _info: dict[str, int]) -> None:
        nonlocal begin
        if phase == "start":
            begin = time.thread_time_ns()  # a collection runs in one thread, and only one collection runs at a time
        else:
            spent.append(time.thread_time_ns() - begin)

    gc.callbacks.append(note)
    try:
        yield spent
    finally:
        gc.callbacks.remove(note)
