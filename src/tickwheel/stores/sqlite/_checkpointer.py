"""
Copies the write-ahead log into the database in the background, so that commits do not wait for it.

A checkpoint of thousands of scattered pages takes tenths of a second, and SQLite would run it inside a commit. Here a
thread with its own connection runs it beside the commits. If the thread cannot catch up under load, and the log grows
to 64 MB, a commit finishes the checkpoint itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.threads import Event, Thread

__all__ = ["COMMIT_LIMIT_PAGES", "Checkpointer"]

COMMIT_LIMIT_PAGES: Final = 16_000
"""Size of the log, in pages (64 MB), at which a commit finishes the checkpoint itself."""

_WRITES: Final = 2_000
"""Number of writes between two checkpoints. Each write changes about two pages, so the log grows by about 16 MB."""


class Checkpointer:
    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._written = 0
        self._wanted = Event()
        self._is_closing = False
        self._thread = Thread(target=self._run, name="tickwheel-checkpointer", daemon=True)
        self._thread.start()

    def wrote(self, writes: int) -> None:
        self._written += writes
        if self._written >= _WRITES:
            self._written = 0
            self._wanted.set()

    def close(self) -> None:
        self._is_closing = True
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._wanted.wait() and not self._is_closing:
            self._wanted.clear()
            # The next commit will meet the same error and report it. The next turn tries again.
            with suppress(Exception):
                connection = connection or self._connect()
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if connection is not None:
            connection.close()
