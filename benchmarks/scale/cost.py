"""
The cost of pending jobs, and of a steady rate of jobs, on each store.

Measures the bytes stored, the bytes written, and processor time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import redis

from benchmarks.durable.far import LOT, instants
from benchmarks.durable.file import PAYLOAD, SEED, batched, do_nothing
from benchmarks.durable.server import postgres
from benchmarks.model import Measure
from benchmarks.process import parent_of, server_cpu_s
from benchmarks.scale.redis import redis_server
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["COST", "PENDING", "RATE", "STORES", "measure"]

COST: Final = "cost"
PENDING: Final = 100_000
RATE: Final = 1_000
"""Number of jobs set per second."""
CALLS: Final = 10
"""Number of calls per second that set these jobs."""


@dataclass(frozen=True, slots=True)
class _Meter:
    """
    A store under measurement.

    It has a URL, and functions that return the bytes stored, the bytes written, and the server's processor seconds.
    """

    url: str
    kept: Callable[[], int]
    written: Callable[[], int]
    server_s: Callable[[], float]


@contextmanager
def _sqlite() -> Iterator[_Meter]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        url = f"sqlite:///{folder}/jobs.db"
        yield _Meter(url, lambda: (Path(folder) / "jobs.db").stat().st_size, _written_here, lambda: 0.0)


@contextmanager
def _postgres() -> Iterator[_Meter]:
    with postgres() as url, psycopg.connect(url, autocommit=True) as connection:
        server = parent_of(connection.info.backend_pid)

        def ask(question: str) -> int:
            (answer,) = connection.execute(f"SELECT {question}").fetchone() or (0,)
            return int(answer)

        yield _Meter(
            url,
            lambda: ask("pg_database_size(current_database())"),
            lambda: ask("pg_current_wal_insert_lsn() - '0/0'"),
            lambda: server_cpu_s(server),
        )


@contextmanager
def _redis() -> Iterator[_Meter]:
    with redis_server() as (url, servers), redis.Redis(port=urlsplit(url).port or 0) as client:

        def ask(section: str, name: str) -> int:
            facts: dict[str, Any] = client.info(section)
            return int(facts[name])

        yield _Meter(
            url,
            lambda: ask("memory", "used_memory"),
            lambda: ask("persistence", "aof_current_size"),
            lambda: sum(map(server_cpu_s, servers)),
        )


STORES: Final = {"tickwheel": _sqlite, "tickwheel-postgres": _postgres, "tickwheel-redis": _redis}


def measure(subject: str, pending: int, seconds: int) -> list[Measure]:
    """
    Set *pending* jobs that are due in days.

    Then set `RATE` jobs per second and fire them at the same time.
    """
    with STORES[subject]() as meter:
        client = Scheduler(meter.url)
        client.stats()  # creates the store
        client.stop()
        kept, begun = meter.kept(), (time.process_time(), meter.server_s())
        client = Scheduler(meter.url)  # the client is not started, so it fires nothing
        for numbers in batched(range(pending), LOT):
            due = instants(SEED + numbers[0], len(numbers))
            client.set_many(
                [
                    SetRequest(f"far/{number:010}", at=at / 1000, payload=PAYLOAD, handler="nothing")
                    for number, at in zip(numbers, due, strict=True)
                ]
            )
        client.stop()
        clients, server = time.process_time() - begun[0], meter.server_s() - begun[1]
        return [
            Measure("kept for each pending job", (meter.kept() - kept) / pending, "bytes"),
            Measure("set of a pending job, client", 1e9 * clients / pending, "ns", "cpu"),
            Measure("set of a pending job, server", 1e9 * server / pending, "ns", "cpu"),
            *_steady(meter, seconds),
        ]


def _steady(meter: _Meter, seconds: int) -> list[Measure]:
    with Scheduler(meter.url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        _fire(scheduler, 1)  # not measured, because the first jobs cost more
        begun = time.process_time(), meter.server_s(), meter.written()
        jobs = _fire(scheduler, seconds)
        used = time.process_time() - begun[0], meter.server_s() - begun[1], meter.written() - begun[2]
    return [
        Measure("job at the rate, client", 1e9 * used[0] / jobs, "ns", "cpu"),
        Measure("job at the rate, server", 1e9 * used[1] / jobs, "ns", "cpu"),
        Measure("written for each job at the rate", used[2] / jobs, "bytes"),
    ]


def _fire(scheduler: Scheduler, seconds: int) -> int:
    """
    Set `RATE` jobs per second that are due within a second. Wait until all have fired.

    Return the number of these jobs.
    """
    size = RATE // CALLS
    before, begin = scheduler.stats()["pending"], time.monotonic()
    for turn in range(seconds * CALLS):
        scheduler.set_many(
            [
                SetRequest(f"near/{turn}/{number}", delay=number / size, payload=PAYLOAD, handler="nothing")
                for number in range(size)
            ]
        )
        time.sleep(max(0.0, begin + (turn + 1) / CALLS - time.monotonic()))  # keeps the load at a constant rate
    while (counts := scheduler.stats())["pending"] > before or counts["running"]:
        time.sleep(0.05)  # short enough to notice the end soon, and long enough to cost little
    return seconds * CALLS * size


def _written_here() -> int:
    """
    Return the bytes that this process has caused to be written to disks.
    """
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))
