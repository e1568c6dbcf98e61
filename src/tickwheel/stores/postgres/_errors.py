"""
Messages for PostgreSQL's errors, selected by SQLSTATE if there is one, but never by the text of an error.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tickwheel.jobs.errors import StoreError, StoreFormatError

__all__ = ["state_of_refusal", "store_error"]


class _Words(NamedTuple):
    what: str
    remedy: str
    is_transient: bool = False
    kind: type[StoreError] = StoreError


_LOST: Final = _Words("the connection failed", "see that the server runs and can be reached", is_transient=True)
_ENDED: Final = _Words("the server ended the call", "try again", is_transient=True)
_VALUE: Final = _Words("a value cannot be stored", "pass text without NUL and surrogates and integers in int64")
_READING: Final = _Words(
    "the server takes no writes", "connect to the primary, or set default_transaction_read_only off", is_transient=True
)
_USER: Final = _Words("the server refuses this user", "check the user's name, password and rights")
_DATABASE: Final = _Words("there is no such database", "create it, or name another")
_BUSY: Final = _Words("another transaction was in the way", "try again", is_transient=True)
_RIGHTS: Final = _Words(
    "the statement was refused", "give this user the right to create and write the tickwheel tables"
)
_ROOM: Final = _Words("the server has no room left", "free disk space, memory or connections there", is_transient=True)
_LOCK: Final = _Words(
    "a lock was not to be had in time", "try again, and keep other transactions short", is_transient=True
)
_DISK: Final = _Words("the server's disk failed", "look into the server's log")
_DAMAGE: Final = _Words(
    "the server found its data damaged", "look into the server's log; restore a backup", kind=StoreFormatError
)
_POOLER: Final = _Words("a pooler is in between", "add pooler=transaction to the URL, or connect to the server itself")
_THEIRS: Final = _Words("a trigger or function of the tables failed", "remove what was added to the tickwheel tables")
_FAILED: Final = _Words("PostgreSQL failed", "look into the server's log")

_CLASSES: Final = {
    prefix: words
    for prefixes, words in (
        ("08", _LOST),
        ("10 22 54", _VALUE),
        ("09 23 27 2F 38 39 44 HV P0", _THEIRS),
        ("25 40 72", _BUSY),
        ("26 34", _POOLER),
        ("0P 28", _USER),
        ("0L 2B 3F 42", _RIGHTS),
        ("3D", _DATABASE),
        ("53", _ROOM),
        ("55", _LOCK),
        ("57", _ENDED),
        ("58", _DISK),
        ("00 01 02 03 0A 0B 0F 0Z 20 21 24 2D 3B F0 XX", _FAILED),
    )
    for prefix in prefixes.split()
}
"""Messages by the first two characters of SQLSTATE, for all classes of the manual's appendix A."""

_STATES: Final = {
    "25006": _READING,
    "3F000": _Words("there is no such schema", "create the one that search_path names, or name another there"),
    "42P01": _Words(
        "a table of the store is missing",
        "let search_path lead to the tables; those that were dropped are made again, without jobs, by the next process "
        "that opens the store",
    ),
    "57P03": _Words("the server is starting up or shutting down", "try again", is_transient=True),
    "57P04": _DATABASE,
    "F0000": _Words("the driver refuses an option", "mend the option of the URL, or the file that it names"),
    "XX001": _DAMAGE,
    "XX002": _DAMAGE,
}
"""Messages for single SQLSTATEs, where the message of the whole class would be wrong."""

_REFUSALS: Final = (
    (re.compile(r'database "[^"]*" does not exist'), "3D000"),
    (re.compile(r'role "[^"]*" does not exist'), "28000"),
    (re.compile(r'role "[^"]*" is not permitted to log in'), "28000"),
    (re.compile(r'permission denied for database "[^"]*"'), "42501"),
    (re.compile(r"(password|[A-Z]\w+) authentication failed for user"), "28P01"),
    (re.compile(r".*fe_sendauth: no password supplied"), "28P01"),
    (re.compile(r"unsupported startup parameter"), "26000"),
    (re.compile(r'.*definition of service "[^"]*" not found'), "F0000"),
    (re.compile(r'.*invalid \w+ value: "'), "F0000"),
    (re.compile(r"(no pg_hba\.conf entry|pg_hba\.conf rejects connection) for"), "28000"),
)
"""
Patterns of a server's refusals of a connection, each with its SQLSTATE, which the driver does not pass on.

Only stable messages are listed. Other refusals are transient: the server starts, stops, or has no free connection.
"""


def state_of_refusal(text: str) -> str | None:
    message = text.rpartition("FATAL:")[2].strip()
    for pattern, state in _REFUSALS:
        if pattern.match(message):
            return state
    return None


def store_error(error: Exception, url: str, *, is_connected: bool, is_committing: bool = False) -> StoreError:
    """
    Return the `StoreError` for *error*, with *url* in its message.

    A lost connection (*is_connected* is False) is transient, unless the server has stated the reason. The outcome is
    unknown if *is_committing* is True.
    """
    state: str | None = getattr(error, "sqlstate", None)
    text = str(error).partition("\n")[0]
    words = _VALUE if is_connected else _LOST
    if state:
        words = _STATES.get(state) or _CLASSES.get(state[:2], _FAILED)
    is_unknown = is_committing and (not is_connected or state == "40003")
    return words.kind(
        f"{url}: {words.what} ({text})",
        words.remedy,
        is_transient=words.is_transient or is_unknown,
        is_unknown=is_unknown,
    )
