"""
A disk under SQLite that records the order of all writes, from which the effect of a power cut can be computed.

The store runs its own SQL on its own connections, but with the SQLite library of APSW in place of Python's. A virtual
file system of APSW records every write and every sync, and passes it on to the real disk. It also records the zeros
that the store writes behind the end of the log.
"""

from __future__ import annotations

import io
import random
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import apsw

from tickwheel.stores.sqlite import _connections, _log_space

__all__ = ["RecordedDisk"]

SECTOR = 512
"""Number of bytes that a disk writes either completely or not at all."""

_OPEN_FLAGS = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


@dataclass(slots=True)
class Step:
    """
    One operation on one file: a write, a sync, a removal, or a change of the size.

    *place* is the position of the written data, or the new size of the file.
    """

    name: str
    place: int | None
    data: bytes | None = None
    is_removal: bool = False


@dataclass(slots=True)
class RecordedDisk:
    """
    The recorded steps, and the contents of the disk after a power cut that follows any of the steps.
    """

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def under_sqlite(self) -> Iterator[None]:
        """
        Within the context, let every connection that a store opens use this disk.
        """
        name = f"recorded-{id(self)}"
        vfs = _Vfs(name, self)
        library = SimpleNamespace(
            connect=lambda path, timeout, **_: _Connection(path, name, timeout),
            Connection=_Connection,
            Error=sqlite3.Error,
        )
        opened = partial(_LogFile, self)
        with (
            mock.patch.object(_connections, "sqlite3", library),
            mock.patch.object(_log_space, "open", opened, create=True),
        ):
            yield
        vfs.unregister()

    def after_cut(self, count: int, dice: random.Random) -> dict[str, bytes]:
        """
        Return the files as they may be after a power cut that follows the first *count* steps.

        All synced data exists. Any part of the other data may be missing.
        """
        durable: dict[str, bytearray] = {}
        loose: dict[str, list[Step]] = {}
        for step in self.steps[:count]:
            if step.is_removal:
                durable.pop(step.name, None)
                loose.pop(step.name, None)
            elif step.place is None:
                for each in loose.pop(step.name, []):
                    _do(durable, each)
            else:
                loose.setdefault(step.name, []).append(step)
        for name in sorted(loose):
            for step in _left(loose[name], dice):
                _do(durable, step)
        return {name: bytes(content) for name, content in durable.items()}


def _left(steps: list[Step], dice: random.Random) -> Iterable[Step]:
    how = dice.choice(("none", "all", "beginning", "some", "torn", "torn"))
    if how == "none":
        return []
    if how == "all":
        return steps
    if how == "beginning":
        return steps[: dice.randrange(len(steps) + 1)]
    if how == "some":
        return [step for step in steps if dice.random() < 0.5]
    return [torn for step in steps for torn in _sectors(step, dice)]


def _sectors(step: Step, dice: random.Random) -> Iterator[Step]:
    if step.data is None or step.place is None:
        if dice.random() < 0.5:
            yield step
        return
    for start in range(0, len(step.data), SECTOR):
        if dice.random() < 0.5:
            yield Step(step.name, step.place + start, step.data[start : start + SECTOR])


def _do(files: dict[str, bytearray], step: Step) -> None:
    content = files.setdefault(step.name, bytearray())
    place = step.place or 0
    if step.data is None:
        del content[place:]
        return
    if len(content) < place:
        content.extend(bytes(place - len(content)))
    content[place : place + len(step.data)] = step.data


class _File(apsw.VFSFile):
    def __init__(self, disk: RecordedDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "temporary").name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.steps.append(Step(self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.steps.append(Step(self._name, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.steps.append(Step(self._name, None))
        super().xSync(flags)


class _LogFile(io.FileIO):
    """
    The log file that the store opens itself, without SQLite.
    """

    def __init__(self, disk: RecordedDisk, path: str, mode: str, buffering: int) -> None:
        assert buffering == 0
        super().__init__(path, mode)
        self._disk = disk
        self._name = Path(path).name

    def write(self, data: Any) -> int:
        self._disk.steps.append(Step(self._name, self.tell(), bytes(data)))
        return super().write(data)


class _Vfs(apsw.VFS):
    def __init__(self, name: str, disk: RecordedDisk) -> None:
        super().__init__(name, "", iVersion=3)
        self._disk = disk

    def xDelete(self, path: str, sync: bool) -> None:  # noqa: FBT001, N802 SQLite's name and form
        self._disk.steps.append(Step(Path(path).name, None, is_removal=True))
        super().xDelete(path, sync)

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 - SQLite's name
        return _File(self._disk, name, flags)


class _Cursor:
    """
    Rows in the form of sqlite3, and the number of changed rows, which apsw's own cursor does not report.
    """

    def __init__(self, inner: apsw.Cursor, rowcount: int) -> None:
        self.rowcount = rowcount
        self.fetchone = inner.fetchone
        self.fetchall = inner.fetchall
        self._inner = inner

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inner)


class _Connection:
    """
    The part of `sqlite3.Connection` that the store uses, on a connection of apsw.
    """

    def __init__(self, uri: str, vfs: str, timeout: float) -> None:
        self._inner = apsw.Connection(uri, _OPEN_FLAGS, vfs)
        self._inner.set_busy_timeout(int(timeout * 1000))

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, sql: str, values: Any = ()) -> Any:
        with _translated():
            return _Cursor(self._inner.execute(sql, values), self._inner.changes())

    def executemany(self, sql: str, rows: Iterable[Any]) -> Any:
        changed = 0
        with _translated():
            for row in rows:
                self._inner.execute(sql, row)
                changed += self._inner.changes()
        return SimpleNamespace(rowcount=changed)

    def close(self) -> None:
        self._inner.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        told = sqlite3.OperationalError(str(error))
        told.sqlite_errorcode = error.extendedresult
        raise told from error
