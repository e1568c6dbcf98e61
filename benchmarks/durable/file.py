"""
Rates at which jobs are set, fired and settled on SQLite: by the scheduler, and by a bare loop of the same SQL.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tickwheel.jobs.rows import row_of
from tickwheel.scheduler import Job, Scheduler, SetRequest
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._batch import shelf_of
from tickwheel.stores.sqlite._queries import SQL, by_keys, exact_shelves, inserts, jobs_by_key

_Thing = TypeVar("_Thing")

__all__ = ["bare", "by_callers", "do_nothing", "drawn", "fill", "in_bulk", "scheduled", "wait_for"]

BATCH = 1_000
CALLERS = 16
PAYLOAD = "x" * 98  # 100 bytes as JSON
SEED = 20_260
YEAR_MS = 31_536_000_000


def drawn(count: int) -> list[str]:
    """
    Return *count* random keys, which are the same in every run.
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
    Opens a connection as the store does, and closes it at the end of the block.
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


def bare(path: Path, keys: list[str], size: int, ahead: Sequence[int] = ()) -> None:
    """
    Set, claim and settle the jobs, *size* in each transaction, with only the statements of the store.

    A single thread has all jobs in a list, and knows that they are new, due and adjacent. It checks no request, encodes
    and decodes no payload, calls no handler, notifies no caller, and handles no errors.

    Args:
        path: The file, which no other process changes.
        keys: The keys of the jobs.
        size: Number of jobs in a transaction.
        ahead: Milliseconds from now to the due time of each job. After all jobs are set, they are claimed and settled
            job by job in the order of their due times. If this is empty, all jobs are due now.
    """
    with connected(path) as connection:
        loop = _BareLoop(connection)
        if not ahead:
            for part in batched(keys, size):
                loop.fire_adjacent(loop.set(part, [0] * len(part)))
            return
        jobs: list[Job] = []
        for part, late in zip(batched(keys, size), batched(ahead, size), strict=True):
            jobs += loop.set(part, late)
        jobs.sort(key=lambda job: (job.due_at, job.generation))
        for some in batched(jobs, size):
            loop.fire_each(some)


class _BareLoop:
    """
    Runs the statements of the store for jobs that are known to be new.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._now = time.time_ns() // 1_000_000
        self._generation, self._pending, _, _, self._floor, *_ = connection.execute(SQL["read_ledger"]).fetchone()

    def set(self, keys: Sequence[str], ahead: Sequence[int]) -> list[Job]:
        jobs = [
            Job(key, number, self._now + late, f'"{PAYLOAD}"'.encode(), handler="nothing", first_set_at=self._now)
            for number, (key, late) in enumerate(zip(keys, ahead, strict=True), self._generation + 1)
        ]
        self._generation += len(jobs)
        rows: list[object] = []
        places: list[object] = []
        for job in jobs:
            rows += (job.due_at, job.generation, job.key, job.payload, job.target, job.handler, job.first_set_at)
            places += (shelf_of(job), job.key, job.due_at, job.generation)
        shelves = exact_shelves(self._connection, len(keys))
        for some in batched(keys, 256 if len(keys) > 1 else 1):
            self._connection.execute(jobs_by_key(len(some), shelves), tuple(some)).fetchall()
        with self._transaction(pending=len(jobs)):
            self._run((*inserts("insert_plain_job", rows), *inserts("insert_key", places)))
        return jobs

    def fire_adjacent(self, jobs: Sequence[Job]) -> None:
        """
        Claim and settle *jobs*, which have the same due time and consecutive generations.
        """
        run = (jobs[0].due_at, jobs[0].generation, jobs[-1].generation)
        with self._transaction(pending=0, running=len(jobs)):
            self._connection.execute(SQL["begin_jobs_between"], run)
        with self._transaction(pending=-len(jobs)):
            self._connection.execute(SQL["end_jobs_between"], run)
            self._run(by_keys("delete_keys", shelf_of(jobs[0]), [job.key for job in jobs]))

    def fire_each(self, jobs: Sequence[Job]) -> None:
        """
        Claim and settle *jobs*, which are not adjacent.
        """
        places = [(job.due_at, job.generation) for job in jobs]
        with self._transaction(pending=0, running=len(jobs)):
            self._connection.executemany(SQL["begin_job"], places)
        with self._transaction(pending=-len(jobs)):
            self._connection.executemany(SQL["end_job"], places)
            self._run(by_keys("delete_keys", shelf_of(jobs[0]), [job.key for job in jobs]))

    @contextmanager
    def _transaction(self, *, pending: int, running: int = 0) -> Iterator[None]:
        self._pending += pending
        ledger = (self._generation, self._pending - running, running, 0, self._floor)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(SQL["read_ledger"]).fetchone()
        yield
        self._connection.execute(SQL["write_ledger"], ledger)
        self._connection.execute("COMMIT")

    def _run(self, statements: Iterable[tuple[str, Sequence[object], int]]) -> None:
        for statement, values, _count in statements:
            self._connection.execute(statement, values)


def scheduled(url: str, keys: list[str], set_all: Callable[[Scheduler, list[str]], None]) -> float:
    """
    Set the jobs with *set_all*, and run them with the scheduler until all are settled.

    Return the duration in seconds.
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
    Set each job by a separate call, from many threads.
    """
    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in pool.map(lambda key: scheduler.set(key, delay=0.0, payload=PAYLOAD, handler="nothing"), keys):
            pass
