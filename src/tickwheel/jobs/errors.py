"""
The durable scheduler's errors, each with a further base class, its kind (permanent or transient) and the remedy.

    TickwheelError
      InvalidValueError         ValueError     permanent   correct the value in the message
        InvalidJobError                        permanent   correct the value in the message
          InvalidRecurrenceError  RecurrenceError          permanent   correct the cron line, the zone or the interval
          MisfitError                          permanent   correct the payload, or the parameters of its task
        RecurrenceError                        permanent   raised by the calendar; jobs raise InvalidRecurrenceError
      HandlerNotFoundError      LookupError    permanent   register the handler; its jobs wait for it
      HandlerFailedError        RuntimeError   transient   a handler in its own process raised, or the process ended
      DeliveryError             OSError        transient   the receiver did not confirm: the job is retried
      JobStoppedError           RuntimeError   permanent   stop: the job was cancelled while it ran
      LeaseEndedError           RuntimeError   permanent   drop the work: another worker gets it, or has done it
      TooManyWaitingError       RuntimeError   transient   let fewer workers wait, each for more firings
      UnsupportedError          RuntimeError   permanent   use a scheduler that supports it; the message names one
      TransactionError          RuntimeError   permanent   pass a connection whose transaction can be joined
      AccessError               OSError        permanent   pass a token that the service knows
      StoreError                OSError        transient or permanent: see `is_transient`
        StoreInUseError                        transient   another process owns the store: stop it, or use another file
        StoreFullError                         transient   free some space: new jobs are refused, cancelling works
        StoreFormatError                       permanent   not a tickwheel store, or of a newer version
"""

from __future__ import annotations

from typing import Final

from tickwheel.errors import InvalidValueError, RecurrenceError, TickwheelError

__all__ = [
    "AccessError",
    "DeliveryError",
    "HandlerFailedError",
    "HandlerNotFoundError",
    "InvalidJobError",
    "InvalidRecurrenceError",
    "InvalidValueError",
    "JobStoppedError",
    "LeaseEndedError",
    "MisfitError",
    "RecurrenceError",
    "StoreError",
    "StoreFormatError",
    "StoreFullError",
    "StoreInUseError",
    "TooManyWaitingError",
    "TransactionError",
    "UnsupportedError",
]

ERROR_CHARS_MAX: Final = 2_000
"""Maximum number of characters of the error text that a job stores."""
_SILENT: Final = "its str() raised {}"


class InvalidJobError(InvalidValueError):
    """
    A value is invalid for a job. Nothing was stored.
    """


class InvalidRecurrenceError(InvalidJobError, RecurrenceError):
    """
    A recurrence cannot be parsed, or never fires.
    """


class MisfitError(InvalidJobError):
    """
    A payload does not fit the parameters of a task.
    """


class HandlerFailedError(TickwheelError, RuntimeError):
    """
    A handler in its own process raised, or the process ended.
    """

    is_transient = True

    def __init__(
        self, what: str, *, is_whole: bool, remote_traceback: str | None = None, remote_place: str | None = None
    ) -> None:
        self.is_whole = is_whole
        self.remote_traceback = remote_traceback
        self.remote_place = remote_place
        super().__init__(what)


class HandlerNotFoundError(TickwheelError, LookupError):
    """
    A job refers to a handler that this scheduler does not have.
    """

    def __init__(self, handler: str) -> None:
        self.handler = handler
        super().__init__(f"no handler is named {handler!r}: register it with @scheduler.handler({handler!r})")


class JobStoppedError(TickwheelError, RuntimeError):
    """
    The handler must stop, because the job was cancelled, or its next run is due (`overlap="cancel"`).
    """

    def __init__(self, fire_id: str) -> None:
        self.fire_id = fire_id
        super().__init__(f"{fire_id} was asked to stop while it ran: let this error end the handler")


class DeliveryError(TickwheelError, OSError):
    """
    A broker or queue did not confirm a message, but may have received it.
    """

    is_transient = True

    def __init__(self, where: str, what: str) -> None:
        super().__init__()
        self.args = (f"{where} did not confirm: {what}",)  # OSError takes its arguments in __new__


class LeaseEndedError(TickwheelError, RuntimeError):
    """
    A worker answered too late, after the lease of its firing had ended.
    """

    def __init__(self, fire_id: str, what: str | None) -> None:
        self.fire_id, self.what = fire_id, what
        became = what or "it was never leased here, or the process that leased it has ended, and then it is fired again"
        super().__init__(f"there is no lease of {fire_id!r}: {became}" if fire_id else f"nothing is leased: {became}")


class TooManyWaitingError(TickwheelError, RuntimeError):
    """
    Too many workers are already waiting for firings.
    """

    is_transient = True

    def __init__(self, waiting_max: int) -> None:
        self.waiting_max = waiting_max
        super().__init__(f"{waiting_max} workers wait already: let fewer workers wait, for more firings each")


class TransactionError(TickwheelError, RuntimeError):
    """
    The connection passed as `conn=` has no transaction to join. Nothing was written.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"conn {what}: {remedy}")


class UnsupportedError(TickwheelError, RuntimeError):
    """
    This kind of scheduler does not support the operation.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.what = what
        super().__init__(f"{what}: {remedy}")


class AccessError(TickwheelError, OSError):
    """
    A service refused the caller.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__()
        remedy = "pass token=, or set TICKWHEEL_TOKEN, to one of its tokens that may do this"
        self.args = (f"{where} refused this ({what}): {remedy}",)  # OSError takes its arguments in __new__


class StoreError(TickwheelError, OSError):
    """
    The store failed or did not answer.
    """

    def __init__(self, what: str, remedy: str, *, is_transient: bool = False, is_unknown: bool = False) -> None:
        self.is_transient = is_transient
        self.is_unknown = is_unknown
        super().__init__()
        self.args = (f"{what}: {remedy}",)  # OSError takes its arguments in __new__, which ours does not pass on


class StoreInUseError(StoreError):
    """
    Another process owns the store.
    """


class StoreFullError(StoreError):
    """
    The store has no room for new jobs. Existing jobs can still be cancelled, started and finished.
    """


class StoreFormatError(StoreError):
    """
    The file or database is not a readable store of tickwheel, or needs a newer version.
    """


def error_text(error: BaseException) -> str:
    """
    Return the text to store for *error*: its message, and its type if it is not an error of tickwheel.

    If a method of *error* raises an exception here, the exception is suppressed.
    """
    kind = type(error)
    name = kept_text(kind.__name__)
    try:
        message = kept_text(str(error))
    except BaseException as fault:  # noqa: BLE001  a bad text must not decide how the job ends
        message = _SILENT.format(type(fault).__name__)
    if issubclass(kind, TickwheelError):
        return message
    return kept_text(f"{name}: {message}") if message else name


def kept_text(text: object, chars_max: int = ERROR_CHARS_MAX) -> str:
    r"""
    Return *text* as a plain string that any store accepts: truncated, NUL as `\x00`, lone surrogates as `\udc80`.

    If *text* is not a string, `str` converts it: the reason of a `DeadLetter` may be any object.
    """
    if not issubclass(type(text), str):
        try:
            text = str(text)
        except BaseException as fault:  # noqa: BLE001  any text may be kept, also one that raises
            return _SILENT.format(type(fault).__name__)
    cut = str.__getitem__(text, slice(chars_max))  # type: ignore[index]  # may be an instance of a subclass of str
    if cut.isascii() and "\0" not in cut:
        return cut
    return cut.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")[:chars_max]


def ascii_text(text: str | None) -> str | None:
    return text and text.encode("ascii", "backslashreplace").decode("ascii")[:ERROR_CHARS_MAX]
