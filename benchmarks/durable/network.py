"""
Fills a PostgreSQL store with jobs.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

import psycopg

from benchmarks.durable.file import PAYLOAD
from tickwheel.stores import open_store

__all__ = ["fill", "key_of"]

_YEAR_MS: Final = 31_536_000_000
_FILL: Final = """
INSERT INTO tickwheel_job
    (key, generation, due_at, payload, target, handler, attempt, state, first_set_at, shard)
SELECT md5(number::text), number, %s + {ahead}, '"{payload}"', 'handler', 'nothing', 0, 0, 0,
    abs(hashtext(number::text)) %% (SELECT count(*) FROM tickwheel_shard)
FROM generate_series(1, %s) AS number
"""


def key_of(number: int) -> str:
    """
    Return the key of job number *number*. Numbers begin at 1.
    """
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def fill(url: str, pending: int, *, first: int | None = None, span: int = 0) -> None:
    """
    Make the tables with *pending* jobs.

    The jobs are due in a year, or at random times in the *span* ms after *first*.
    """
    ahead = f"(random() * {span})::bigint" if span else "number"
    start = time.time_ns() // 1_000_000 + _YEAR_MS if first is None else first
    open_store(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        if pending:
            connection.execute(_FILL.format(ahead=ahead, payload=PAYLOAD), (start, pending))
            connection.execute("SELECT setval('tickwheel_generation', %s)", (pending,))
            connection.execute("UPDATE tickwheel_count SET pending = %s WHERE slot = 0", (pending,))
        connection.execute("VACUUM ANALYZE tickwheel_job")
        connection.execute("CHECKPOINT")
