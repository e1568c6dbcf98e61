"""
What PostgreSQL says, in words that help.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwheel.scheduler.errors import StoreError, StoreFormatError

__all__ = ["told"]


class _Words(NamedTuple):
    what: str
    remedy: str
    is_transient: bool = False


_CLASSES: Final = {
    "08": _Words("the connection failed", "see that the server runs and can be reached", is_transient=True),
    "22": _Words("a value cannot be stored", "pass text without NUL and surrogates and integers in int64"),
    "25": _Words("the server takes no writes", "connect to the primary", is_transient=True),
    "28": _Words("the server refuses this user", "see to the user's name, password and rights"),
    "3D": _Words("there is no such database", "create it, or name another"),
    "40": _Words("another transaction was in the way", "try again", is_transient=True),
    "42": _Words("the statement was refused", "give this user the right to create and write the tickwheel tables"),
    "53": _Words("the server has no room left", "free disk space, memory or connections there", is_transient=True),
    "55": _Words("a lock was not to be had in time", "try again, and keep other transactions short", is_transient=True),
    "57": _Words("the server ended the call", "try again", is_transient=True),
    "58": _Words("the server's disk failed", "look into the server's log"),
    "XX": _Words("the server found its data damaged", "look into the server's log; restore a backup"),
}
"""By the first two characters of SQLSTATE."""


def told(error: Exception, url: str, *, is_connected: bool, is_committing: bool = False) -> StoreError:
    """
    Return the `StoreError` for *error*, which names *url*.

    Args:
        error: What was raised.
        url: With the password masked.
        is_connected: Whether the connection still stands; a lost one is transient.
        is_committing: Whether the commit was under way: with the connection lost, its end is not known.
    """
    state: str | None = getattr(error, "sqlstate", None)
    text = str(error).partition("\n")[0]
    if not is_connected:
        words = _CLASSES.get((state or "08")[:2], _CLASSES["08"])
        words = words if state and words.is_transient else _CLASSES["08"]
        return StoreError(f"{url}: {words.what} ({text})", words.remedy, is_transient=True, is_unknown=is_committing)
    if isinstance(error, UnicodeError | OverflowError) or state is None:
        return StoreError(f"{url}: {_CLASSES['22'].what} ({text})", _CLASSES["22"].remedy)
    words = _CLASSES.get(state[:2], _Words("PostgreSQL failed", "look into the server's log"))
    kind = StoreFormatError if state.startswith("XX") else StoreError
    return kind(f"{url}: {words.what} ({text})", words.remedy, is_transient=words.is_transient)
