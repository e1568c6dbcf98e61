"""
Judges exceptions of queue libraries by the names of their classes, so that no library needs to be installed.

    kind of class name                                      verdict
    out of memory, rejected                                 full: the job waits
    read-only, loading, no leader                           down: the job waits
    wrong password, access refused                          refused: a failed attempt
    connection, timeout, any system error                   unreachable: the job waits
    a type or value that the library does not take          the call is wrong: a dead letter
    an import that fails                                    this node lacks a library: the job waits
    any other error                                         refused: a failed attempt
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tickwheel.targets._destination import Destination
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets.contract import DeadLetter

__all__ = ["NO_MEMORY", "judge_broker"]

_FULL: Final = frozenset({"OutOfMemoryError", "MessageNacked", "NackError"})
_DOWN: Final = frozenset(
    {"ReadOnlyError", "ClusterDownError", "TryAgainError", "BusyLoadingError", "MasterDownError", "ResourceError"}
)
_REFUSED: Final = frozenset(
    {
        "AccessRefused",
        "AuthenticationError",
        "AuthorizationError",
        "NoPermissionError",
        "NotAllowed",
        "ProbableAccessDeniedError",
        "ProbableAuthenticationError",
    }
)
_UNREACHABLE: Final = frozenset(
    {
        "AMQPConnectionError",
        "BrokerConnectionError",
        "ConnectionError",
        "ConnectionForced",
        "ConnectionClosedError",
        "MaxConnectionsError",
        "NoServersError",
        "OSError",
        "RecoverableConnectionError",
        "RecoverableChannelError",
        "TimeoutError",
    }
)
_WRONG: Final = frozenset(
    {
        "ArithmeticError",
        "DataError",
        "LookupError",
        "SerializationError",
        "SerializerNotInstalled",
        "TimeoutFormatError",
        "TypeError",
        "ValueError",
    }
)
_WRAPPER: Final = "OperationalError"
"""Kombu's error for any failure of its transport. If it wraps no error of the transport, the broker is unreachable."""
NO_MEMORY: Final = "OOM command not allowed"
"""Text in the error of a Redis that is out of memory."""
_NO_LIBRARY: Final = "Please install"
"""Text in kombu's error for a serializer that it supports, but whose library is not installed."""
_BUSY: Final = ("BUSY", "MISCONF", "NOREPLICAS", "LOADING")


def judge_broker(error: Exception, destination: Destination) -> DeadLetter | Exception:
    names, text, is_wrapper = set(), "", False
    for each in _chain(error):
        names |= {kind.__name__ for kind in type(each).__mro__}
        is_wrapper = type(each).__name__ == _WRAPPER
        text = str(each) or text  # the innermost error is the most precise
    reason = destination.masked(text or type(error).__name__)
    is_cut = is_wrapper or not names.isdisjoint(_UNREACHABLE)
    verdict: DeadLetter | Exception = destination.failed(reason)
    if "ImportError" in names or ("SerializerNotInstalled" in names and _NO_LIBRARY in text):
        verdict = NotTakenError(f"a library of the queue is missing here: {reason}")
    elif names & _FULL or NO_MEMORY in text:
        verdict = NotTakenError(f"it is full: {reason}", is_full=True)
    elif names & _DOWN or text.startswith(_BUSY) or (is_cut and not names & _REFUSED):
        verdict = NotTakenError(reason, is_up=False)
    elif names & _WRONG and not names & _REFUSED:
        verdict = DeadLetter(f"{destination.shown} cannot take the call: {type(error).__name__}: {reason}")
    return verdict


def _chain(error: BaseException) -> Iterator[BaseException]:
    # libraries wrap the errors of their drivers
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        wrapped = next((each for each in current.args if isinstance(each, BaseException)), None)
        wrapped = wrapped or getattr(current, "message", None)
        current = current.__cause__ or (wrapped if isinstance(wrapped, BaseException) else None)
