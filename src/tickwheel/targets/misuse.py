"""
Values that handlers return by mistake.
"""

from __future__ import annotations

from typing import Final

from tickwheel.targets.contract import DeadLetter, Retry, Snooze

__all__ = ["misuse_of"]

_SENTINELS: Final = ((Retry, "Retry()"), (Snooze, "Snooze(30)"), (DeadLetter, "DeadLetter('no')"))


def misuse_of(result: object) -> str | None:
    """
    Return the error message for a *result* that a handler returned by mistake, or None for other results.
    """
    kind = type(result)  # isinstance() also reads `__class__`, which an object may define, and which may raise
    if issubclass(kind, BaseException):
        return f"the handler returned a {kind.__name__}: raise it"
    if not issubclass(kind, type):
        return None
    named: type = result  # type: ignore[assignment]  # *result* is a class
    for sentinel, example in _SENTINELS:
        if named is sentinel:
            return f"the handler returned the class {sentinel.__name__}: return one made of it, as in {example}"
    if issubclass(named, BaseException):
        return f"the handler returned the class {named.__name__}: raise it"
    return None
