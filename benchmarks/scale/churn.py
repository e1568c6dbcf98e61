"""
A steady rate of jobs that are set, moved, cancelled and fired.

Measures whether the database and the memory of the process stop growing.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import psycopg

from benchmarks.durable.file import PAYLOAD, SEED, do_nothing
from benchmarks.model import Measure
from benchmarks.process import resident
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["CHURN", "RATE", "SETS_AT_ONCE", "WAIT_S", "measure", "vacuumed"]

CHURN: Final = "churn"
RATE: Final = 500
"""
Number of jobs set per second. Of five jobs, three are due within seconds. The other two are due tomorrow; one of them
is soon moved to a time within seconds, and the other is cancelled.
"""
WAIT_S: Final = 10
_TOMORROW_S: Final = 86_400.0
_LONG_S: Final = 300
"""Minimum length of a run in seconds for a comparison of sizes, because logs still grow in the first minutes."""
_TURNS: Final = 5
"""Number of batches of jobs per second."""
SETS_AT_ONCE: Final = RATE // _TURNS


def measure(url: str, size_of: Callable[[], int], seconds: int) -> list[Measure]:
    """
    Set, move, cancel and fire jobs for *seconds*.

    Measure the size of the database and the memory at the end. If the run is long enough, compare them with their
    values after the first fifth of the time.
    """
    draw = random.Random(SEED)
    later: deque[list[str]] = deque()
    """The keys of the batches that are due tomorrow, unless they are moved or cancelled."""
    sizes: list[tuple[int, int]] = []
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        begin = time.monotonic()
        for turn in range(1, seconds * _TURNS + 1):
            keys = [f"{draw.getrandbits(64):016x}" for _ in range(SETS_AT_ONCE)]
            far = SETS_AT_ONCE * 2 // 5
            delays = [_TOMORROW_S] * far + [draw.uniform(0, WAIT_S) for _ in keys[far:]]
            scheduler.set_many(
                [
                    SetRequest(key, delay=delay, payload=PAYLOAD, handler="nothing")
                    for key, delay in zip(keys, delays, strict=True)
                ]
            )
            later.append(keys[:far])
            if len(later) > WAIT_S * _TURNS:
                old = later.popleft()
                scheduler.move_many(old[: far // 2], delay=draw.uniform(0, WAIT_S))
                scheduler.cancel_many(old[far // 2 :])
            time.sleep(max(0.0, begin + turn / _TURNS - time.monotonic()))
            if turn in {seconds * _TURNS // 5, seconds * _TURNS}:
                sizes.append((size_of(), resident()))
        took = time.monotonic() - begin
        figures = scheduler.stats()
    (size, memory), (size_then, memory_then) = sizes
    found = [
        Measure("database at the end", size_then / 2**20, "MiB"),
        Measure("memory at the end", memory_then / 2**20, "MiB"),
        Measure("pending at the end", figures["pending"], "jobs"),
        Measure("fired", figures["fired"], "jobs"),
        Measure("time", took, "s", "wall"),
    ]
    if seconds >= _LONG_S:
        found.append(Measure("database, end over first fifth", size_then / size, "x"))
        found.append(Measure("memory, end over first fifth", memory_then / memory, "x"))
    return found


def vacuumed(url: str) -> list[Measure]:
    """
    Return the number of dead rows in PostgreSQL's tables, and the number of vacuums.
    """
    with psycopg.connect(url) as connection:
        counts = "SELECT sum(n_dead_tup), sum(autovacuum_count) FROM pg_stat_user_tables"
        dead, vacuums = connection.execute(counts).fetchone() or (0, 0)
    return [Measure("dead rows at the end", int(dead), "rows"), Measure("autovacuums", int(vacuums), "runs")]
