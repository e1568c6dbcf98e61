"""
Every error that tickwheel raises, with its second base class, whether it is transient, and what to do.

    TickwheelError                     the base class, never raised itself
      ClosedError                      RuntimeError   permanent   make a new wheel or scheduler
      TooManyTimersError               RuntimeError   transient   cancel timers, or raise max_pending
      ReentrantError                   RuntimeError   permanent   do not call the function inside itself
      ExecutorFullError                RuntimeError   transient   add workers, or take a longer queue or another policy
      ContextCancelledError            RuntimeError   permanent   give up: the caller no longer wants the result
      DeadlineExceededError            TimeoutError   transient   give up, and perhaps try again with more time
      LoadTimeoutError                 TimeoutError   transient   ask again, or raise the cache's load_timeout
      InvalidDelayError                ValueError     permanent   pass a number that is not NaN
      InvalidDeadlineError             ValueError     permanent   pass an integer in 0..NEVER
      SpanExceededError                ValueError     permanent   shorten the delay, or use a design with a longer span
      ValueTooLargeError               ValueError     permanent   raise the cache's maxsize
      InvalidValueError                ValueError     permanent   mend the value that the message names
        RecurrenceError                               permanent   mend the cron line, the zone or the interval
      MissingExtraError                ImportError    permanent   pip install the extra that the message names

A value of a wrong type raises a plain `TypeError`, as everywhere in Python. The durable scheduler's errors are in
`tickwheel.jobs.errors`, and have the same base class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

__all__ = [
    "ClosedError",
    "ContextCancelledError",
    "DeadlineExceededError",
    "ExecutorFullError",
    "InvalidDeadlineError",
    "InvalidDelayError",
    "InvalidValueError",
    "LoadTimeoutError",
    "MissingExtraError",
    "RecurrenceError",
    "ReentrantError",
    "SpanExceededError",
    "TickwheelError",
    "TooManyTimersError",
    "ValueTooLargeError",
]


_SHOWN_MAX = 100
"""Maximum number of characters of a refused value that an error message shows."""


class TickwheelError(Exception):
    """
    The base class of all errors that tickwheel raises.
    """

    is_transient = False
    """True if the same call may succeed later, unchanged."""

    def __new__(cls, *_facts: object, **_named: object) -> Self:
        # the base class itself is never raised, because an error must name its cause
        if cls is TickwheelError:
            message = "TickwheelError is the base class: raise one of its children"
            raise TypeError(message)
        return super().__new__(cls)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[TickwheelError], args: tuple[Any, ...]) -> TickwheelError:
    error = kind.__new__(kind)
    error.args = args
    return error


class ClosedError(TickwheelError, RuntimeError):
    """
    A timer or job was set after the wheel or scheduler was closed.
    """

    def __init__(self, what: str = "wheel") -> None:
        self.what = what
        super().__init__(f"the {what} is closed, and nothing can be set on it any more: make another one")


class TooManyTimersError(TickwheelError, RuntimeError):
    """
    The wheel already has `max_pending` timers; no timer was set.
    """

    is_transient = True

    def __init__(self, max_pending: int) -> None:
        self.max_pending = max_pending
        super().__init__(f"{max_pending} timers are pending, which is max_pending: cancel some or raise the limit")


class ReentrantError(TickwheelError, RuntimeError):
    """
    A function was called from inside itself, which it does not allow.
    """

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(f"{call} was called from inside itself: return from the callback first")


class ExecutorFullError(TickwheelError, RuntimeError):
    """
    A pool's queue is full, and the pool's policy is to reject; the callback was not called.
    """

    is_transient = True

    def __init__(self, queue_max: int) -> None:
        self.queue_max = queue_max
        super().__init__(
            f"{queue_max} callbacks are waiting for a worker, which is queue_max: "
            "take more workers, a longer queue, or another policy"
        )


class ContextCancelledError(TickwheelError, RuntimeError):
    """
    The context, or one of its ancestors, was cancelled.
    """

    def __init__(self, cause: object = None) -> None:
        self.cause = cause
        super().__init__("the context was cancelled" + (f": {cause}" if cause is not None else ""))


class DeadlineExceededError(TickwheelError, TimeoutError):
    """
    The deadline of the context, or of an ancestor, has passed. `deadline` is in seconds of the wheel's clock.
    """

    is_transient = True

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        message = f"the context's deadline, {deadline!r} on its wheel's clock, has passed"
        super().__init__(message)
        self.args = (message,)  # TimeoutError sets its arguments in `__new__`, not in `__init__`


class LoadTimeoutError(TickwheelError, TimeoutError):
    """
    A load took longer than the cache's `load_timeout`. `timeout` is this limit in seconds.
    """

    is_transient = True

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        message = f"the value was not loaded within {timeout:g} s: ask again, or raise the cache's load_timeout"
        super().__init__(message)
        self.args = (message,)  # see DeadlineExceededError


class InvalidDelayError(TickwheelError, ValueError):
    """
    The delay or time is NaN or NaT. Every function that takes a delay or a time raises it.
    """

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value
        super().__init__(f"{name} is {value!r}: pass seconds as a number that is not NaN (inf means never)")


class InvalidDeadlineError(TickwheelError, ValueError):
    """
    The deadline, in nanoseconds, is outside of 0..NEVER.
    """

    def __init__(self, value: object, name: str = "deadline") -> None:
        self.value = value
        self.name = name
        super().__init__(f"{name} is {value!r}: pass an integer of nanoseconds in 0..2**63 - 1")


class SpanExceededError(TickwheelError, ValueError):
    """
    The deadline is further ahead than the span of the design; no timer was set.
    """

    def __init__(self, delay_ns: int, span_ns: int) -> None:
        self.delay_ns = delay_ns
        self.span_ns = span_ns
        super().__init__(
            f"a delay of {delay_ns} ns is past this wheel's span of {span_ns} ns: "
            "take more slots, a coarser tick, or a design with overflow"
        )


class ValueTooLargeError(TickwheelError, ValueError):
    """
    A single value is larger than the cache's maxsize; the cache did not store the value.
    """

    def __init__(self, size: float, maxsize: float) -> None:
        self.size = size
        self.maxsize = maxsize
        super().__init__(f"value too large: its size is {size:g} and maxsize is {maxsize:g}, raise maxsize to keep it")


class InvalidValueError(TickwheelError, ValueError):
    """
    The value is invalid; nothing was set.
    """

    def __init__(self, name: str, value: object, remedy: str) -> None:
        self.name = name
        self.value = value
        self.remedy = remedy
        try:
            shown = _shortened(value)
        except Exception:  # noqa: BLE001 - an int too long for decimals, or a class with a faulty repr
            shown = f"<{type(value).__name__}>"
        super().__init__(f"{name} is {shown}: {remedy}")


def _shortened(value: object) -> str:
    # cheap even for a value of megabytes, because only the beginning of `repr(value)` is made
    text = ""
    for part in _parts_of_repr(value):
        text += part
        if len(text) > _SHOWN_MAX:
            return f"{text[: _SHOWN_MAX - 3]}..."
    return text


def _parts_of_repr(value: object) -> Iterator[str]:
    if type(value) is dict:
        yield "{"
        for number, (name, part) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _parts_of_repr(name)
            yield ": "
            yield from _parts_of_repr(part)
        yield "}"
    elif type(value) is list:
        yield "["
        for number, part in enumerate(value):
            yield ", " if number else ""
            yield from _parts_of_repr(part)
        yield "]"
    elif type(value) in (str, bytes):
        yield repr(value[: _SHOWN_MAX + 1])  # type: ignore[index]  # str or bytes
    else:
        yield repr(value)


class RecurrenceError(InvalidValueError):
    """
    The recurrence cannot be read, or never fires.
    """


class MissingExtraError(TickwheelError, ImportError):
    """
    A library that is needed is not installed. Every function that needs an optional library raises it.
    """

    def __init__(self, library: str, extra: str) -> None:
        self.library = library
        self.extra = extra
        super().__init__(f"{library} is not installed: pip install 'tickwheel[{extra}]'")
