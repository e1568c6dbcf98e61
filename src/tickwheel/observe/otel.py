"""
OpenTelemetry: a span for each sampled firing, linked to the span in which its job was set.

A firing is a root of its own and not a child, because days may lie between the two; the link leads back. While the
handler runs the span is current, so what it calls is traced below it, and a webhook hands its traceparent on.
"""

from __future__ import annotations

import os
import random
from importlib.metadata import entry_points
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tickwheel.errors import MissingExtraError
from tickwheel.observe._events import JobFired

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as ApiSpan
    from opentelemetry.trace import SpanContext, TracerProvider

__all__ = ["OpenTelemetryTracer", "configure"]

_ERRORS = frozenset({"retried", "died"})


def configure() -> None:
    """
    Set OpenTelemetry up as its OTEL_ variables say, unless somebody has, such as `opentelemetry-instrument`.

    Raises:
        MissingExtraError: If opentelemetry is not installed.
        LookupError: If the exporter that OTEL_TRACES_EXPORTER names is not.
    """
    api = _library()
    if not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  on use: the extra is optional
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  as above

    name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    known = entry_points(group="opentelemetry_traces_exporter")
    found = [entry for entry in known if entry.name in (name, f"{name}_proto_http")]
    if not found:
        there = ", ".join(sorted(entry.name for entry in known))
        remedy = f"pip install opentelemetry-exporter-{name}, or set OTEL_TRACES_EXPORTER to one of {there}"
        message = f"no exporter is named {name!r}: {remedy}"
        raise LookupError(message)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
    api.set_tracer_provider(provider)


class OpenTelemetryTracer:
    """
    Traces the firings whose setter was sampled, and a share of those that were set outside of any trace.

    Args:
        share: Of the firings without a trace, 0 to 1.
        provider: Where spans go; None for the global provider.

    Raises:
        ValueError: If *share* is not between 0 and 1.
        MissingExtraError: If opentelemetry is not installed.
    """

    def __init__(self, share: float = 0.01, *, provider: TracerProvider | None = None) -> None:
        if not 0 <= share <= 1:
            message = f"share is {share!r}: pass a fraction, 0 for none and 1 for all"
            raise ValueError(message)
        self._share = share
        self._api = _library()
        self._tracer = self._api.get_tracer("tickwheel", tracer_provider=provider)

    def current(self) -> str | None:
        """
        Return the traceparent of the caller's span.
        """
        context = self._api.get_current_span().get_span_context()
        return _text(context) if context.is_valid else None

    def samples(self, trace: str | None) -> bool:
        """
        Follow what the setter decided; where nobody did, draw.
        """
        if trace is None:
            return random.random() < self._share  # noqa: S311  it chooses what is looked at, not who is let in
        return int(trace[-2:], 16) & 1 == 1

    def begin(self, fired: JobFired, trace: str | None) -> _FiringSpan:
        """
        Begin the span of a firing.
        """
        api = self._api
        links = [] if trace is None else [api.Link(_context(api, trace))]
        name = f"fire {fired.handler if fired.target == 'handler' else fired.target}"
        span = self._tracer.start_span(
            name, context=_nothing(), kind=api.SpanKind.CONSUMER, links=links, attributes=_attributes(fired)
        )
        return _FiringSpan(api, span)


class _FiringSpan:
    """
    One traced firing.
    """

    __slots__ = ("_api", "_is_ended", "_span", "_token", "trace")

    def __init__(self, api: Any, span: ApiSpan) -> None:
        self._api = api
        self._span = span
        self._token: Any = None
        self._is_ended = False
        self.trace = _text(span.get_span_context())

    def __enter__(self) -> Self:
        """
        Make it current.
        """
        from opentelemetry import context  # noqa: PLC0415  on use: the extra is optional

        self._token = context.attach(self._api.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """
        Make current again what was.
        """
        from opentelemetry import context  # noqa: PLC0415  as above

        context.detach(self._token)

    def end(self, outcome: str, error: str | None = None) -> None:
        """
        End the span with what became of the firing.
        """
        if self._is_ended:  # the watch of a timeout was faster than the handler
            return
        self._is_ended = True
        self._span.set_attribute("tickwheel.outcome", outcome)
        if outcome in _ERRORS:
            self._span.set_status(self._api.StatusCode.ERROR, error)
        self._span.end()


def _attributes(fired: JobFired) -> dict[str, str | int | float]:
    return {
        "tickwheel.key": fired.key,
        "tickwheel.generation": fired.generation,
        "tickwheel.attempt": fired.attempt,
        "tickwheel.fire_id": f"{fired.key}/{fired.generation}/{fired.attempt}",
        "tickwheel.target": fired.target,
        "tickwheel.handler": fired.handler,
        "tickwheel.lateness_ms": fired.lateness_ms,
    }


def _text(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _context(api: Any, trace: str) -> SpanContext:
    _, trace_id, span_id, flags = trace.split("-")
    context: SpanContext = api.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=api.TraceFlags(int(flags, 16))
    )
    return context


def _nothing() -> Context:
    """
    Return an empty context: the span begins a trace, whatever is current on a worker's thread.
    """
    from opentelemetry.context import Context  # noqa: PLC0415  as above

    return Context()


def _library() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415  as above
    except ImportError:
        library, extra = "opentelemetry", "otel"
        raise MissingExtraError(library, extra) from None
    return trace
