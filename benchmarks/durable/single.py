"""
The cost of one job at a time.

Measures single calls of a caller that waits for each answer, and firings with pauses between them.
"""

from __future__ import annotations

import gc
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.durable.file import do_nothing, wait_for
from benchmarks.model import Measure
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["APART_MS", "ROUNDS", "WORK", "costs"]

WORK: Final = "single set"
ROUNDS: Final = 8
APART_MS: Final = 40
_AHEAD_S: Final = 1.0
_HOUR_S: Final = 3_600
_SPARSE_MAX: Final = 250
_TABLE: Final = "CREATE TABLE bare (key TEXT PRIMARY KEY, due_at BIGINT, payload TEXT)"


def costs(url: str, keys: list[str]) -> list[Measure]:
    """
    Set, move and cancel *keys* one by one, in turns with bare inserts.

    Then fire some of the keys, with pauses between them. The result for each kind of call is the lower quartile of the
    rounds, because other processes can only add to the time.
    """
    size = len(keys) // ROUNDS
    rounds = [keys[start : start + size] for start in range(0, size * ROUNDS, size)]
    with Scheduler(url) as scheduler, _bare(url) as insert:
        scheduler.handler("nothing")(do_nothing)
        verbs: dict[str, Callable[[str], object]] = {
            "bare insert and commit": insert,
            WORK: lambda key: scheduler.set(key, delay=_HOUR_S, handler="nothing"),
            "single move": lambda key: scheduler.move(key, delay=2 * _HOUR_S),
            "single cancel": scheduler.cancel,
        }
        found: dict[str, list[tuple[float, float]]] = {verb: [] for verb in verbs}
        for some in rounds:
            for verb, call in verbs.items():
                found[verb].append(_round(call, some))
        measures = [
            Measure(verb, statistics.quantiles(figures, n=4)[0], "ns", clock)
            for verb, each in found.items()
            for clock, figures in zip(("cpu", "wall"), zip(*each, strict=True), strict=True)
        ]
        return [*measures, *_sparse(scheduler, keys[:_SPARSE_MAX])]


@contextmanager
def _bare(url: str) -> Iterator[Callable[[str], object]]:
    """
    Yield a function that inserts one row and commits it.

    The row goes into a table on the same server, or into a new SQLite file.
    """
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(_TABLE)
            yield lambda key: server.execute("INSERT INTO bare VALUES (%s, 0, 'x')", (key,), prepare=True)
        return
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder,
        closing(sqlite3.connect(Path(folder, "bare.db"), isolation_level=None)) as file,
    ):
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.execute(_TABLE)
        yield lambda key: file.execute("INSERT INTO bare VALUES (?, 0, 'x')", (key,))


def _round(call: Callable[[str], object], keys: list[str]) -> tuple[float, float]:
    """
    Return the CPU time of this process and the wall time for each call, in ns.
    """
    gc.collect()
    begin, at = time.process_time_ns(), time.perf_counter_ns()
    for key in keys:
        call(key)
    return (time.process_time_ns() - begin) / len(keys), (time.perf_counter_ns() - at) / len(keys)


def _sparse(scheduler: Scheduler, keys: list[str]) -> list[Measure]:
    """
    Return the CPU time and the number of commits for each firing.

    The CPU time includes that of the pauses between firings.
    """
    first = time.time() + _AHEAD_S
    scheduler.set_many(
        [SetRequest(key, at=first + place * APART_MS / 1000, handler="nothing") for place, key in enumerate(keys)]
    )
    commits, begin = scheduler.stats()["commits"], time.process_time_ns()
    # polling the counts would disturb the measurement
    time.sleep(max(0.0, first + len(keys) * APART_MS / 1000 - time.time()))
    wait_for(scheduler, len(keys))
    cost = (time.process_time_ns() - begin) / len(keys)
    commits = scheduler.stats()["commits"] - commits
    return [
        Measure("sparse firing", cost, "ns", "cpu"),
        Measure("sparse firing: commits", commits / len(keys), "per job"),
    ]
