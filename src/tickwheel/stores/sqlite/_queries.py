from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from tickwheel.stores._sql import load_queries

if TYPE_CHECKING:
    import sqlite3

    from tickwheel.stores.sqlite._joining import Joined

__all__ = [
    "EXACT",
    "KEYS_AT_ONCE",
    "SQL",
    "behind",
    "by_keys",
    "exact_shelves",
    "for_keys",
    "insert_rows",
    "inserts",
    "jobs_by_key",
    "paging",
    "width_of",
]

SQL: Final = load_queries(__package__, lambda _column: "?")

EXACT: Final = "-3, -2, -1, 0, 1"
"""The shelves (key partitions) whose keys always lead to jobs. Keys on all other shelves are hints."""

_MANY: Final = 64
"""Look-ups of at least this many keys first find out which shelves (key partitions) are empty, and skip these."""

KEYS_AT_ONCE: Final = (256, 16, 1)
"""The possible numbers of keys in one look-up. With few sizes, few statements stay prepared."""

# each statement releases and retakes the GIL, which takes longer than a row if threads are busy
ROWS_AT_ONCE: Final = (125, 25, 1)
"""
The possible numbers of rows in one insert or delete. Older builds of SQLite bind up to 999 values.
"""


def exact_shelves(connection: sqlite3.Connection | Joined, count: int) -> str:
    """
    Return the shelves (key partitions) of `EXACT` that a look-up of *count* keys must search; "" for none.

    A look-up descends a tree for each key and shelf. For many keys, it is therefore cheaper to skip empty shelves.
    """
    if count < _MANY:
        return EXACT
    return ", ".join(str(shelf) for (shelf,) in connection.execute(SQL["exact_shelves"]))


@cache
def jobs_by_key(size: int, shelves: str = EXACT) -> str:
    """
    Return the query for *size* keys on *shelves* (key partitions). If *shelves* is "?", bind one shelf after the keys.
    """
    return for_keys("jobs_by_key", size).replace(":shelves", shelves)


def inserts(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any], int]]:
    width = width_of(name)
    start, rows = 0, len(values) // width
    for size in ROWS_AT_ONCE:
        while rows >= size:
            yield insert_rows(name, size), values[start : start + size * width], size
            start, rows = start + size * width, rows - size


@cache
def width_of(name: str) -> int:
    return SQL[name].count("?")


def by_keys(name: str, first: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[Any], int]]:
    start = 0
    for size in ROWS_AT_ONCE:
        while len(keys) - start >= size:
            yield for_keys(name, size), (first, *keys[start : start + size]), size
            start += size


@cache
def for_keys(name: str, size: int) -> str:
    return SQL[name].replace(":keys", ",".join("?" * size)).replace(":rows", ",".join(["(?)"] * size))


@cache
def insert_rows(name: str, size: int) -> str:
    head, _, row = SQL[name].rpartition("VALUES")
    return f"{head}VALUES{','.join([row] * size)}"


@lru_cache(maxsize=64)
def paging(name: str, keys: str, shelves: tuple[int, ...] = ()) -> str:
    """
    Return the query *name* over the keys that the query *keys* finds: on each of *shelves* (key partitions), if given.
    """
    parts = [SQL[keys].replace(":shelf", str(shelf)) for shelf in shelves] or [SQL[keys]]
    return SQL[name].replace("(:keys)", f"({' UNION ALL '.join(parts)} ORDER BY key LIMIT :reach)")


def behind(key: str) -> str:
    return key + "\0"
