"""
Counts the bytes that a process writes and reads during repeated work.

The counts are from the kernel's accounting.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from benchmarks.model import Measure

__all__ = ["Meter"]


class Meter:
    """
    Counts the bytes that this process writes and reads during repeated work.
    """

    def __init__(self, pending: int, path: Path | None = None, url: str = "") -> None:
        """
        Prepare to measure the file at *path*, or the write-ahead log of the server at *url*.
        """
        self._pending, self._path, self._url = pending, path, url
        self.found: list[Measure] = []

    @contextmanager
    def of(self, work: str, count: int) -> Iterator[None]:
        """
        Measure the body of the `with` statement, which does *work* *count* times.

        After the body, SQLite's log is moved into the file. The measured bytes include this move, but the times do not.
        """
        before, begin, used = self._counters(), time.perf_counter(), time.process_time_ns()
        yield
        seconds, used = time.perf_counter() - begin, time.process_time_ns() - used
        self._move_log()
        after = self._counters()
        self.found += [Measure(work, count / seconds, "per second", "wall"), Measure(work, used / count, "ns", "cpu")]
        self.found += [Measure(f"{work}: {what}", (after[what] - before[what]) / count, "bytes") for what in before]

    def weigh(self, more: int) -> None:
        """
        Measure the size of the file for each job, after *more* jobs were added.

        The files of a server are not measured.
        """
        if self._path is not None:
            size = self._path.stat().st_size / (self._pending + more)
            self.found.append(Measure("disk per pending job", size, "bytes"))

    def _move_log(self) -> None:
        """
        Move SQLite's write-ahead log into the file.

        The log has to be moved at some time, so the measured bytes must include the move.
        """
        if self._path is not None:
            with closing(sqlite3.connect(self._path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _counters(self) -> dict[str, int]:
        if self._path is None:
            with psycopg.connect(self._url, autocommit=True) as connection:
                log = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
            return {"log": int(log[0]) if log else 0}
        lines = Path("/proc/self/io").read_text("utf-8").splitlines()
        io = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
        names = {"written": "wchar", "to disk": "write_bytes", "read": "rchar", "from disk": "read_bytes"}
        return {what: io[name] for what, name in names.items()}
