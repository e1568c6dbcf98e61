"""
Writes jobs within a caller's transaction on the same file.

SQLite allows one writer. All other writers, including the scheduler, wait until the caller's transaction ends.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from tickwheel.jobs.errors import TransactionError
from tickwheel.stores.sqlite._open_file import inode_of
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.threads import Event, Thread

__all__ = ["Follower", "Joined", "joining"]

_FIRST_S: Final = 0.001
_LAST_S: Final = 0.02
"""Maximum interval between polls for the end of a transaction. Most end soon, so the first polls are more frequent."""
_FOLLOWED_S: Final = 60.0
"""Time after which a caller's transaction is no longer polled. The owner then finds the jobs in its own scans."""


class Joined:
    """
    Runs statements in a caller's transaction. The row factory of the caller's connection does not apply.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return sqlite3.Cursor(self._connection).execute(sql, values)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> sqlite3.Cursor:
        return sqlite3.Cursor(self._connection).executemany(sql, rows)


@contextmanager
def joining(connection: object, inode: tuple[int, int] | None) -> Iterator[Joined]:
    """
    Yield a joined connection within the transaction of *connection*; an exception undoes the writes of the block.

    A missing transaction is begun if a write on *connection* would also begin one. The database file must have *inode*.
    """
    if not isinstance(connection, sqlite3.Connection):
        what = f"is a {type(connection).__module__}.{type(connection).__qualname__}"
        raise TransactionError(what, "pass a sqlite3.Connection to the file of the jobs")
    joined = Joined(connection)
    text_factory, connection.text_factory = connection.text_factory, str
    begins = False
    try:
        try:
            _check_file(joined, inode)
            begins = not connection.in_transaction
            _enter(connection, joined)
        except sqlite3.ProgrammingError as error:
            what = f"cannot be used ({error})"
            raise TransactionError(what, "pass one that is open, in the thread that it was made in") from error
        with _undone_on_error(joined):
            yield joined
    except BaseException:
        if begins and connection.in_transaction:
            with suppress(sqlite3.Error):  # for example, an authorizer refuses; the first error is raised
                joined.execute("ROLLBACK")
        raise
    finally:
        connection.text_factory = text_factory


@contextmanager
def _undone_on_error(joined: Joined) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # for example, the disk is full: SQLite has rolled back already
            joined.execute("ROLLBACK TO SAVEPOINT tickwheel")
            joined.execute("RELEASE SAVEPOINT tickwheel")
        raise
    joined.execute("RELEASE SAVEPOINT tickwheel")


def _enter(connection: sqlite3.Connection, joined: Joined) -> None:
    if joined.execute("PRAGMA query_only").fetchone()[0]:
        raise TransactionError("only reads", "pass one that may write")
    if not connection.in_transaction:
        if getattr(connection, "autocommit", None) is True or connection.isolation_level is None:
            raise TransactionError("commits each statement at once", "begin a transaction: conn.execute('BEGIN')")
        joined.execute("BEGIN IMMEDIATE")
    joined.execute("SAVEPOINT tickwheel")
    try:
        joined.execute(SQL["lock_ledger"])  # makes a read transaction the writer, or fails
    except sqlite3.OperationalError as error:
        joined.execute("RELEASE SAVEPOINT tickwheel")
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
            raise TransactionError("only reads", "pass one that may write") from error
        raise


def _check_file(joined: Joined, inode: tuple[int, int] | None) -> None:
    files = {os.fsdecode(name): os.fsdecode(file) for _, name, file in joined.execute("PRAGMA database_list")}
    if inode_of(files["main"]) == inode:
        return
    attached = [name for name, file in files.items() if inode_of(file) == inode]
    if attached:
        what = f"has the file of the jobs attached as {attached[0]!r}"
        raise TransactionError(what, "connect to it instead: a commit over two files is not one commit")
    what = f"is connected to {files['main'] or 'a database in memory'!r}"
    raise TransactionError(what, "pass one to the file of the jobs, or leave conn out")


class Follower:
    """
    A thread that polls for the end of callers' transactions, which SQLite does not announce, and notifies the owner.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], notify: Callable[[], object]) -> None:
        self._connect, self._notify = connect, notify
        self._wanted = Event()
        self._until = 0.0
        self._generation = 0
        self._is_closing = False
        self._thread = Thread(target=self._run, name="tickwheel-follower", daemon=True)
        self._thread.start()

    def follow(self, generation: int) -> None:
        self._generation = max(self._generation, generation)
        self._until = time.monotonic() + _FOLLOWED_S
        self._wanted.set()

    def close(self) -> None:
        self._is_closing = True
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while not self._is_closing:
            self._wanted.wait()
            self._wanted.clear()
            with suppress(Exception):  # a hint may be lost; the owner polls from time to time
                connection = connection or self._connect()
                self._watch(connection)
        if connection is not None:
            connection.close()

    def _watch(self, connection: sqlite3.Connection) -> None:
        pause_s, seen = _FIRST_S, -1
        while not self._is_closing and time.monotonic() < self._until:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version != seen:
                seen = version
                self._notify()
                if connection.execute(SQL["read_ledger"]).fetchone()[0] >= self._generation:
                    break
            if self._wanted.wait(pause_s):
                self._wanted.clear()
                pause_s = _FIRST_S
            else:
                pause_s = min(pause_s * 1.5, _LAST_S)
        self._generation = 0
