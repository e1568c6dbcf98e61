from __future__ import annotations

from typing import Final

from tickwheel.stores._sql import load_queries

__all__ = ["SQL"]

_ARRAYS: Final = {"text": "text", "bytes": "bytea", "int2": "smallint", "int4": "integer", "int8": "bigint"}

SQL: Final = load_queries(__package__, lambda column: f"(SELECT %s::{_ARRAYS[column.kind]}[])")
