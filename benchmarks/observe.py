"""
What it costs a firing to be seen: all observability on, against off, in turns within one process.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.model import Bar, Case, Measure
from tickwheel.cli.logs import log_event
from tickwheel.observe.otel import OpenTelemetryTracer
from tickwheel.observe.prometheus import exposition
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

JOBS = 4_000
SHARE = 0.01
AHEAD_S = 3.0
SPREAD_S = 0.4
CONDITIONS = {
    "fire": (
        f"{JOBS:,} jobs on SQLite, due within {SPREAD_S} s, handled by a function that does nothing; CPU of the whole "
        "process from just before the first is armed until the last is settled, for each firing. on: traced at "
        f"{SHARE:.0%} through the SDK's batch processor, logged from info on, scraped once, as every 15 s at 270 a "
        "second; off: none of these. Both "
        "count, and remember the last firings. Rounds of both in turns, and of each "
        "the lower quartile, since others on the machine only add"
    ),
}
BARS = (Bar("fire, on over off, in percent", clock="cpu", at_most=103),)


def cases(*, quick: bool) -> list[Case]:
    """
    Return what to run.
    """
    return [Case(__name__, "fire", "tickwheel", 0, {"rounds": 4 if quick else 12}, reps=1)]


def measure(_work: str, _subject: str, _pending: int, *, rounds: int) -> list[Measure]:
    """
    Run one case in this process.
    """
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    tracer = OpenTelemetryTracer(SHARE, provider=provider)
    fire(None)  # the first round pays for what is made once
    offs: list[float] = []
    ons: list[float] = []
    for number in range(rounds):
        for is_on in (False, True) if number % 2 == 0 else (True, False):
            (ons if is_on else offs).append(fire(tracer if is_on else None))
    off, on = (statistics.quantiles(each, n=4)[0] for each in (offs, ons))
    return [
        Measure("fire, off", off, "ns", "cpu"),
        Measure("fire, on", on, "ns", "cpu"),
        Measure("fire, on over off, in percent", 100 * on / off, "%", "cpu"),
    ]


def fire(tracer: OpenTelemetryTracer | None) -> float:
    """
    Fire all jobs once, seen if there is a tracer, and return the CPU of a firing in nanoseconds.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder,
        Scheduler(f"sqlite:///{folder}/jobs.db", tracer=tracer) as scheduler,
    ):
        scheduler.handler("nothing")(do_nothing)
        if tracer is not None:
            scheduler.subscribe(log_event, routine=False)
        first = time.time() + AHEAD_S
        requests = [SetRequest(f"{n}", at=first + SPREAD_S * n / JOBS, handler="nothing") for n in range(JOBS)]
        scheduler.set_many(requests)
        time.sleep(max(0.0, first - 0.1 - time.time()))
        if time.time() > first - 0.06:
            message = "the jobs were not set in time: the machine is too busy to measure anything"
            raise RuntimeError(message)
        begin = time.process_time_ns()
        while scheduler.stats()["succeeded"] < JOBS:
            time.sleep(0.05)
        if tracer is not None:
            exposition(scheduler.stats())
        return (time.process_time_ns() - begin) / JOBS


def do_nothing(_payload: object) -> None:
    """
    Be the handler.
    """
