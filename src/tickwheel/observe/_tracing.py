"""
What a scheduler asks of a tracer, and what code inside a firing or a request finds in its context.

A tracer decides first whether a firing is to be traced, with nothing made for those that are not.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Final, Protocol, Self

from tickwheel.observe._events import JobFired

__all__ = ["FIRING", "TRACE", "Span", "Tracer"]

TRACE: Final[ContextVar[str | None]] = ContextVar("tickwheel.trace", default=None)
"""The W3C traceparent that jobs are linked to which are set here without one: a request's, as it came in."""

FIRING: Final[ContextVar[tuple[str, int, int] | None]] = ContextVar("tickwheel.firing", default=None)
"""Key, generation and attempt of the firing that a handler runs for; what it logs carries them."""


class Span(Protocol):
    """
    One firing that is traced; as a context, it is current for what the handler does.

    Attributes:
        trace: The traceparent that its target hands on.
    """

    trace: str

    def __enter__(self) -> Self:
        """
        Make it current.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """
        Make current again what was.
        """

    def end(self, outcome: str, error: str | None = None) -> None:
        """
        Say what became of the firing. Twice is allowed; the first counts.
        """


class Tracer(Protocol):
    """
    Makes spans of firings. All methods may be called from any thread; what they raise is logged, and stops no firing.
    """

    def current(self) -> str | None:
        """
        Return the traceparent of the span that is current for the caller, or None.
        """

    def samples(self, trace: str | None) -> bool:
        """
        Return whether the next firing of a job that carries *trace* is to be traced.
        """

    def begin(self, fired: JobFired, trace: str | None) -> Span:
        """
        Begin the span of a firing that was sampled, linked to the span that *trace* names.
        """
