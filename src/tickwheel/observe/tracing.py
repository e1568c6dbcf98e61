"""
The tracer that a scheduler uses, and the context that code finds inside a firing or a request.

What is to be traced is decided first, with nothing made and nobody called for the firings that are not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Protocol, Self

from tickwheel.observe.events import JobFired

__all__ = ["FIRING", "TRACE", "Span", "Tracer"]

TRACE: Final[ContextVar[str | None]] = ContextVar("tickwheel.trace", default=None)
"""The W3C traceparent that jobs are linked to which are set here without one: a request's, as it came in."""

FIRING: Final[ContextVar[tuple[str, int, int] | None]] = ContextVar("tickwheel.firing", default=None)
"""Key, generation and attempt of the firing that a handler runs for; what it logs carries them."""


class Span(Protocol):
    """
    One firing that is traced; as a context, it is current for what the handler does.
    """

    @property
    def trace(self) -> str:
        """
        The traceparent that its target hands on.
        """

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

    def end(self, outcome: str, error: str | None, at_ns: int) -> None:
        """
        Say what became of the firing, and when, in ns since the epoch. Twice is allowed; the first counts.
        """


class Tracer(Protocol):
    """
    Makes spans of firings. All methods may be called from any thread; what they raise is logged, and stops no firing.
    """

    @property
    def share(self) -> float:
        """
        Of the firings of jobs that carry no trace, how many to trace, 0 to 1: read once, the chance of each.
        """

    def current(self) -> str | None:
        """
        Return the traceparent of the span that is current for the caller, or None.
        """

    def samples(self, trace: str) -> bool:
        """
        Return whether the firings of a job that carries *trace* are to be traced.
        """

    def begin(self, fired: Callable[[], JobFired], trace: str | None) -> Span:
        """
        Begin the span of a firing that was sampled, linked to the span that *trace* names.

        What *fired* returns may be asked for later: a firing does not wait for it.
        """
