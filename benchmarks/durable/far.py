"""
Jobs with random keys that are due at random times far ahead.

Measures the time to set, move and cancel such jobs, and the bytes that are written and read.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.durable import network
from benchmarks.durable.file import BATCH, PAYLOAD, SEED, batched, connected, do_nothing
from benchmarks.durable.meter import Meter
from benchmarks.durable.ordered import DAY_MS, OrderedWheel
from benchmarks.durable.waiting import restart
from benchmarks.model import Measure
from tickwheel.scheduler import Job, Scheduler, SetRequest
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._far import FAR_SHARD, NEAR_MS, bury, slot_of
from tickwheel.stores.sqlite._filters import Filters
from tickwheel.stores.sqlite._queries import KEYS_AT_ONCE, SQL, by_keys, exact_shelves, inserts, jobs_by_key
from tickwheel.stores.sqlite._runs import Merger, merge
from tickwheel.testing import ManualClock

__all__ = [
    "CANCELS",
    "LOT",
    "MEMORY",
    "MOVES",
    "RESTART",
    "SETS",
    "SINGLES",
    "SPAN_MS",
    "fill",
    "instants",
    "on_file",
    "on_server",
    "packed",
]

SETS: Final = "far sets"
MOVES: Final = "far moves"
CANCELS: Final = "far cancels"
CASCADES: Final = "far cascade"
SINGLES: Final = "single sets, over those into an empty file"
RESTART: Final = "far restart"
MEMORY: Final = "far memory then"

LOT: Final = 20_000
_SINGLE: Final = 100
"""Number of jobs that are set one by one into one file, before it is the other file's turn."""
SPAN_MS: Final = 30 * 86_400_000
_SOON_MS: Final = 18_000_000
"""Minimum delay of a job, in ms. A job that is due earlier would not be far, and its firing would be measured, too."""

_FILL_CACHE_KIB: Final = 2_097_152


def instants(seed: int, count: int) -> list[int]:
    """
    Return *count* random instants in the next 30 days, but not in the next hours.
    """
    draw = random.Random(seed)
    now = time.time_ns() // 1_000_000
    return [now + draw.randrange(_SOON_MS, SPAN_MS) for _ in range(count)]


def chosen(pending: int, count: int) -> list[int]:
    """
    Return the numbers of pending jobs that are chosen at random.

    The first half, at most *count*, are the jobs to move, and the second half are the jobs to cancel.
    """
    return random.Random(SEED + 6).sample(range(1, pending + 1), 2 * min(count, pending // 2))


def fill(path: Path, pending: int, numbers: Sequence[int] = ()) -> list[Job]:
    """
    Make the file with *pending* jobs, set in random order. Then remove the file from the page cache.

    Return the jobs with *numbers*, in the order of *numbers*.
    """
    found = dict.fromkeys(numbers)
    store = SqliteStore(path)
    store.open()
    store.close()
    draw = random.Random(SEED + 1)
    now = time.time_ns() // 1_000_000
    with connected(path) as connection:
        connection.execute(f"PRAGMA cache_size=-{_FILL_CACHE_KIB}")
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("BEGIN")
        floor = connection.execute(SQL["read_ledger"]).fetchone()[4]
        connection.execute(SQL["write_ledger"], (pending, pending, 0, 0, floor))
        for number, due_at in enumerate(instants(SEED + 2, pending), 1):
            job = _job(f"{draw.getrandbits(64):016x}", number, due_at, now)
            if number in found:
                found[number] = job
            connection.execute(SQL["insert_far_job"], _far_row(job))
            connection.execute(SQL["insert_key"], (1, job.key, job.due_at, job.generation))
            while number % LOT == 0 and merge(connection, now):
                pass
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    _forget(path)
    return [job for job in found.values() if job is not None]


def _forget(path: Path) -> None:
    """
    Remove the file from the page cache.

    No store may have the file open, because closing the file releases SQLite's locks.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def on_file(path: Path, subject: str, pending: int, keys: list[str]) -> list[Measure]:
    """
    Measure *subject* on a new file with *pending* jobs.
    """
    meter = Meter(pending, path)
    if subject == "in-order":
        _in_order(meter, path, pending, keys)
        return meter.found
    jobs = fill(path, pending, chosen(pending, len(keys)))
    if subject == "bare-sql":
        _bare(meter, path, keys, jobs)
    else:
        url = f"sqlite:///{path}"
        _by_scheduler(meter, url, keys, [job.key for job in jobs])
        meter.found.append(_singles(url, f"sqlite:///{path}.empty", keys))
        names = {"restart": RESTART, "memory then": MEMORY}
        meter.found += [replace(each, work=names[each.work]) for each in restart(url, pending) if each.work in names]
        _cascade(meter, path)
    return meter.found


def on_server(url: str, pending: int, keys: list[str]) -> list[Measure]:
    """
    Measure the server at *url*, with *pending* jobs that are due in the next 30 days.
    """
    network.fill(url, pending, first=time.time_ns() // 1_000_000 + _SOON_MS, span=SPAN_MS - _SOON_MS)
    packed(url)
    meter = Meter(pending, url=url)
    _by_scheduler(meter, url, keys, [network.key_of(number) for number in chosen(pending, len(keys))])
    return meter.found


def packed(url: str) -> None:
    """
    Rewrite the table of jobs with full pages, and make a checkpoint.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (FULL, ANALYZE) tickwheel_job")
        connection.execute("CHECKPOINT")


def _singles(url: str, empty: str, keys: list[str]) -> Measure:
    """
    Set single jobs from one thread, in turns into the file at *url* and into an *empty* file. Compare the rates.

    The first set into each file is not counted.
    """
    seconds = [instant / 1000 for instant in instants(SEED + 5, len(keys))]
    taken = {url: 0.0, empty: 0.0}
    with Scheduler(url) as full, Scheduler(empty) as other:
        for scheduler in (full, other):
            scheduler.handler("nothing")(do_nothing)
            scheduler.set(
                "first", delay="7d", handler="nothing"
            )  # loads the key filters, so that the measured sets need not
        for part in batched(list(zip(keys, seconds, strict=True))[: 20 * _SINGLE], _SINGLE):
            for scheduler, name in ((full, url), (other, empty)):
                begin = time.perf_counter()
                for key, at in part:
                    scheduler.set(key, at=at, payload=PAYLOAD, handler="nothing")
                taken[name] += time.perf_counter() - begin
    return Measure(SINGLES, taken[empty] / taken[url], "of it", "wall")


def _job(key: str, generation: int, due_at: int, now: int) -> Job:
    return Job(key, generation, due_at, f'"{PAYLOAD}"'.encode(), handler="nothing", first_set_at=now)


def _far_row(job: Job) -> tuple[object, ...]:
    start = slot_of(job.due_at)
    return (start, job.generation, job.due_at, job.key, job.payload, job.target, job.handler, job.first_set_at)


def _by_scheduler(meter: Meter, url: str, keys: list[str], there: list[str]) -> None:
    """
    Set jobs with *keys* in batches. Then move half of the jobs with the keys in *there*, and cancel the other half.
    """
    half = len(there) // 2
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(lambda _payload: None)
        for work, some, seed in ((SETS, keys, SEED + 3), (MOVES, there[:half], SEED + 4)):
            seconds = [instant / 1000 for instant in instants(seed, len(some))]
            lots = list(batched(list(zip(some, seconds, strict=True)), LOT))
            with meter.of(work, len(some)):
                for lot in lots:
                    scheduler.set_many(
                        [SetRequest(key, at=instant, payload=PAYLOAD, handler="nothing") for key, instant in lot]
                    )
        meter.weigh(len(keys))
        with meter.of(CANCELS, half):
            for part in batched(there[half:], LOT):
                scheduler.cancel_many(part)


def _cascade(meter: Meter, path: Path) -> None:
    """
    Let an owner move the far jobs of the next two days into the table of near jobs, as if two days had passed.
    """
    clock = ManualClock(wall=time.time() + 2 * DAY_MS / 1000)
    until = clock.wall_ns() // 1_000_000 + NEAR_MS
    with closing(SqliteStore(path, clock=clock)) as store, connected(path) as connection:
        store.open()
        store.acquire("bench")
        count = connection.execute(
            "SELECT count(*) FROM tickwheel_live WHERE shard = ? AND due_at < ?", (FAR_SHARD, until)
        ).fetchone()[0]
        with meter.of(CASCADES, count):
            while connection.execute(SQL["first_slot"], (0, until)).fetchone()[0] is not None:
                store.renew("bench")


def _bare(meter: Meter, path: Path, keys: list[str], there: list[Job]) -> None:
    """
    Do the same as `_by_scheduler` with only the store's statements, a thousand jobs in each transaction.

    A single thread has all jobs in lists and already knows the job of each key. It looks up the keys as the store does,
    but ignores the result. SQLite moves the log into the file in the commit that makes the log exceed its limit.
    """
    now = time.time_ns() // 1_000_000
    half = len(there) // 2
    with connected(path) as connection:
        generation = connection.execute(SQL["read_ledger"]).fetchone()[0]
        new, moved = (
            [
                _job(key, number, due_at, now)
                for number, (key, due_at) in enumerate(zip(some, instants(seed, len(some)), strict=True), start)
            ]
            for some, seed, start in (
                (keys, SEED + 3, generation + 1),
                ([job.key for job in there[:half]], SEED + 4, generation + len(keys) + 1),
            )
        )
        runs = Filters(), Merger()
        with meter.of(SETS, len(keys)):
            for jobs in batched(new, BATCH):
                with _transaction(connection, runs, jobs, len(jobs)):
                    _insert(connection, jobs)
        with meter.of(MOVES, half):
            for olds, jobs in zip(batched(there[:half], BATCH), batched(moved, BATCH), strict=True):
                with _transaction(connection, runs, jobs, 0):
                    _delete(connection, olds)
                    _insert(connection, jobs)
        meter.weigh(len(keys))
        with meter.of(CANCELS, half):
            for jobs in batched(there[half:], BATCH):
                with _transaction(connection, runs, jobs, -len(jobs)):
                    _delete(connection, jobs)


def _in_order(meter: Meter, path: Path, pending: int, keys: list[str]) -> None:
    """
    Do the same as `_by_scheduler` with the prototype `OrderedWheel`, a thousand jobs in each transaction.

    Then sort the far jobs of one day into the table of near jobs.
    """
    draw = random.Random(SEED + 1)
    now = time.time_ns() // 1_000_000
    there = [f"{draw.getrandbits(64):016x}" for _ in range(pending)]
    others = [there[number - 1] for number in chosen(pending, len(keys))]
    half = len(others) // 2
    generation = 1

    def set_all(keys: list[str], seed: int, size: int) -> None:
        nonlocal generation
        numbers = range(generation, generation + len(keys))
        jobs = [_job(*each, now) for each in zip(keys, numbers, instants(seed, len(keys)), strict=True)]
        generation += len(keys)
        for part in batched(jobs, size):
            with _committed(wheel.connection):
                wheel.set(part)

    with connected(path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        wheel = OrderedWheel(connection)
        set_all(there, SEED + 2, LOT)
    _forget(path)
    with connected(path) as wheel.connection:
        for work, some, seed in ((SETS, keys, SEED + 3), (MOVES, others[:half], SEED + 4)):
            with meter.of(work, len(some)):
                set_all(some, seed, BATCH)
        meter.weigh(len(keys))
        with meter.of(CANCELS, half):
            for part in batched(others[half:], BATCH):
                generation += 1
                with _committed(wheel.connection):
                    wheel.cancel(part, generation)
        day = now // DAY_MS + 2
        with meter.of(CASCADES, max(1, wheel.count_of(day))), _committed(wheel.connection):
            wheel.cascade(day)


@contextmanager
def _committed(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")


@contextmanager
def _transaction(
    connection: sqlite3.Connection, runs: tuple[Filters, Merger], jobs: Sequence[Job], more: int
) -> Iterator[None]:
    with _committed(connection):
        generation, pending, running, dead, floor, *_ = connection.execute(SQL["read_ledger"]).fetchone()
        there = sorted(job.key for job in jobs)
        shelves = exact_shelves(connection, len(there))
        for keys in batched(there, KEYS_AT_ONCE[0]):
            connection.execute(jobs_by_key(len(keys), shelves), keys).fetchall()
        for run, some in runs[0].within(connection, there):
            for keys in batched(some, KEYS_AT_ONCE[0]):
                connection.execute(jobs_by_key(len(keys), "?"), [run, *keys]).fetchall()
        yield
        if more >= 0:
            runs[1].pay(connection, len(jobs), jobs[0].first_set_at)
        generation = max(generation, jobs[-1].generation)
        connection.execute(SQL["write_ledger"], (generation, pending + more, running, dead, floor))


def _insert(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    values: list[object] = []
    for job in jobs:
        values += _far_row(job)
    keys: list[object] = []
    for job in jobs:
        keys += (1, job.key, job.due_at, job.generation)
    for name, rows in (("insert_far_job", values), ("insert_key", keys)):
        for statement, part, _count in inserts(name, rows):
            connection.execute(statement, part)


def _delete(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    for statement, values, _count in by_keys("delete_keys", 1, [job.key for job in jobs]):
        connection.execute(statement, values)
    bury(connection, [job.generation for job in jobs])
