"""
A store of your own, on plain files: `Scheduler("file_store:FileStore?path=jobs.log")`.

The store is a log with one line for each transaction. A line has a checksum, and the entries as JSON. A transaction is
acknowledged when its line is on the disk. If a power failure cuts a line short, its transaction was not yet
acknowledged, and the line is dropped. Only one process at a time can open the store.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from tickwheel.clock import Clock
from tickwheel.scheduler import StoreError, StoreInUseError
from tickwheel.stores import BaseStore

ROOM = 1_000_000
"""Number of bytes that the log may grow beyond twice its last compacted size before it is rewritten."""


class FileStore(BaseStore):
    """
    A store that keeps jobs in memory, and writes every transaction to a log.

    The log is rewritten when about half of it is outdated.
    """

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        """
        Remember the path of the log. The method `load` creates the file, and a lock file beside it.
        """
        super().__init__(clock)
        self.url = f"file_store:FileStore?path={path}"
        self.path = Path(path)
        self.log: IO[bytes] | None = None
        self.lock_file: IO[bytes] | None = None
        self.size = 0

    def load(self) -> Iterable[tuple[str, bytes]]:
        """
        Lock the store, read its log, and return the entries.

        After reading, the log is rewritten. This drops an incomplete last line, and makes sure that all entries are on
        the disk.
        """
        try:
            self.lock_file = self.path.with_name(self.path.name + ".lock").open("ab")
            fcntl.flock(self.lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            entries = self.read()
            self.rewrite(entries.items())
        except BlockingIOError as error:
            what = f"{self.url} is open in another process"
            raise StoreInUseError(what, "stop that process first") from error
        except OSError as error:
            raise self.failed(error) from error
        return entries.items()

    def unload(self) -> None:
        """
        Close the log, and release the lock.
        """
        for file in (self.log, self.lock_file):
            if file is not None:
                file.close()
        self.log = self.lock_file = None

    def commit(self, entries: Iterable[tuple[str, bytes | None]]) -> None:
        """
        Append the entries as one line, and wait until the line is on the disk.
        """
        assert self.log is not None
        line = _line(entries)
        try:
            if self.log.tell() > 2 * self.size + ROOM:
                self.rewrite(self.entries())
            self.log.write(line)
            self.log.flush()
            os.fsync(self.log.fileno())
        except OSError as error:  # the line may or may not be in the file
            raise self.failed(error, is_unknown=True) from error

    def read(self) -> dict[str, bytes]:
        """
        Return the entries up to the last complete line.
        """
        entries: dict[str, bytes] = {}
        if self.path.exists():
            with self.path.open("rb") as file:
                for line in file:
                    changes = _changes(line)
                    if changes is None:
                        break
                    for name, data in changes:
                        entries.pop(name, None)
                        if data is not None:
                            entries[name] = data
        return entries

    def rewrite(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """
        Replace the log by a new one that has only *entries*.
        """
        new = self.path.with_name(self.path.name + ".new")
        with new.open("wb") as file:
            for entry in entries:
                file.write(_line([entry]))
            file.flush()
            os.fsync(file.fileno())
            self.size = file.tell()
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        if self.log is not None:
            self.log.close()
        self.log = self.path.open("ab")

    def failed(self, error: OSError, *, is_unknown: bool = False) -> StoreError:
        """
        Return a `StoreError` for an error of the operating system.
        """
        what, remedy = f"{self.url} cannot be used ({error})", "see that its folder is there, and has room"
        return StoreError(what, remedy, is_transient=is_unknown, is_unknown=is_unknown)


def _line(entries: Iterable[tuple[str, bytes | None]]) -> bytes:
    changes = [(name, None if data is None else data.decode("latin-1")) for name, data in entries]
    text = json.dumps(changes, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _changes(line: bytes) -> list[tuple[str, bytes | None]] | None:
    """
    Return the entries of a line, or None if the line is incomplete.
    """
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
        return None
    return [(name, None if data is None else data.encode("latin-1")) for name, data in json.loads(text)]
