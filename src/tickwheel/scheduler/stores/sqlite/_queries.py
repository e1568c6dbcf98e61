"""
The statements of `queries.sql` and `history.sql`, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from tickwheel.scheduler.stores._sql import load_queries

__all__ = ["KEYS_AT_ONCE", "SQL", "delete_keys", "deletes", "inserts", "jobs_by_key", "paging"]

SQL: Final = load_queries(__package__)

KEYS_AT_ONCE: Final = (256, 16, 1)
"""How many keys one look-up takes: few sizes, so that few statements stay prepared."""

ROWS_AT_ONCE: Final = (125, 25, 1)
"""
How many rows one statement inserts or deletes: few sizes, as above, and below the 999 values that older builds bind.

Around each statement the module lets other threads run, and then waits until it may go on. Beside busy threads that
takes longer than the row itself: so a commit of a thousand is eight statements and not a thousand.
"""


@cache
def jobs_by_key(size: int) -> str:
    """
    Return the look-up for *size* keys.
    """
    return SQL["jobs_by_key"].replace(":keys", ",".join("?" * size))


def inserts(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any], int]]:
    """
    Yield what inserts, by the statement *name*, rows whose *values* follow each other: statements, values, row counts.
    """
    width = SQL[name].count("?")
    start, rows = 0, len(values) // width
    for size in ROWS_AT_ONCE:
        while rows >= size:
            yield _insert_rows(name, size), values[start : start + size * width], size
            start, rows = start + size * width, rows - size


def deletes(shelf: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[Any], int]]:
    """
    Yield what deletes *keys* of one *shelf*: statements, values, row counts.
    """
    start = 0
    for size in ROWS_AT_ONCE:
        while len(keys) - start >= size:
            yield delete_keys(size), (shelf, *keys[start : start + size]), size
            start += size


@cache
def delete_keys(size: int) -> str:
    """
    Return what deletes *size* keys of one shelf.
    """
    return SQL["delete_keys"].replace(":keys", ",".join("?" * size))


@cache
def _insert_rows(name: str, size: int) -> str:
    head, _, row = SQL[name].rpartition("VALUES")
    return f"{head}VALUES{','.join([row] * size)}"


@cache
def paging(name: str, keys: str) -> str:
    """
    Return the query *name* over the keys that the query *keys* brings.
    """
    return SQL[name].replace("(:keys)", f"({SQL[keys]})")
