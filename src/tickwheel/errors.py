"""
Every error that tickwheel raises.

    TickwheelError                     the base, never raised itself
      ClosedError                      RuntimeError   permanent   make a new wheel or scheduler
      TooManyTimersError               RuntimeError   transient   cancel some, or raise max_pending
      ReentrantError                   RuntimeError   permanent   the call is not allowed inside itself
      InvalidDelayError                ValueError     permanent   pass a number that is not NaN
      InvalidDeadlineError             ValueError     permanent   pass an integer in 0..NEVER
      SpanExceededError                ValueError     permanent   the design cannot hold so long a delay
      MissingExtraError                ImportError    permanent   pip install the extra that it names

A bad type is a plain `TypeError`, as everywhere in Python.
The durable scheduler's errors stand in `tickwheel.scheduler.errors` and share the base.
"""

from __future__ import annotations

from typing import Self

__all__ = [
    "ClosedError",
    "InvalidDeadlineError",
    "InvalidDelayError",
    "MissingExtraError",
    "ReentrantError",
    "SpanExceededError",
    "TickwheelError",
    "TooManyTimersError",
]


class TickwheelError(Exception):
    """
    Anything that tickwheel itself raises; catch it to catch them all.
    """

    is_transient = False
    """Whether the same call may succeed later, unchanged."""

    def __new__(cls, *_facts: object, **_named: object) -> Self:
        """
        Refuse the base itself: an error names what happened.
        """
        if cls is TickwheelError:
            message = "TickwheelError is the base class: raise one of its children"
            raise TypeError(message)
        return super().__new__(cls)


class ClosedError(TickwheelError, RuntimeError):
    """
    Something was set on a wheel or scheduler after its close.
    """

    def __init__(self, what: str = "wheel") -> None:
        """
        Name *what* is closed.
        """
        self.what = what
        super().__init__(f"the {what} is closed: nothing can be set on it any more")


class TooManyTimersError(TickwheelError, RuntimeError):
    """
    The wheel holds `max_pending` timers and refuses one more; nothing was set.
    """

    is_transient = True

    def __init__(self, max_pending: int) -> None:
        """
        Name the limit.
        """
        self.max_pending = max_pending
        super().__init__(f"{max_pending} timers are pending, which is max_pending: cancel some or raise the limit")


class ReentrantError(TickwheelError, RuntimeError):
    """
    A call was made from inside itself, where only an outer call may make it.
    """

    def __init__(self, call: str) -> None:
        """
        Name the *call*.
        """
        self.call = call
        super().__init__(f"{call} was called from inside itself: return from the callback first")


class InvalidDelayError(TickwheelError, ValueError):
    """
    A delay or time in seconds that is no point on any clock.
    """

    def __init__(self, name: str, value: object) -> None:
        """
        Name the argument and its *value*.
        """
        self.name = name
        self.value = value
        super().__init__(f"{name} is {value!r}: pass seconds as a number that is not NaN (inf means never)")


class InvalidDeadlineError(TickwheelError, ValueError):
    """
    A deadline in nanoseconds outside of 0..NEVER.
    """

    def __init__(self, value: object, name: str = "deadline") -> None:
        """
        Name the *value*, and the argument it was passed as.
        """
        self.value = value
        self.name = name
        super().__init__(f"{name} is {value!r}: pass an integer of nanoseconds in 0..2**63 - 1")


class SpanExceededError(TickwheelError, ValueError):
    """
    A design of limited reach cannot hold so far a deadline; nothing was set.
    """

    def __init__(self, delay_ns: int, span_ns: int) -> None:
        """
        Name the delay asked for and the span there is.
        """
        self.delay_ns = delay_ns
        self.span_ns = span_ns
        super().__init__(
            f"a delay of {delay_ns} ns is past this wheel's span of {span_ns} ns: "
            "take more slots, a coarser tick, or a design with overflow"
        )


class MissingExtraError(TickwheelError, ImportError):
    """
    A part needs a library that is not installed.
    """

    def __init__(self, library: str, extra: str) -> None:
        """
        Name the *library* and the pip *extra* that brings it.
        """
        self.library = library
        self.extra = extra
        super().__init__(f"{library} is not installed: pip install 'tickwheel[{extra}]'")
