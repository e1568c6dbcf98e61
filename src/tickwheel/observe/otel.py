"""
OpenTelemetry: a span for each sampled firing, linked to the span in which its job was set.

The span of a firing is a root span, because days may pass after the job was set. A link leads back to the span in which
the job was set. While the handler runs, the span is current: calls of the handler are traced below it, and a webhook
sends its traceparent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tickwheel.errors import MissingExtraError
from tickwheel.observe.events import JobFired
from tickwheel.threads import RLock

if TYPE_CHECKING:
    from opentelemetry.trace import Span as ApiSpan
    from opentelemetry.trace import SpanContext, TracerProvider

__all__ = ["OpenTelemetryTracer", "configure"]

_ERRORS: Final = frozenset({"retried", "died"})
_OUTCOME: Final = "tickwheel.outcome"


def configure() -> None:
    """
    Configure OpenTelemetry by the OTEL_ environment variables, unless `opentelemetry-instrument` or the program did so.

    OTEL_TRACES_EXPORTER is a comma-separated list of exporters, or "none"; the default is "otlp".

    Raises:
        LookupError: If an exporter of OTEL_TRACES_EXPORTER is not installed.
    """
    api = _library()
    if not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  on use: the extra is optional
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  on use: the extra is optional

    names = [name.strip() for name in (os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp").split(",")]
    exporters = [_exporter(name) for name in names if name != "none"]
    provider = TracerProvider()
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    api.set_tracer_provider(provider)


def _exporter(name: str) -> Any:
    known = entry_points(group="opentelemetry_traces_exporter")
    found = [entry for entry in known if entry.name in (name, f"{name}_proto_http")]
    if not found:
        there = ", ".join(sorted({"none", *(entry.name for entry in known)}))
        remedy = f"pip install opentelemetry-exporter-{name}, or set OTEL_TRACES_EXPORTER to one of {there}"
        message = f"no exporter is named {name!r}: {remedy}"
        raise LookupError(message)
    return found[0].load()()


class OpenTelemetryTracer:
    """
    Traces all firings of a job whose trace is sampled, and a fraction of the firings of jobs without a trace.

    Args:
        share: Fraction of firings to trace, 0 to 1, for jobs that were set outside any trace.
        provider: Receives the spans; None for the global provider.
    """

    def __init__(self, share: float = 0.01, *, provider: TracerProvider | None = None) -> None:
        if not 0 <= share <= 1:
            message = f"share is {share!r}: pass a fraction, 0 for none and 1 for all"
            raise ValueError(message)
        self.share = share
        self._api = _library()
        from opentelemetry import context  # noqa: PLC0415  on use: the extra is optional

        self._contexts = context
        self._nothing = context.Context()
        """An empty context, so that a span begins a new trace, even if a worker's thread has a current span."""
        self._api.Span.register(_Current)
        self.no_span = self._api.INVALID_SPAN
        self._tracer = self._api.get_tracer("tickwheel", tracer_provider=provider)

    def __repr__(self) -> str:
        return f"<OpenTelemetryTracer share={self.share}>"

    def current(self) -> str | None:
        context = self._api.get_current_span().get_span_context()
        return _text(context) if context.is_valid else None

    def samples(self, trace: str) -> bool:
        return int(trace[-2:], 16) & 1 == 1

    def begin(self, fired: Callable[[], JobFired], trace: str | None) -> _FiringSpan:
        return _FiringSpan(self, fired, trace)

    def make(self, fired: JobFired, trace: str | None, begun_ns: int, outcome: str | None) -> ApiSpan:
        """
        Return the OpenTelemetry span of a firing, with the firing's outcome if that is known.
        """
        api = self._api
        links = [] if trace is None else [api.Link(_context(api, trace))]
        name = f"fire {fired.handler if fired.target == 'handler' else fired.target}"
        span: ApiSpan = self._tracer.start_span(
            name,
            context=self._nothing,
            kind=api.SpanKind.CONSUMER,
            links=links,
            attributes=_attributes(fired, outcome),
            start_time=begun_ns,
        )
        return span

    def fail(self, span: ApiSpan, error: str | None) -> None:
        """
        Mark *span* as failed.
        """
        span.set_status(self._api.StatusCode.ERROR, error)

    def attach(self, span: _Current) -> Any:
        """
        Make *span* current, and return a token for `detach`.
        """
        return self._contexts.attach(self._api.set_span_in_context(span))

    def detach(self, token: Any) -> None:
        """
        Restore the previous current span.
        """
        self._contexts.detach(token)


class _FiringSpan:
    """
    One traced firing. Its OpenTelemetry span is made when it is requested, or at the latest when the firing ends.
    """

    __slots__ = ("_begun_ns", "_fired", "_is_ended", "_lock", "_span", "_token", "_trace", "_tracer")

    def __init__(self, tracer: OpenTelemetryTracer, fired: Callable[[], JobFired], trace: str | None) -> None:
        self._tracer = tracer
        self._fired: Callable[[], JobFired] | None = fired
        """Set to None when the span is made, to break a reference cycle through the job."""
        self._trace = trace
        self._begun_ns = time.time_ns()
        self._lock = RLock()
        self._span: ApiSpan = tracer.no_span
        self._token: Any = None
        self._is_ended = False

    @property
    def trace(self) -> str:
        return _text(self.made().get_span_context())

    def __enter__(self) -> Self:
        self._token = self._tracer.attach(_Current(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tracer.detach(self._token)

    def end(self, outcome: str, error: str | None, at_ns: int) -> None:
        if self._is_ended:  # the timeout came before the end of the handler
            return
        self._is_ended = True
        with self._lock:
            is_known = self._fired is None
            span = self.made(outcome)
        if is_known:
            span.set_attribute(_OUTCOME, outcome)
        if outcome in _ERRORS:
            self._tracer.fail(span, error)
        span.end(at_ns)

    def made(self, outcome: str | None = None) -> ApiSpan:
        with self._lock:  # a handler may use it while its timeout ends it
            # A processor of `make` may ask for the span again: it gets the no-op span.
            fired, self._fired = self._fired, None
            if fired is not None:
                self._span = self._tracer.make(fired(), self._trace, self._begun_ns, outcome)
            return self._span


class _Current:
    __slots__ = ("_firing",)

    def __init__(self, firing: _FiringSpan) -> None:
        self._firing = firing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._firing.made(), name)


def _attributes(fired: JobFired, outcome: str | None) -> dict[str, str | int | float]:
    known = {} if outcome is None else {_OUTCOME: outcome}
    return {
        "tickwheel.key": fired.key,
        "tickwheel.attempt": fired.attempt,
        "tickwheel.fire_id": f"{fired.key}/{fired.generation}/{fired.attempt}",
        "tickwheel.handler": fired.handler,
        "tickwheel.lateness_ms": fired.lateness_ms,
        **known,
    }


def _text(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _context(api: Any, trace: str) -> SpanContext:
    _, trace_id, span_id, flags = trace.split("-")
    context: SpanContext = api.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=api.TraceFlags(int(flags, 16))
    )
    return context


def _library() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415  on use: the extra is optional
    except ImportError:
        library, extra = "opentelemetry", "otel"
        raise MissingExtraError(library, extra) from None
    return trace
