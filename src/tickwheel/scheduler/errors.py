"""
The durable scheduler's errors.

    TickwheelError
      JobNotFoundError          LookupError    permanent   set it first
      InvalidJobError           ValueError     permanent   mend the value that it names
        RecurrenceError                        permanent   mend the cron line or interval
      HandlerNotFoundError      LookupError    permanent   register the handler; the job is parked, not dropped
      GenerationMismatchError   RuntimeError   permanent   read the job again
      StoreError                OSError        transient or permanent: see `is_transient`
        StoreInUseError                        transient   another process owns the store: stop it, or take another file
        StoreFormatError                       permanent   not a tickwheel store, or a newer one
"""

from __future__ import annotations

from tickwheel.errors import TickwheelError

__all__ = [
    "GenerationMismatchError",
    "HandlerNotFoundError",
    "InvalidJobError",
    "JobNotFoundError",
    "RecurrenceError",
    "StoreError",
    "StoreFormatError",
    "StoreInUseError",
]

_SHOWN_MAX = 100
"""How many characters of a refused value an error shows."""


class JobNotFoundError(TickwheelError, LookupError):
    """
    No job has that key.
    """

    def __init__(self, key: str) -> None:
        """
        Name the *key*.
        """
        self.key = key
        super().__init__(f"no job has the key {key!r}: it was never set, has run, or was cancelled")


class InvalidJobError(TickwheelError, ValueError):
    """
    A value that no job can have; nothing was stored.
    """

    def __init__(self, name: str, value: object, remedy: str) -> None:
        """
        Name the field, its *value* (shortened), and the *remedy*.
        """
        self.name = name
        self.value = value
        text = repr(value)
        shown = text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."
        super().__init__(f"{name} is {shown}: {remedy}")


class RecurrenceError(InvalidJobError):
    """
    A recurrence that cannot be read, or that never fires.
    """


class HandlerNotFoundError(TickwheelError, LookupError):
    """
    A job names a handler that this scheduler does not have.
    """

    def __init__(self, handler: str) -> None:
        """
        Name the *handler*.
        """
        self.handler = handler
        super().__init__(f"no handler is named {handler!r}: register it with @scheduler.handler({handler!r})")


class GenerationMismatchError(TickwheelError, RuntimeError):
    """
    The job has changed since the caller read it; nothing was written.
    """

    def __init__(self, key: str, wanted: int, found: int | None) -> None:
        """
        Name the job and both generations.
        """
        self.key, self.wanted, self.found = key, wanted, found
        super().__init__(f"job {key!r} has generation {found!r}, not {wanted}: read it again and decide anew")


class StoreError(TickwheelError, OSError):
    """
    The store did not answer.
    """

    def __init__(self, what: str, remedy: str, *, is_transient: bool = False, is_unknown: bool = False) -> None:
        """
        Say *what* happened and the *remedy*; *is_unknown* where a write may or may not have taken effect.
        """
        self.is_transient = is_transient
        self.is_unknown = is_unknown
        super().__init__()
        self.args = (f"{what}: {remedy}",)  # OSError takes its arguments in __new__, which ours does not pass on


class StoreInUseError(StoreError):
    """
    Another process owns the store.
    """


class StoreFormatError(StoreError):
    """
    The file or database is no store of ours, or one of a newer version.
    """
