from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from tickwheel.jobs.errors import StoreError, StoreFormatError, StoreFullError

__all__ = ["ERRORS", "store_error", "translated"]

ERRORS: Final = (sqlite3.Error, UnicodeError, OverflowError)


class _Words(NamedTuple):
    what: str
    remedy: str
    is_transient: bool = False


_PRIMARY: Final = 0xFF
"""Mask of the primary code in an extended error code of SQLite."""

_WORDS: Final = {
    sqlite3.SQLITE_BUSY: _Words(
        "another connection has been writing for too long",
        "try again, and keep other transactions short; before one of yours that jobs are to join, open a new scheduler "
        "by 'with' or 'start'",
        is_transient=True,
    ),
    sqlite3.SQLITE_BUSY_SNAPSHOT: _Words(
        "the transaction has read what another connection has changed since, and cannot write any more",
        "roll it back and try again; begin one that will write with BEGIN IMMEDIATE",
        is_transient=True,
    ),
    sqlite3.SQLITE_LOCKED: _Words("another connection holds a lock", "try again", is_transient=True),
    sqlite3.SQLITE_FULL: _Words("the disk is full", "free some space; nothing was written", is_transient=True),
    sqlite3.SQLITE_READONLY: _Words(
        "the file, its folder, or its -wal or -shm beside it is read-only",
        "give this user the right to write all of them; another user who looked at the file may have made the two",
    ),
    sqlite3.SQLITE_PERM: _Words("access is denied", "give this user the right to read and write the file"),
    sqlite3.SQLITE_AUTH: _Words("access is denied", "give this user the right to read and write the file"),
    sqlite3.SQLITE_CANTOPEN: _Words(
        "the file cannot be opened",
        "see that it was not moved, that its folder exists, and that this user may write the file and its folder",
    ),
    sqlite3.SQLITE_PROTOCOL: _Words(
        "the file system does not lock", "put the file on a local disk; network file systems cannot hold it"
    ),
    sqlite3.SQLITE_IOERR: _Words(
        "the disk failed", "look into the system's log; put the file on a local disk that works"
    ),
    sqlite3.SQLITE_NOMEM: _Words("there is no memory left", "try again with more", is_transient=True),
    sqlite3.SQLITE_TOOBIG: _Words("a value is larger than SQLite takes", "make it smaller"),
}
_FORMAT: Final = {
    sqlite3.SQLITE_NOTADB: _Words("is not a database", "name another file; this one was left as it is"),
    sqlite3.SQLITE_CORRUPT: _Words(
        "is damaged", "restore a backup, or save what can be read with `sqlite3 FILE .recover` into a new file"
    ),
}


class translated:  # noqa: N801 - used as a verb
    """
    A context that raises a `StoreError` for each error of SQLite. A class, because a generator would slow each commit.
    """

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and isinstance(error, ERRORS):
            raise store_error(error, self._url) from error


def store_error(error: Exception, url: str, *, is_committing: bool = False) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the log's index when a file is opened
        code = sqlite3.SQLITE_FULL
    family = None if code is None else code & _PRIMARY
    if code is None and isinstance(error, sqlite3.OperationalError | UnicodeDecodeError):  # text that is not UTF-8
        family = sqlite3.SQLITE_CORRUPT
    if family in _FORMAT:
        damage = _FORMAT[family]
        return StoreFormatError(f"{url} {damage.what}", damage.remedy)
    words = None if code is None else _WORDS.get(code) or _WORDS.get(code & _PRIMARY)
    if words is not None:
        what = f"{url}: {words.what} ({error})"
        if family == sqlite3.SQLITE_FULL:
            return StoreFullError(what, words.remedy, is_transient=True)
        is_unknown = is_committing and family == sqlite3.SQLITE_IOERR
        return StoreError(what, words.remedy, is_transient=words.is_transient, is_unknown=is_unknown)
    if code is None:
        return StoreError(
            f"{url}: a value cannot be stored ({error})", "pass text without surrogates and integers in int64"
        )
    return StoreError(f"{url}: SQLite failed ({error})", "see whether anything else writes to the tickwheel tables")
