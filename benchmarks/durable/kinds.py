"""
The cost of each kind of job.

A job may be plain, have a retry policy, have a condition, run with a hook or with tracing, be set in bulk, or recur.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.trace import TracerProvider

from benchmarks.durable.file import BATCH, PAYLOAD, bare, batched, do_nothing, wait_for
from benchmarks.model import Measure
from tickwheel.observe.otel import OpenTelemetryTracer
from tickwheel.scheduler import RetryPolicy, Scheduler, SetRequest

__all__ = ["CANCELS", "HOOK", "KNOWN", "MOVES", "ROUNDS", "SERIES", "TRACING", "WORK", "costs", "in_bare"]

WORK: Final = "cycle, due at once"
HOOK: Final = "cycle, one hook"
TRACING: Final = "cycle, tracing"
KNOWN: Final = "bulk set, known keys 80 %"
MOVES: Final = "bulk move"
CANCELS: Final = "bulk cancel"
SERIES: Final = "run of a job that recurs each second"
ROUNDS: Final = 5
_BARE: Final = "cycle by bare SQL"
_HOUR_S: Final = 3_600
_SPREAD_S: Final = 2.0
_LATER_S: Final = 3.0
_SERIES_S: Final = 5


class _Kind(NamedTuple):
    """
    A kind of job, which is set, fired and settled.

    Attributes:
        fields: Takes the number of a job, and returns fields of the request that sets the job.
        options: Returns options of the scheduler.
        has_hook: True if a hook gets all events.
        is_burst: True if one call sets all jobs.
    """

    fields: Callable[[int], dict[str, Any]] = lambda _: {"delay": 0.0}
    options: Callable[[], dict[str, Any]] = dict
    has_hook: bool = False
    is_burst: bool = False


_CYCLES: Final = {
    WORK: _Kind(),
    "cycle, spread over 2 s": _Kind(lambda _: {"delay": random.random() * _SPREAD_S}),
    "cycle, burst": _Kind(is_burst=True),
    "cycle, retry= set": _Kind(lambda _: {"delay": 0.0, "retry": RetryPolicy(attempts=3)}),
    "cycle, half with a condition": _Kind(lambda n: {"delay": 0.0, "if_generation": 0 if n % 2 else None}),
    HOOK: _Kind(has_hook=True),
    TRACING: _Kind(options=lambda: {"tracer": OpenTelemetryTracer(1.0, provider=TracerProvider())}),
}


def in_bare(work: str) -> str:
    """
    Return the name of the result that gives the cost of *work* as a multiple of the cost by bare SQL.
    """
    return f"{work}: in bare cycles"


def costs(url: str, keys: list[str]) -> list[Measure]:
    """
    Measure all kinds of jobs in turns. Then measure bulk calls on jobs an hour ahead, and jobs that recur each second.

    Each result is the processor time of this process for one job: the lower quartile of the rounds, because other
    processes can only add to the time. On SQLite each round also measures bare SQL (a plain loop of the store's
    statements), and each result is also given as a multiple of its cost.
    """
    names = count()
    found: dict[str, list[float]] = {}
    is_file = url.startswith("sqlite:")
    for _ in range(ROUNDS):
        if is_file:
            number = next(names)
            with _metered(len(keys)) as cost:
                bare(Path(url.removeprefix("sqlite:///")), [f"{number}/{key}" for key in keys], BATCH)
            found.setdefault(_BARE, []).append(cost[0])
        for work, kind in _CYCLES.items():
            number = next(names)
            found.setdefault(work, []).append(_cycle(url, kind, [f"{number}/{key}" for key in keys]))
    with Scheduler(url) as scheduler:
        for _ in range(ROUNDS):
            number = next(names)
            for work, used in _verbs(scheduler, [f"{number}/{key}" for key in keys]):
                found.setdefault(work, []).append(used)
    figures = {work: statistics.quantiles(each, n=4)[0] for work, each in found.items()} | {SERIES: _series(url, keys)}
    measures = [Measure(work, figure, "ns", "cpu") for work, figure in figures.items()]
    if is_file:
        measures += [Measure(in_bare(work), figure / figures[_BARE], "bare", "cpu") for work, figure in figures.items()]
    return measures


def _cycle(url: str, kind: _Kind, keys: list[str]) -> float:
    requests = [
        SetRequest(key, payload=PAYLOAD, handler="nothing", **kind.fields(number)) for number, key in enumerate(keys)
    ]
    with Scheduler(url, **kind.options()) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        if kind.has_hook:
            scheduler.subscribe(do_nothing)
        with _metered(len(keys)) as cost:
            for part in [requests] if kind.is_burst else batched(requests, BATCH):
                scheduler.set_many(part)
            wait_for(scheduler, len(keys))
    return cost[0]


def _verbs(scheduler: Scheduler, keys: list[str]) -> Iterator[tuple[str, float]]:
    """
    Yield the name and the cost of each bulk call.

    The calls set new jobs, set jobs of which four in five replace a pending job with the same key, move jobs, and
    cancel jobs.
    """
    known = [key if number % 5 else f"{key}/new" for number, key in enumerate(keys)]

    def set_all(some: list[str]) -> None:
        for part in batched(some, BATCH):
            scheduler.set_many([SetRequest(key, delay=_HOUR_S, payload=PAYLOAD, handler="later") for key in part])

    def move_all() -> None:
        for part in batched(keys, BATCH):
            scheduler.move_many(part, delay=2 * _HOUR_S)

    def cancel_all() -> None:
        for part in batched([*keys, *known[::5]], BATCH):
            scheduler.cancel_many(part)

    verbs: dict[str, Callable[[], object]] = {
        "bulk set, an hour ahead": lambda: set_all(keys),
        KNOWN: lambda: set_all(known),
        MOVES: move_all,
        CANCELS: cancel_all,
    }
    for work, call in verbs.items():
        with _metered(len(keys)) as cost:
            call()
        yield work, cost[0]


def _series(url: str, keys: list[str]) -> float:
    """
    Set a job that recurs each second for each key.

    Return the cost of a run, including the wait for the next second.
    """
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        for part in batched(keys, BATCH):
            scheduler.set_many([SetRequest(f"series/{key}", every=1, handler="nothing") for key in part])
        time.sleep(_LATER_S)  # the first runs are late, and are not counted
        before: int = scheduler.stats()["succeeded"]
        begin = time.process_time_ns()
        time.sleep(_SERIES_S)
        runs: int = scheduler.stats()["succeeded"] - before
        cost = (time.process_time_ns() - begin) / max(runs, 1)
        for part in batched(keys, BATCH):
            scheduler.cancel_many([f"series/{key}" for key in part], running=True)
    return cost


@contextmanager
def _metered(jobs: int) -> Iterator[list[float]]:
    """
    Yield an empty list. At the end of the block, add to it the CPU time of this process for each of *jobs*, in ns.
    """
    found: list[float] = []
    gc.collect()
    begin = time.process_time_ns()
    yield found
    found.append((time.process_time_ns() - begin) / jobs)
