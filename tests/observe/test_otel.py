"""
The spans of firings, recorded by the memory exporter of OpenTelemetry.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed: pip install 'tickwheel[otel]'")

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tickwheel.observe.otel import OpenTelemetryTracer
from tickwheel.scheduler import (
    AsyncScheduler,
    DeadLetter,
    Firing,
    RetryPolicy,
    Scheduler,
    SchedulerOptions,
    SetRequest,
    Snooze,
)

SAMPLED = f"00-{'a' * 32}-{'b' * 16}-01"
UNSAMPLED = f"00-{'c' * 32}-{'d' * 16}-00"
END_S = 20


class Spans:
    """
    A tracer provider that keeps its spans, for which a test can wait.
    """

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[Any]:
        """
        Return the finished spans with the name *name*.
        """
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans():
    return Spans()


def text(context: Any) -> str:
    """
    Return the traceparent of *context*, including all flags.
    """
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def run(spans: Spans, handler: Any, share: float = 1.0, **fields: Any) -> list[Any]:
    """
    Run one job with *handler*, and return the spans of its firings.
    """
    ended = threading.Event()
    with Scheduler("memory://", tracer=OpenTelemetryTracer(share, provider=spans.provider)) as scheduler:
        scheduler.handler("work")(handler)
        scheduler.subscribe(lambda event: ended.set() if type(event).__name__ in ENDS else None)
        scheduler.set("k", **{"delay": 0, "handler": "work"} | fields)
        assert ended.wait(END_S)
    return spans.named("fire work")


ENDS = ("JobSucceeded", "JobDied")


def test_a_firing_is_linked_to_its_setter(spans):
    """
    The span of a firing begins a new trace, and is linked to the span in which the job was set.
    """
    seen = []

    def work(_payload: Any, firing: Firing) -> None:
        seen.append(firing.trace)

    ended = threading.Event()
    with Scheduler("memory://", tracer=OpenTelemetryTracer(0.0, provider=spans.provider)) as scheduler:
        scheduler.handler("work")(work)
        scheduler.subscribe(lambda event: ended.set() if type(event).__name__ in ENDS else None)
        with spans.tracer.start_as_current_span("request") as request:
            answer = scheduler.set("k", delay=0, handler="work")
        assert ended.wait(END_S)
    (span,) = spans.named("fire work")
    context = request.get_span_context()
    assert answer.job.trace == text(context)
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [
        (context.trace_id, context.span_id)
    ]
    assert span.parent is None
    assert span.context.trace_id != context.trace_id
    assert seen == [text(span.context)], "what a webhook hands on"
    assert dict(span.attributes)["tickwheel.fire_id"] == "k/1/1"
    assert span.attributes["tickwheel.outcome"] == "succeeded"
    assert span.attributes["tickwheel.lateness_ms"] >= 0


def test_spans_of_a_handler_are_children(spans):
    """
    Spans that are started in a handler are children of the firing's span, on a thread and on the event loop.
    """

    def work(_payload: Any) -> None:
        with spans.tracer.start_as_current_span("query"):
            pass

    async def async_work(_payload: Any) -> None:
        await asyncio.sleep(0)
        work(None)

    for handler in (work, async_work):
        spans.exporter.clear()
        (span,) = run(spans, handler)
        (query,) = spans.named("query")
        assert query.parent.span_id == span.context.span_id
        assert trace.get_current_span().get_span_context().is_valid is False


def test_a_handler_adds_to_its_span(spans):
    """
    In a handler, the current span is the span of the firing, to which the handler can add attributes and events.
    """
    seen = []

    def work(_payload: Any, firing: Firing) -> None:
        current = trace.get_current_span()
        assert current.is_recording()
        current.set_attribute("rows", 3)
        current.add_event("read")
        seen.append((text(current.get_span_context()), firing.trace))

    (span,) = run(spans, work)
    assert seen == [(text(span.context), text(span.context))]
    assert span.attributes["rows"] == 3
    assert [event.name for event in span.events] == ["read"]


def test_a_processor_reads_the_current_span(spans):
    """
    At the start of a span, a span processor still sees the enclosing span, if any, as the current span.
    """
    seen = []

    class Looking(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            seen.append((span.name, trace.get_current_span().get_span_context().span_id))

    spans.provider.add_span_processor(Looking())

    def work(_payload: Any) -> None:
        with spans.tracer.start_as_current_span("query"):
            pass

    (span,) = run(spans, work)
    assert seen == [("fire work", 0), ("query", span.context.span_id)]


def test_a_span_has_the_instants_of_its_firing(spans):
    """
    If spans are reported later and together, each still has the times at which its firing began and ended.
    """
    instants: list[int] = []

    def ended(event: Any) -> None:
        if type(event).__name__ in ENDS:
            instants.append(time.time_ns())
            done.set()

    done = threading.Event()
    with Scheduler("memory://", tracer=OpenTelemetryTracer(1.0, provider=spans.provider)) as scheduler:
        scheduler.handler("work")(lambda _payload: instants.append(time.time_ns()))
        scheduler.subscribe(ended)
        scheduler.set("k", delay=0, handler="work")
        assert done.wait(END_S)
    (span,) = spans.named("fire work")
    assert span.start_time <= instants[0] <= span.end_time <= instants[1]


def test_a_single_span_is_reported_at_once(spans):
    """
    If there is only one firing, its span is reported at once, without waiting for other spans or for a stop.
    """
    told = threading.Event()
    export = spans.exporter.export
    spans.exporter.export = lambda found: (export(found), told.set())[0]
    with Scheduler("memory://", tracer=OpenTelemetryTracer(1.0, provider=spans.provider)) as scheduler:
        scheduler.handler("work")(lambda _payload: None)
        scheduler.set("k", delay=0, handler="work")
        assert told.wait(END_S)
        assert len(spans.named("fire work")) == 1


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([RuntimeError("no"), None], [("retried", False), ("succeeded", True)]),
        ([DeadLetter("enough")], [("died", False)]),
        ([Snooze(0.0), None], [("snoozed", True), ("succeeded", True)]),
    ],
)
def test_outcomes(spans, outcomes, expected):
    """
    Each attempt has a span with its outcome, and a failed attempt also has its error.
    """
    left = iter(outcomes)

    def work(_payload: Any) -> Any:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    found = run(spans, work, retry=RetryPolicy(base_ms=0))
    told = [
        (span.attributes["tickwheel.outcome"], span.status.status_code is not trace.StatusCode.ERROR) for span in found
    ]
    assert told == expected


@pytest.mark.parametrize(
    ("job_trace", "share", "count"), [(SAMPLED, 0.0, 1), (UNSAMPLED, 1.0, 0), (None, 0.0, 0), (None, 1.0, 1)]
)
def test_sampling(spans, job_trace, share, count):
    """
    A firing is sampled if the span in which its job was set was sampled.

    The firing of a job that was set outside of a span is sampled with the probability *share*.
    """
    assert len(run(spans, lambda _payload: None, share, trace=job_trace)) == count


def test_about_the_configured_share_is_sampled(spans):
    """
    If jobs were set outside of a span, about the configured share of their firings is sampled.
    """
    left = iter(range(2_000))
    done = threading.Event()

    def work(_payload: Any) -> None:
        if next(left) == 1_999:
            done.set()

    with Scheduler(
        "memory://", tracer=OpenTelemetryTracer(0.1, provider=spans.provider), options=SchedulerOptions(workers=1)
    ) as scheduler:
        scheduler.handler("work")(work)
        scheduler.set_many([SetRequest(f"{number}", delay=0, handler="work") for number in range(2_000)])
        assert done.wait(END_S)
    found = spans.named("fire work")
    assert 100 < len(found) < 300
    assert all(span.start_time < span.end_time for span in found)
    with pytest.raises(ValueError, match=r"share is 1\.5: pass a fraction"):
        OpenTelemetryTracer(1.5)


def test_a_traced_firing_leaves_no_cycle(spans, until):
    """
    After a firing, its span and its job are in no reference cycle, so they are freed without garbage collection.
    """
    ended = threading.Semaphore(0)
    with Scheduler("memory://", tracer=OpenTelemetryTracer(1.0, provider=spans.provider)) as scheduler:
        scheduler.handler("work")(lambda _payload: None)
        scheduler.subscribe(lambda event: ended.release() if type(event).__name__ in ENDS else None)
        gc.collect()
        gc.disable()
        try:
            scheduler.set_many([SetRequest(f"{number}", delay=0, handler="work") for number in range(2_000)])
            assert all(ended.acquire(timeout=END_S) for _ in range(2_000))
            until(lambda: len(spans.named("fire work")) == 2_000)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert [each for each in gc.garbage if type(each).__name__ in ("StagedJob", "_FiringSpan")] == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_tracer_that_raises(caplog, error):
    """
    If the tracer raises an error, the error is logged, and the job still fires.
    """

    class Broken:
        def current(self) -> None:
            return None

        share = 1.0

        def samples(self, _trace: str) -> bool:
            return True

        def begin(self, _fired: Any, _trace: str | None) -> Any:
            raise error

    ended = threading.Event()
    with Scheduler("memory://", tracer=Broken()) as scheduler:
        scheduler.handler("work")(lambda _payload: ended.set())
        scheduler.set("k", delay=0, handler="work")
        assert ended.wait(END_S)
    assert "the tracer raised" in caplog.text


def test_async(spans):
    """
    With `AsyncScheduler`, a job also stores the trace of the caller's current span.
    """

    async def main() -> None:
        async with AsyncScheduler("memory://", tracer=OpenTelemetryTracer(provider=spans.provider)) as scheduler:
            with spans.tracer.start_as_current_span("request"):
                answer = await scheduler.set("k", delay=3600, target="log")
                assert answer.job is not None
                assert answer.job.trace == text(trace.get_current_span().get_span_context())

    asyncio.run(main())


def test_configured_by_its_variables():
    """
    If there is no provider, `OTEL_TRACES_EXPORTER` names the exporters to use.
    """
    script = """
import sys, threading
from tickwheel.observe.otel import OpenTelemetryTracer, configure
from tickwheel.scheduler import Scheduler
configure()
done = threading.Event()
with Scheduler("memory://", tracer=OpenTelemetryTracer(1.0)) as scheduler:
    scheduler.handler("work")(lambda _payload: None)
    scheduler.subscribe(lambda event: done.set() if type(event).__name__ == "JobSucceeded" else None)
    scheduler.set("k", delay=0, handler="work")
    assert done.wait(20)
"""
    told = {}
    for name in ("console", "none", "", "console, console", "nowhere"):
        environment = os.environ | {"OTEL_TRACES_EXPORTER": name}
        command = [sys.executable, "-P", "-c", script]
        told[name] = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    counts = {name: answer.stdout.count('"tickwheel.fire_id": "k/1/1"') for name, answer in told.items()}
    assert counts == {"console": 1, "none": 0, "": 0, "console, console": 2, "nowhere": 0}
    assert (told["none"].returncode, told["none"].stderr) == (0, "")
    assert "no exporter is named 'otlp'" in told[""].stderr  # the default, which is not installed here
    assert "no exporter is named 'nowhere': pip install opentelemetry-exporter-nowhere" in told["nowhere"].stderr
