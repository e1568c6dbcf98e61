"""
What a job costs a client that has one PostgreSQL primary, and one that has two behind the prototype of a router.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from benchmarks.durable.server import postgres
from benchmarks.model import Measure
from benchmarks.scale.router import RoutedScheduler
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["CYCLE", "JOBS", "LOT", "RATIO", "measure"]

LOT: Final = 1_000
JOBS: Final = 20_000
CYCLE: Final = "set+fire+settle"
RATIO: Final = f"{CYCLE}, two primaries over one, in percent"


def measure(rounds: int) -> list[Measure]:
    """
    Measure one and two in turns.
    """
    with ExitStack() as servers:
        one, first, second = (servers.enter_context(postgres()) for _ in range(3))
        makers: list[Callable[[], Scheduler]] = [lambda: Scheduler(one), lambda: RoutedScheduler(first, second)]
        costs: list[list[float]] = [[], []]
        for make in makers:  # the first round pays for what is made once
            _cycle(make)
        for _ in range(rounds):
            for found, make in zip(costs, makers, strict=True):
                found.append(_cycle(make))
    single, double = (statistics.quantiles(each, n=4)[0] for each in costs)
    return [
        Measure(f"{CYCLE}, one primary", single, "ns", "cpu"),
        Measure(f"{CYCLE}, two primaries", double, "ns", "cpu"),
        Measure(RATIO, 100 * double / single, "%", "cpu"),
    ]


def _cycle(make: Callable[[], Scheduler]) -> float:
    """
    Set and fire all jobs once, and return the CPU of a job in nanoseconds.
    """
    with make() as scheduler:
        done, numbers = threading.Event(), itertools.count(1)

        @scheduler.handler("count")
        def count(_payload: object) -> None:
            if next(numbers) == JOBS:
                done.set()

        lots = [
            [SetRequest(f"{start + number}", delay=0.0, handler="count") for number in range(LOT)]
            for start in range(0, JOBS, LOT)
        ]
        gc.collect()
        begin = time.process_time_ns()
        for lot in lots:
            scheduler.set_many(lot)
        done.wait()
        while scheduler.stats()["in_flight"]:
            time.sleep(0.05)
        return (time.process_time_ns() - begin) / JOBS
