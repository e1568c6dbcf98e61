"""
Measures how the durable scheduler scales.

The figures are for more owners, more lanes, a steady rate of jobs, more pending jobs, and the cost of each store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.durable.far import LOT
from benchmarks.durable.server import SETTINGS, postgres
from benchmarks.model import Bar, Case, Measure
from benchmarks.scale import burst, churn, cost, lanes, loop_burst, owners, pending, staged, trickle

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

STORES = ("tickwheel", "tickwheel-postgres")
CONDITIONS = {
    "all": (
        "SQLite: a file in the working folder, WAL, synchronous=FULL. PostgreSQL: a server of its own in the folder "
        f"for temporary files, reached by a Unix socket, fsync and synchronous_commit on, {', '.join(SETTINGS)}. "
        "Redis: servers on the loopback, appendonly, appendfsync everysec. Servers and clients share the machine, so "
        "what wall says is of the load beside it, too; CPU and sizes are not"
    ),
    owners.OWNERS: (
        f"{owners.JOBS:,} jobs of a handler that does nothing, set 1,000 at a time by a process that owns nothing, due "
        "at once, over 16 shards (15 where there are three partitions) that one, two or four processes share; until "
        "all are settled. clients: CPU of the setter and of the owners; server: of all processes of the server, also "
        "those that have ended, and of all masters of the cluster of three, one of which has the store, or each a "
        "partition. For each job, user and system as the kernel counts them; rounds in turns, of each the lower "
        "quartile"
    ),
    trickle.TRICKLE: (
        f"a job each {1000 * trickle.EACH_S:g} ms, due at once, set by a process that owns nothing, while one or four "
        "own the 16 shards. questions: the server's own count of transactions or commands, of all processes; owners "
        "and server: CPU for each job, as above, with all that they do at rest"
    ),
    churn.CHURN: (
        f"{churn.RATE} sets a second, {churn.SETS_AT_ONCE} a call, random keys, payloads of 100 bytes: three in five "
        f"are due within {churn.WAIT_S} seconds and fire; the others are due tomorrow, and after {churn.WAIT_S} "
        "seconds half of them are moved to an instant soon, and half cancelled. One process does all of it. database: "
        "the file, its log and its reserve, or pg_database_size; memory: its resident set; both while jobs come and "
        "go, and not compared in a quick run, in which logs still grow. Dead rows and runs of autovacuum are "
        "PostgreSQL's counts over all tables; it looks ten times in the run, which in ten minutes is once a minute, "
        "as it comes"
    ),
    cost.COST: (
        f"jobs for days within 30, with payloads of 100 bytes and keys that grow, set {LOT:,} a call; then "
        f"{cost.RATE:,} jobs a second, {cost.RATE // cost.CALLS} a call, due within a second, set and fired by one "
        "process beside them. kept: the closed file, pg_database_size or used_memory; written: what the kernel counts "
        "as written by the process (SQLite), or the growth of the server's log (PostgreSQL, Redis)"
    ),
    burst.BURST: (
        f"{burst.COUNT:,} due jobs of one handler, which are paused, hung, limited to 5 a second, asleep for 2 s, or "
        f"take 20 ms; and a job of each of {burst.LANES} other handlers in turn every 50 ms. late: the latest of them, "
        "counted from the due time, or from the time at which the owner had all shards if that was later. A first "
        "owner is killed by SIGKILL, and a second one takes over. memory: the largest resident set of the second. "
        "none: the same before the jobs of the burst are set"
    ),
    loop_burst.LOOP_BURST: (
        f"{loop_burst.COUNT:,} jobs of one async handler that does nothing, which fall due within a second, on "
        "AsyncScheduler with its usual options: processor time of the process for a job, from the last set until all "
        "are settled, staging included; and how late a job of another async handler is that is due every 20 ms "
        "meanwhile, the latest of all rounds. Bare tasks: asyncio.create_task of the same coroutine, a thousand in a "
        f"turn of the loop; {loop_burst.ROUNDS} rounds in turns. On memory://, which writes nothing, as the bare "
        "tasks; on SQLite the statements are added"
    ),
    staged.STAGED: (
        f"{staged.HANDLERS} handlers' jobs with payloads of 100 bytes in SQLite, all within the horizon of a new "
        "process, which has places for twice as many: the growth of its resident set until all are staged, for each"
    ),
    lanes.LANES: (
        f"a due job for each of {lanes.COUNT:,} pull queues without workers, and then, in a new process, the first "
        "firing of a handler and the largest resident set until then, as in the durable benchmark; then "
        f"{lanes.HEALTHY:,} jobs of one handler, a millisecond apart, and how late it is called"
    ),
    pending.PENDING: (
        f"set_many in lots of {LOT:,}, payloads of 100 bytes, random instants over 30 days, keys that grow as they are "
        f"set, in {pending.PARTS} parts, each with a prefix of its own; nobody fires meanwhile. disk: the closed file, "
        "or what pg_database_size has grown by, with the notes for an owner that is to come. restart: as in the "
        "durable benchmark; memory then is the largest resident set of the new process until it has fired. page: the "
        "first of a list of 100, within one part, by prefix alone, with a handler that one job in "
        f"{pending.RARE} has, and with one that none has, by a part of the key that some keys have, and by one that "
        f"none has; the median of {pending.LOOKS}, each of another prefix. bulk cancel and drain: of one part each. "
        "cpu is that of this process, without a server's"
    ),
}
BARS = (
    *(
        Bar(f"late after {phase}, {kind}", subject=subject, clock="wall", at_most=2_000)
        for subject in burst.SUBJECTS
        for phase in ("start", "takeover")
        for kind in burst.KINDS
    ),
    *(
        Bar(f"missing, {kind}", subject=subject, clock="", at_most=0)
        for subject in burst.SUBJECTS
        for kind in burst.KINDS
    ),
    *(
        Bar(f"{who}, {owners}", subject=subject, against="tickwheel-redis", inverse=True, at_most=1.1)
        for subject in ("tickwheel-redis-cluster", "tickwheel-redis-partitions")
        for owners in ("1 owner", "2 owners", "4 owners")
        for who in ("clients", "server")
    ),
    Bar(loop_burst.SHARE, subject="tickwheel-memory", at_least=0.7),
    *(Bar(loop_burst.LATE, subject=subject, clock="wall", at_most=50) for subject in loop_burst.SUBJECTS),
    Bar(staged.MEMORY, clock="", pending=1_000_000, at_most=985),  # 5 % above an earlier measurement
    *(
        bar
        for subject in STORES
        for bar in (
            Bar("database, end over first fifth", subject=subject, clock="", at_most=1.3),
            Bar("memory, end over first fifth", subject=subject, clock="", at_most=1.3),
            Bar("restart", subject=subject, clock="wall", at_most=2),
            Bar("due look-up", subject=subject, clock="wall", at_most=1),
        )
    ),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases.
    """
    rounds, seconds = (4, 60) if quick else (12, 600)
    shape = {"jobs": owners.JOBS, "counts": owners.COUNTS}
    sizes = (200_000,) if quick else (1_000_000, 10_000_000)
    return [
        *(
            Case(__name__, owners.OWNERS, subject, 0, {**shape, "rounds": rounds}, reps=1)
            for subject in owners.SUBJECTS
        ),
        *(
            Case(__name__, trickle.TRICKLE, subject, 0, {"seconds": 10 if quick else 30}, reps=1)
            for subject in trickle.STORES
        ),
        *(
            Case(__name__, cost.COST, subject, cost.PENDING, {"seconds": 10 if quick else 20}, reps=1)
            for subject in cost.STORES
        ),
        *(
            Case(__name__, burst.BURST, subject, 50_000 if quick else burst.COUNT, {"seconds": 8}, reps=1)
            for subject in burst.SUBJECTS
        ),
        *(
            Case(__name__, loop_burst.LOOP_BURST, subject, 20_000 if quick else loop_burst.COUNT, reps=1)
            for subject in loop_burst.SUBJECTS
        ),
        Case(__name__, staged.STAGED, "tickwheel", sizes[0], reps=1),
        *(Case(__name__, lanes.LANES, subject, 5_000 if quick else lanes.COUNT, reps=1) for subject in lanes.SUBJECTS),
        *(Case(__name__, churn.CHURN, subject, 0, {"seconds": seconds}, reps=1) for subject in STORES),
        *(Case(__name__, pending.PENDING, subject, size, reps=1) for size in sizes for subject in STORES),
    ]


def measure(work: str, subject: str, count: int, *, seconds: int = 0, **settings: Any) -> list[Measure]:
    """
    Run one case in this process.
    """
    if work == owners.OWNERS:
        return owners.measure(subject, **settings)
    whole: dict[str, Callable[[], list[Measure]]] = {
        trickle.TRICKLE: lambda: trickle.measure(subject, seconds),
        burst.BURST: lambda: burst.measure(subject, count, seconds),
        loop_burst.LOOP_BURST: lambda: loop_burst.measure(subject, count),
        lanes.LANES: lambda: lanes.measure(subject, count),
        cost.COST: lambda: cost.measure(subject, count, seconds),
    }
    if work in whole:
        return whole[work]()
    with _store(subject, seconds) as (url, size_of):
        if work == staged.STAGED:
            return staged.measure(url, count)
        if work == pending.PENDING:
            return pending.measure(url, size_of, count)
        found = churn.measure(url, size_of, seconds)
        return found if subject == "tickwheel" else found + churn.vacuumed(url)


@contextmanager
def _store(subject: str, seconds: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """
    Yield the URL of a store, and a function that measures its size.
    """
    if subject == "tickwheel-postgres":
        looks = [f"autovacuum_naptime={seconds // 10}s"] if seconds else []
        with postgres(*looks) as url:
            yield url, partial(_size_of_server, url)
        return
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        yield f"sqlite:///{folder}/jobs.db", partial(_size_of_folder, Path(folder))


def _size_of_folder(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir() if not each.name.endswith("-shm"))


def _size_of_server(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert found
        return int(found[0])
