"""
The durable scheduler on SQLite, beside a bare loop of the very same SQL.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

from benchmarks.model import Bar, Case, Measure
from tickwheel.scheduler import Firing, Job, Scheduler, SetRequest
from tickwheel.scheduler.stores._rows import row_of
from tickwheel.scheduler.stores.sqlite import SqliteStore
from tickwheel.scheduler.stores.sqlite._batch import shelf_of
from tickwheel.scheduler.stores.sqlite._queries import SQL, jobs_by_key

_Thing = TypeVar("_Thing")
_Statements: TypeAlias = Sequence[tuple[str, Sequence[tuple[object, ...]]]]

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

BATCH = 1_000
CALLERS = 16
PAYLOAD = "x" * 98  # 100 bytes as JSON
SEED = 20_260
YEAR_MS = 31_536_000_000

CONDITIONS = {
    "all": (
        "a file in the working folder, WAL, synchronous=FULL, payloads of 100 bytes, random keys, so many "
        "far jobs already there as are pending"
    ),
    "set+fire+settle": (
        "jobs due now, set by set_many in batches of 1,000, handed to a handler that does nothing, "
        "settled; from the first set until the last is settled. bare-sql does the same statements in "
        "three transactions for each 1,000: set, begin, end"
    ),
    "set+fire+settle, 16 callers": (
        "the same, one set a call from 16 threads, each waiting for its answer; bare-sql: the same "
        "statements from one thread, three transactions for each job"
    ),
    "lateness": (
        "1,000 jobs set one second ahead, a millisecond between their instants; time.time() in the handler minus due_at"
    ),
}
BARS = (
    Bar("set+fire+settle", clock="wall", at_least=5_000),
    Bar("set+fire+settle", clock="wall", against="bare-sql", inverse=True),
    Bar("set+fire+settle, 16 callers", clock="wall", against="bare-sql", inverse=True),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return what to run.
    """
    sizes = (0, 100_000) if quick else (0, 100_000, 1_000_000)
    found = [
        Case(__name__, work, subject, size, {"count": count if quick else 5 * count})
        for work, count in (("set+fire+settle", 20_000), ("set+fire+settle, 16 callers", 2_000))
        for size in sizes
        for subject in ("bare-sql", "tickwheel")
    ]
    return [*found, *(Case(__name__, "lateness", "tickwheel", size) for size in sizes)]


def measure(work: str, subject: str, pending: int, *, count: int = 1_000) -> list[Measure]:
    """
    Run one case in this process.
    """
    draw = random.Random(SEED)
    keys = [f"{draw.getrandbits(64):016x}" for _ in range(count)]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        path = Path(folder, "jobs.db")
        fill(path, pending)
        if work == "lateness":
            return lateness(path, keys)
        begin = time.perf_counter()
        if subject == "bare-sql":
            bare(path, keys, BATCH if work == "set+fire+settle" else 1)
        else:
            scheduled(path, keys, in_bulk if work == "set+fire+settle" else by_callers)
        return [Measure(work, count / (time.perf_counter() - begin), "per second", "wall")]


def batched(things: Sequence[_Thing], size: int) -> Iterator[Sequence[_Thing]]:
    """
    Cut *things* into parts of *size*.
    """
    for begin in range(0, len(things), size):
        yield things[begin : begin + size]


def fill(path: Path, pending: int) -> None:
    """
    Make the file, with *pending* jobs due in a year.
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
            connection.executemany(SQL["insert_job"], [(0, *row_of(job)) for job in jobs])
            connection.executemany(
                SQL["insert_key"], [(shelf_of(job), job.key, job.due_at, job.generation) for job in jobs]
            )
        connection.execute(SQL["write_ledger"], (pending, pending, 0, 0, 0))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class connected:  # noqa: N801 - a context manager, used as a verb
    """
    A connection as the store opens it, closed at the end.
    """

    def __init__(self, path: Path) -> None:
        """
        Open it.
        """
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-65536", "wal_autocheckpoint=8000"):
            self._connection.execute(f"PRAGMA {pragma}")

    def __enter__(self) -> sqlite3.Connection:
        """
        Lend it.
        """
        return self._connection

    def __exit__(self, *_error: object) -> None:
        """
        Close it.
        """
        self._connection.close()


def bare(path: Path, keys: list[str], size: int) -> None:
    """
    Set, begin and end the jobs, *size* in a transaction, and nothing else.
    """
    now = time.time_ns() // 1_000_000
    with connected(path) as connection:
        generation, pending, *_rest = connection.execute(SQL["read_ledger"]).fetchone()

        def transaction(statements: _Statements, ledger: tuple[int, ...]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(SQL["read_ledger"]).fetchone()
            for name, rows in statements:
                connection.executemany(SQL[name], rows)
            connection.execute(SQL["write_ledger"], ledger)
            connection.execute("COMMIT")

        for part in batched(keys, size):
            jobs = [
                Job(key, number, now, f'"{PAYLOAD}"'.encode(), handler="nothing", first_set_at=now)
                for number, key in enumerate(part, generation + 1)
            ]
            generation += len(jobs)
            places = [(job.due_at, job.generation) for job in jobs]
            rows = [(0, *row_of(job)) for job in jobs]
            for some in batched(part, 256 if size > 1 else 1):
                connection.execute(jobs_by_key(len(some)), tuple(some)).fetchall()
            inserts = (
                ("insert_job", rows),
                ("insert_key", [(shelf_of(job), job.key, job.due_at, job.generation) for job in jobs]),
            )
            transaction(inserts, (generation, pending + len(jobs), 0, 0, 0))
            transaction([("begin_job", places)], (generation, pending, len(jobs), 0, 0))
            ends = (("end_job", places), ("delete_key", [(shelf_of(job), job.key) for job in jobs]))
            transaction(ends, (generation, pending, 0, 0, 0))


def scheduled(path: Path, keys: list[str], set_all: Callable[[Scheduler, list[str]], None]) -> None:
    """
    Let the scheduler do it, and wait until everything is settled.
    """
    with Scheduler(f"sqlite:///{path}") as scheduler:
        scheduler.handler("nothing")(do_nothing)
        set_all(scheduler, keys)
        wait_for(scheduler, len(keys))


def wait_for(scheduler: Scheduler, count: int) -> None:
    """
    Wait until *count* jobs are settled.

    Raises:
        RuntimeError: If one of them failed.
    """
    while (stats := scheduler.stats())["succeeded"] < count or stats["running"]:
        if stats["failed"]:
            message = f"{stats['failed']} jobs failed: the figures would be of something else"
            raise RuntimeError(message)
        time.sleep(0.002)


def do_nothing(_payload: object) -> None:
    """
    Be the handler.
    """


def in_bulk(scheduler: Scheduler, keys: list[str]) -> None:
    """
    Set all jobs, a thousand a call.
    """
    for part in batched(keys, BATCH):
        scheduler.set_many([SetRequest(key, delay=0.0, payload=PAYLOAD, handler="nothing") for key in part])


def by_callers(scheduler: Scheduler, keys: list[str]) -> None:
    """
    Set all jobs, one a call, from many threads.
    """
    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in pool.map(lambda key: scheduler.set(key, delay=0.0, payload=PAYLOAD, handler="nothing"), keys):
            pass


def lateness(path: Path, keys: list[str]) -> list[Measure]:
    """
    Fire jobs one by one and note how late their handler is called.
    """
    late: list[float] = []

    def note(_payload: object, firing: Firing) -> None:
        late.append(time.time() * 1000 - firing.job.due_at)

    with Scheduler(f"sqlite:///{path}") as scheduler:
        scheduler.handler("note")(note)
        first = time.time() + 1.0
        scheduler.set_many([SetRequest(key, at=first + place / 1000, handler="note") for place, key in enumerate(keys)])
        wait_for(scheduler, len(keys))
    late.sort()
    return [
        Measure("lateness p50", late[len(late) // 2], "ms", "wall"),
        Measure("early", sum(value < 0 for value in late), "jobs"),
        Measure("lateness p99", late[len(late) * 99 // 100], "ms", "wall"),
    ]
