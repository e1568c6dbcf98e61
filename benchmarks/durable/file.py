"""
Jobs that are set, fired and settled on SQLite, by the scheduler and by a bare loop of the same SQL.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

from tickwheel.jobs.rows import row_of
from tickwheel.scheduler import Job, Scheduler, SetRequest
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._batch import shelf_of
from tickwheel.stores.sqlite._queries import SQL, by_keys, inserts, jobs_by_key

_Thing = TypeVar("_Thing")
_Statements: TypeAlias = Sequence[tuple[str, Sequence[object], int]]

__all__ = ["bare", "by_callers", "do_nothing", "drawn", "fill", "in_bulk", "scheduled", "wait_for"]

BATCH = 1_000
CALLERS = 16
PAYLOAD = "x" * 98  # 100 bytes as JSON
SEED = 20_260
YEAR_MS = 31_536_000_000


def drawn(count: int) -> list[str]:
    """
    Return *count* random keys, which are the same each time.
    """
    draw = random.Random(SEED)
    return [f"{draw.getrandbits(64):016x}" for _ in range(count)]


def batched(things: Sequence[_Thing], size: int) -> Iterator[Sequence[_Thing]]:
    """
    Cut *things* into parts of *size*.
    """
    for begin in range(0, len(things), size):
        yield things[begin : begin + size]


def fill(path: Path, pending: int) -> None:
    """
    Make the file, with *pending* jobs that are due in a year.
    """
    store = SqliteStore(path)
    store.open()
    store.close()
    due_at = time.time_ns() // 1_000_000 + YEAR_MS
    draw = random.Random(SEED + 1)
    with connected(path) as connection:
        connection.execute("BEGIN")
        for generations in batched(range(1, pending + 1), 10_000):
            jobs = [Job(f"{draw.getrandbits(64):016x}", number, due_at + number) for number in generations]
            connection.executemany(SQL["insert_job"], [(0, *row_of(job), None) for job in jobs])
            connection.executemany(
                SQL["insert_key"], [(shelf_of(job), job.key, job.due_at, job.generation) for job in jobs]
            )
        floor = connection.execute(SQL["read_ledger"]).fetchone()[4]
        connection.execute(SQL["write_ledger"], (pending, pending, 0, 0, floor))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class connected:  # noqa: N801 - a context manager, used as a verb
    """
    A connection as the store opens it, closed at the end.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, cached_statements=64)
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=FAST",
            "cache_size=-65536",
            "temp_store=MEMORY",
            "wal_autocheckpoint=8000",
        ):
            self._connection.execute(f"PRAGMA {pragma}")

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, *_error: object) -> None:
        self._connection.close()


def bare(path: Path, keys: list[str], size: int) -> None:
    """
    Set, claim and settle the jobs, *size* in each transaction, with nothing but the statements of the store.

    A single thread has all jobs in a list, and knows that they are new, due and adjacent. It checks no request, encodes
    and decodes no payload, calls no handler, notifies no caller, and guards against nothing that could go wrong.
    """
    now = time.time_ns() // 1_000_000
    with connected(path) as connection:
        generation, pending, _, _, floor, *_rest = connection.execute(SQL["read_ledger"]).fetchone()

        def transaction(statements: _Statements, ledger: tuple[int, ...]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(SQL["read_ledger"]).fetchone()
            for statement, values, _count in statements:
                connection.execute(statement, values)
            connection.execute(SQL["write_ledger"], ledger)
            connection.execute("COMMIT")

        for part in batched(keys, size):
            jobs = [
                Job(key, number, now, f'"{PAYLOAD}"'.encode(), handler="nothing", first_set_at=now)
                for number, key in enumerate(part, generation + 1)
            ]
            first, generation = generation + 1, generation + len(jobs)
            rows: list[object] = []
            places: list[object] = []
            for job in jobs:
                rows += (job.due_at, job.generation, job.key, job.payload, job.target, job.handler, job.first_set_at)
                places += (shelf_of(job), job.key, job.due_at, job.generation)
            for some in batched(part, 256 if size > 1 else 1):
                connection.execute(jobs_by_key(len(some)), tuple(some)).fetchall()
            sets = (*inserts("insert_plain_job", rows), *inserts("insert_key", places))
            transaction(sets, (generation, pending + len(jobs), 0, 0, floor))
            run = (now, first, generation)
            transaction([(SQL["begin_jobs_between"], run, size)], (generation, pending, len(jobs), 0, floor))
            ends = ((SQL["end_jobs_between"], run, size), *by_keys("delete_keys", shelf_of(jobs[0]), part))
            transaction(ends, (generation, pending, 0, 0, floor))


def scheduled(url: str, keys: list[str], set_all: Callable[[Scheduler, list[str]], None]) -> float:
    """
    Run the jobs with the scheduler until all are settled, and return the duration in seconds.
    """
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        begin = time.perf_counter()
        set_all(scheduler, keys)
        wait_for(scheduler, len(keys))
        return time.perf_counter() - begin


def wait_for(scheduler: Scheduler, count: int) -> None:
    """
    Wait until *count* jobs are settled.

    Raises:
        RuntimeError: If a job failed.
    """
    while (stats := scheduler.stats())["succeeded"] < count or stats["running"]:
        if stats["failed"]:
            message = f"{stats['failed']} jobs failed: the figures would be of something else"
            raise RuntimeError(message)
        # few queries, because each costs the store as much as some jobs
        time.sleep(0.01 + 0.2 * (1 - stats["succeeded"] / count))


def do_nothing(_payload: object) -> None:
    pass


def in_bulk(scheduler: Scheduler, keys: list[str]) -> None:
    """
    Set all jobs, a thousand in each call.
    """
    for part in batched(keys, BATCH):
        scheduler.set_many([SetRequest(key, delay=0.0, payload=PAYLOAD, handler="nothing") for key in part])


def by_callers(scheduler: Scheduler, keys: list[str]) -> None:
    """
    Set all jobs from many threads, one in each call.
    """
    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in pool.map(lambda key: scheduler.set(key, delay=0.0, payload=PAYLOAD, handler="nothing"), keys):
            pass
