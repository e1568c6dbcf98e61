"""
The metrics in the OpenMetrics format, which links a late firing to its trace.
"""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed: pip install 'tickwheel[otel]'")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tickwheel.observe.otel import OpenTelemetryTracer
from tickwheel.observe.prometheus import exposition
from tickwheel.scheduler import Scheduler

END_S = 20
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROMETHEUS = f"{OPENMETRICS};escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain"),
        ("*/*", "text/plain"),
        (PROMETHEUS, "application/openmetrics-text"),
        (f"text/plain, {OPENMETRICS};q=0.5", "text/plain"),
        (f"{OPENMETRICS};q=0, text/html", "text/plain"),
        (f"{OPENMETRICS};q=two, text/plain;q=0.1", "text/plain"),
    ],
)
def test_the_form_of_the_output(accept, kind):
    """
    If a request prefers OpenMetrics, the metrics are in this format.

    Otherwise they are in the plain text format of Prometheus.
    """
    with Scheduler("memory://") as scheduler:
        assert exposition(scheduler.stats(), accept)[0].startswith(kind)


def test_lateness_leads_to_a_trace():
    """
    In OpenMetrics, each bucket of the lateness links to the trace of the last traced firing that it counts.
    """
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ends = threading.Semaphore(0)
    with Scheduler("memory://", tracer=OpenTelemetryTracer(1.0, provider=provider)) as scheduler:
        scheduler.handler("works")(lambda _payload: None)
        scheduler.subscribe(lambda event: ends.release() if type(event).__name__ == "JobSucceeded" else None)
        for number in range(5):
            scheduler.set(f"job {number}", delay=0, handler="works")
        for _ in range(5):
            assert ends.acquire(timeout=END_S)
        stats = scheduler.stats()
    kind, text = exposition(stats, PROMETHEUS)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    late = next(
        each for each in text_string_to_metric_families(text.decode()) if each.name == "tickwheel_lateness_seconds"
    )
    found = [(sample.labels["le"], sample.exemplar) for sample in late.samples if sample.exemplar]
    assert found
    traces = {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans()}
    assert len(traces) == 5
    for edge, exemplar in found:
        assert exemplar.labels["trace_id"] in traces
        assert 0 <= exemplar.value <= float(edge)
    dropped = stats | {"lateness": stats["lateness"] | {"traces": []}}
    assert b"trace_id" not in exposition(dropped, PROMETHEUS)[1]
    assert b"trace_id" not in exposition(stats)[1], "the plain text has no exemplars"
