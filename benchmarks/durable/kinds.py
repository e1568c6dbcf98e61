"""
The cost of a job by its kind: plain, with a column, a condition, a hook or a span, in bulk verbs, and recurring.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.trace import TracerProvider

from benchmarks.durable.file import BATCH, PAYLOAD, batched, do_nothing, wait_for
from benchmarks.model import Measure
from tickwheel.observe.otel import OpenTelemetryTracer
from tickwheel.scheduler import RetryPolicy, Scheduler, SetRequest

__all__ = ["ROUNDS", "WORK", "costs"]

WORK: Final = "cycle, due at once"
ROUNDS: Final = 5
_HOUR_S: Final = 3_600
_SPREAD_S: Final = 2.0
_LATER_S: Final = 3.0
_SERIES_S: Final = 5


class _Kind(NamedTuple):
    """
    A kind of job, which is set, fired and settled.

    Attributes:
        fields: Returns the fields of the job with a number.
        options: Options of the scheduler.
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
    "cycle, one hook": _Kind(has_hook=True),
    "cycle, tracing": _Kind(options=lambda: {"tracer": OpenTelemetryTracer(1.0, provider=TracerProvider())}),
}


def costs(url: str, keys: list[str]) -> list[Measure]:
    """
    Measure cycles of all kinds in turns, then bulk verbs on jobs an hour ahead, then jobs that recur each second.

    Each result is the processor time of this process for one job. It is the lower quartile of the rounds, because other
    processes only add to the time.
    """
    names = count()
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for work, kind in _CYCLES.items():
            number = next(names)
            found.setdefault(work, []).append(_cycle(url, kind, [f"{number}/{key}" for key in keys]))
    with Scheduler(url) as scheduler:
        for _ in range(ROUNDS):
            number = next(names)
            for work, cost in _verbs(scheduler, [f"{number}/{key}" for key in keys]):
                found.setdefault(work, []).append(cost)
    measures = [Measure(work, statistics.quantiles(each, n=4)[0], "ns", "cpu") for work, each in found.items()]
    return [*measures, _series(url, keys)]


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
    Yield bulk verbs and their costs: sets, sets where four of five keys already have a job, moves, and cancels.
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
        "bulk set, known keys 80 %": lambda: set_all(known),
        "bulk move": move_all,
        "bulk cancel": cancel_all,
    }
    for work, call in verbs.items():
        with _metered(len(keys)) as cost:
            call()
        yield work, cost[0]


def _series(url: str, keys: list[str]) -> Measure:
    """
    Let a job for each key recur each second, and return the cost of a run, including the wait for the next second.
    """
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        for part in batched(keys, BATCH):
            scheduler.set_many([SetRequest(f"series/{key}", every=1, handler="nothing") for key in part])
        time.sleep(_LATER_S)  # the first runs are late, and so do not count
        before, begin = scheduler.stats()["succeeded"], time.process_time_ns()
        time.sleep(_SERIES_S)
        runs = scheduler.stats()["succeeded"] - before
        cost = (time.process_time_ns() - begin) / max(runs, 1)
        for part in batched(keys, BATCH):
            scheduler.cancel_many([f"series/{key}" for key in part], running=True)
    return Measure("run of a job that recurs each second", cost, "ns", "cpu")


@contextmanager
def _metered(jobs: int) -> Iterator[list[float]]:
    """
    Yield a list that gets, at the end, this process's processor time for each of *jobs*, in ns.
    """
    found: list[float] = []
    gc.collect()
    begin = time.process_time_ns()
    yield found
    found.append((time.process_time_ns() - begin) / jobs)
