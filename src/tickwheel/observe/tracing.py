"""
The protocol of a scheduler's tracer, and the context variables of a firing or a request.

A firing that is not sampled costs no objects and no calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Protocol, Self

from tickwheel.observe.events import JobFired

__all__ = ["FIRING", "TRACE", "Span", "Tracer"]

TRACE: Final[ContextVar[str | None]] = ContextVar("tickwheel.trace", default=None)
"""The W3C traceparent of the current request. Jobs that are set without a traceparent are linked to this one."""

FIRING: Final[ContextVar[tuple[str, int, int] | None]] = ContextVar("tickwheel.firing", default=None)
"""Key, generation and attempt of the current handler's firing, for the handler's log records."""


class Span(Protocol):
    """
    The span of one traced firing. Inside its `with` block, it is the handler's current span.
    """

    @property
    def trace(self) -> str:
        """
        The traceparent of this span, which the target passes on.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def end(self, outcome: str, error: str | None, at_ns: int) -> None:
        """
        Record the outcome of the firing, and its time in ns since the epoch. Only the first call counts.
        """


class Tracer(Protocol):
    """
    Makes spans of firings. All methods may be called from any thread. Errors are logged and do not stop a firing.
    """

    @property
    def share(self) -> float:
        """
        The fraction of firings to trace, 0 to 1, for jobs without a traceparent. The scheduler reads it once.
        """

    def current(self) -> str | None:
        """
        Return the traceparent of the caller's current span, or None.
        """

    def samples(self, trace: str) -> bool:
        """
        Return True if the firings of a job with the traceparent *trace* are traced.
        """

    def begin(self, fired: Callable[[], JobFired], trace: str | None) -> Span:
        """
        Begin the span of a sampled firing, linked to the span of *trace*. The tracer may call *fired* later.
        """
