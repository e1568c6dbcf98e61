"""
Connections to a file: one writer, and one reader for each concurrent read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tickwheel.jobs.errors import StoreError, StoreFormatError
from tickwheel.stores._lifetime import Lifetime
from tickwheel.stores.sqlite._errors import store_error
from tickwheel.stores.sqlite._log_space import LogSpace
from tickwheel.stores.sqlite._open_file import OpenFile
from tickwheel.threads import Lock, RLock

__all__ = ["Connections", "real_path"]

_WRITER_CACHE_KIB: Final = 65_536
_READER_CACHE_KIB: Final = 8_192
_CHECKPOINT_PAGES: Final = 4_000
"""Size of the log, in pages (16 MB), at which a commit runs a checkpoint if no thread does it."""
_PRIMARY: Final = 0xFF
"""Mask of the primary code in an extended error code of SQLite."""
# SQLite's own waits, up to 100 ms, miss a writer's short pauses
_POLL_S: Final = 0.001
"""Seconds between attempts to get the write lock."""


class Connections:
    def __init__(self, path: Path, url: str, *, synchronous: str, busy_s: float) -> None:
        """
        Open the writing connection in WAL mode, and create a missing file. A write-protected file is opened read-only.
        """
        self._path, self._url, self._busy_s = path, url, busy_s
        _check_path(path, url)
        self._idle: list[sqlite3.Connection] = []
        self._lock = Lock()
        self.lifetime = Lifetime(url)
        self.write_lock = RLock()
        self._reading_only = _reading_only(path, url)
        self._is_made = False
        self.writer = self.connect(_WRITER_CACHE_KIB)
        self._is_made = True
        try:
            self._check_encoding(self.writer.execute("PRAGMA encoding").fetchone()[0])
            if self._reading_only:
                self.file = OpenFile(path, url)
                return
            self._check_log(self._execute("PRAGMA journal_mode = WAL").fetchone()[0])
            self.writer.execute(f"PRAGMA synchronous = {synchronous}")
            # By default some builds overwrite deleted data, which costs extra page writes.
            self.writer.execute("PRAGMA secure_delete = FAST")
            self.limit_log(_CHECKPOINT_PAGES)
            self.writer.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # this opens the log
            self.file = OpenFile(path, url)
            self._log_space = LogSpace(self.file.log_name, self.file.log_inode)
        except BaseException:
            self.writer.close()
            raise

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with self.write_lock:
            connection = self.checked_writer()
            try:
                self.begin()
                yield connection
                self.commit()
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def poll_often(self) -> None:
        """
        From now on, poll for the write lock in `begin`. Before this call, each statement waits for the lock.
        """
        self.writer.execute("PRAGMA busy_timeout = 0")

    def begin(self) -> None:
        """
        Begin a write transaction as soon as no other process is writing.
        """
        self._execute("BEGIN IMMEDIATE")

    def extend_log(self) -> None:
        """
        Keep room for the next commits in the log's file. Call this within a write transaction.
        """
        if self.file.log_size != self._log_space.size:
            self._log_space.extend()

    def _execute(self, statement: str) -> sqlite3.Cursor:
        """
        Execute *statement* as soon as its lock is free. Poll for the lock, because SQLite does not always wait for it.
        """
        give_up = None
        while True:
            try:
                return self.writer.execute(statement)
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                give_up = now + self._busy_s if give_up is None else give_up
                if error.sqlite_errorcode & _PRIMARY != sqlite3.SQLITE_BUSY or now >= give_up:
                    raise
            time.sleep(_POLL_S)  # a lock of SQLite gives no signal

    def checked_writer(self) -> sqlite3.Connection:
        """
        Return the writing connection if it may begin a transaction. The caller must hold `write_lock`.
        """
        self.lifetime.check()
        if self._reading_only:
            self.check_writable()
        self.file.check()
        return self.writer

    def commit(self) -> None:
        try:
            self.writer.execute("COMMIT")
        except sqlite3.Error as error:
            raise store_error(error, self._url, is_committing=True) from error

    def reading(self) -> _Reading:
        return _Reading(self)

    def lend(self) -> sqlite3.Connection:
        self.file.look()
        with self._lock:
            self.lifetime.check()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self.connect()
            connection.execute("PRAGMA query_only = ON")
        return connection

    def take_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self.lifetime.is_closed:
                connection.close()
            else:
                self._idle.append(connection)

    def limit_log(self, pages: int = _CHECKPOINT_PAGES) -> None:
        with self.write_lock:
            self.writer.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def restart_log(self) -> None:
        with self.write_lock, suppress(sqlite3.Error):
            self.writer.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_s)}")
            try:
                self.writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            finally:
                self.poll_often()

    def connect(self, cache_kib: int = _READER_CACHE_KIB) -> sqlite3.Connection:
        # Only the first connection creates the file. Suppose that the file was moved away a moment ago: a later
        # connection would create an empty one, and SQLite would delete the log of the moved file.
        mode = self._reading_only or ("mode=rw" if self._is_made else "mode=rwc")
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?{mode}",
            timeout=self._busy_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
            uri=True,
        )
        try:
            connection.execute(f"PRAGMA cache_size = -{cache_kib}")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection

    def check_writable(self) -> None:
        if self._reading_only:
            what = f"{self._url} is read-only: the file, its folder or the disk it is on"
            raise StoreError(what, "give this user the right to write; until then it can be read")

    def joinable(self) -> tuple[int, int] | None:
        self.lifetime.check()  # raises in the child of a fork, which cannot announce writes
        self.file.check()
        return self.file.inode

    def close(self) -> None:
        with self.write_lock, self._lock:
            if self.lifetime.is_closed:
                return
            self.lifetime.is_closed = True
            for connection in (*self._idle, self.writer):
                connection.close()
            self._idle.clear()

    def _check_encoding(self, encoding: str) -> None:
        if encoding != "UTF-8":
            what = f"{self._url} is in {encoding}, in which a prefix does not find its keys"
            raise StoreFormatError(
                what, "name another file, or make it again in UTF-8: sqlite3 OLD .dump | sqlite3 NEW"
            )

    def _check_log(self, mode: str) -> None:
        if mode != "wal":
            what = f"{self._url} cannot be opened with a write-ahead log, but as {mode!r}"
            raise StoreError(what, "put the file on a local disk")


class _Reading:
    # a generator would cost as much as a short query
    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> sqlite3.Connection:
        self._connection = self._connections.lend()
        return self._connection

    def __exit__(self, *_error: object) -> None:
        self._connections.take_back(self._connection)


def _reading_only(path: Path, url: str) -> str:
    if not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return ""
    if not (hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY):
        return "mode=ro"  # other processes may write it
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        what = f"{url} is on a disk that is mounted read-only, and {log.name} holds what is not in it yet"
        raise StoreError(what, "copy both to a folder that can be written")
    return "mode=ro&immutable=1"  # no process writes it, so it has no log


def real_path(path: str | os.PathLike[str], url: str) -> Path:
    try:
        found = Path(path).resolve()
        with suppress(FileNotFoundError, NotADirectoryError):  # the file may not exist yet
            found.stat()
    except (OSError, RuntimeError) as error:
        what = f"{url} cannot be reached ({getattr(error, 'strerror', None) or error})"
        raise StoreError(what, "name a file in a folder that this user may enter") from error
    return found


def _check_path(path: Path, url: str) -> None:
    if path.is_dir():
        what = f"{url} is a directory"
        raise StoreError(what, "name a file in it")
    if not path.parent.is_dir():
        what = f"{url} is in {str(path.parent)!r}, which is not a directory"
        raise StoreError(what, "make the directory first")
    if path.exists() and (names := path.stat().st_nlink) > 1:
        what = f"{url} has {names} names (hard links), and SQLite keeps a log for each name"
        raise StoreError(what, "leave it one; a symbolic link may be another")
