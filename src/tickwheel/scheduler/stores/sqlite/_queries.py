"""
The statements of `queries.sql`, by name.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tickwheel.scheduler.stores._sql import load_queries

__all__ = ["KEYS_AT_ONCE", "SQL", "jobs_by_key", "paging"]

SQL: Final = load_queries(__package__)

KEYS_AT_ONCE: Final = (256, 16, 1)
"""How many keys one look-up takes: few sizes, so that few statements stay prepared."""


@cache
def jobs_by_key(size: int) -> str:
    """
    Return the look-up for *size* keys.
    """
    return SQL["jobs_by_key"].replace(":keys", ",".join("?" * size))


@cache
def paging(name: str, keys: str) -> str:
    """
    Return the query *name* over the keys that the query *keys* brings.
    """
    return SQL[name].replace("(:keys)", f"({SQL[keys]})")
