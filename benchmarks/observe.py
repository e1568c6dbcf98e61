"""
The cost of observability for a firing.

Rounds with all observers and rounds without any take turns in one process.
"""

from __future__ import annotations

import gc
import itertools
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.model import Bar, Case, Measure
from tickwheel.cli.logs import log_event
from tickwheel.observe.otel import OpenTelemetryTracer
from tickwheel.observe.prometheus import exposition
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

JOBS = 16_000
SHARE = 0.01
SCRAPES = 100
IDLE_S = 0.6
"""
Seconds until all jobs are settled and all spans have ended. A span ends a tenth of a second after its firing.
"""
CONDITIONS = {
    "fire": (
        f"{JOBS:,} jobs on SQLite that are due, handled by a function that counts; CPU of the process from the start "
        "of the scheduler that finds them until all is settled and exported, for each firing. on: traced at "
        f"{SHARE:.0%} through the SDK's batch processor, and logged from info on; off: neither. Both count, and "
        "remember the last firings. The garbage collector runs once, at the end of a round, over what is new since its "
        "start: left to itself it goes through all jobs once, twice or three times, as it comes, each time for 6 % of "
        "the round. Rounds of both in turns, of each the least, since others on the machine only add; and "
        "the median of several processes, with their memory in other places"
    ),
    "scrape": "one exposition of everything for Prometheus, which no firing waits for",
}
BARS = (Bar("fire, on over off, in percent", clock="cpu", at_most=103),)


class Counted(SpanExporter):
    """
    Counts spans and drops them, like an exporter that has already sent them.
    """

    def __init__(self) -> None:
        self.count = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.count += len(spans)
        return SpanExportResult.SUCCESS


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases.
    """
    return [Case(__name__, "fire", "tickwheel", 0, {"rounds": 6 if quick else 12})]


def measure(_work: str, _subject: str, _pending: int, *, rounds: int) -> list[Measure]:
    """
    Run one case in this process.
    """
    exporter = Counted()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = OpenTelemetryTracer(SHARE, provider=provider)
    fire(None, provider)  # the first round also pays for one-time work
    offs: list[float] = []
    ons: list[float] = []
    for number in range(rounds):
        for is_on in (False, True) if number % 2 == 0 else (True, False):
            (ons if is_on else offs).append(fire(tracer if is_on else None, provider))
    assert exporter.count > rounds * JOBS * SHARE / 2, "hardly a span was exported"
    off, on = min(offs), min(ons)
    return [
        Measure("scrape", scrape(), "ns", "cpu"),
        Measure("fire, off", off, "ns", "cpu"),
        Measure("fire, on", on, "ns", "cpu"),
        Measure("fire, on over off, in percent", 100 * on / off, "%", "cpu"),
    ]


def fire(tracer: OpenTelemetryTracer | None, provider: TracerProvider) -> float:
    """
    Fire all jobs once, and return the CPU time of a firing in nanoseconds.

    The firings are observed if there is a *tracer*.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        url = f"sqlite:///{folder}/jobs.db"
        client = Scheduler(url)
        client.set_many([SetRequest(f"{number}", delay=0.0, handler="nothing") for number in range(JOBS)])
        client.stop()
        scheduler = Scheduler(url, tracer=tracer)
        done = threading.Event()
        numbers = itertools.count(1)

        @scheduler.handler("nothing")
        def count(_payload: object) -> None:
            if next(numbers) == JOBS:
                done.set()

        if tracer is not None:
            scheduler.subscribe(log_event, routine=False)
        gc.collect()
        gc.freeze()
        gc.disable()
        begin = time.process_time_ns()
        scheduler.start()
        done.wait()
        time.sleep(IDLE_S)  # polling the counts would cost as much as many firings
        provider.force_flush()
        gc.collect()
        took = time.process_time_ns() - begin
        gc.enable()
        gc.unfreeze()
        scheduler.stop()
        return took / JOBS


def scrape() -> float:
    """
    Return the CPU time of one scrape in nanoseconds.
    """
    with Scheduler("memory://") as scheduler:
        begin = time.process_time_ns()
        for _ in range(SCRAPES):
            exposition(scheduler.stats())
        return (time.process_time_ns() - begin) / SCRAPES
