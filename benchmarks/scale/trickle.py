"""
Single jobs that are set by a process that owns no shard.

Measures the number of queries that the owners make, and the cost of these queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import redis

from benchmarks.model import Measure
from benchmarks.process import cpu_s, server_cpu_s
from benchmarks.scale.owners import SUBJECTS, shared_out
from tickwheel.scheduler import Scheduler

__all__ = ["COUNTS", "EACH_S", "STORES", "TRICKLE", "measure"]

TRICKLE: Final = "trickle"
COUNTS: Final = (1, 4)
EACH_S: Final = 0.02
_JOBS_TO_BEGIN: Final = 50


def measure(subject: str, seconds: int) -> list[Measure]:
    """
    For *seconds*, set one job every `EACH_S` seconds.

    Repeat this with each number of owners in `COUNTS`.
    """
    with SUBJECTS[subject]() as (url, servers):
        return [each for count in COUNTS for each in _trickle(subject, url, servers, count, round(seconds / EACH_S))]


def _trickle(subject: str, url: str, servers: Sequence[int], count: int, jobs: int) -> list[Measure]:
    with ExitStack() as stack:
        setter = Scheduler(url)  # the setter is not started, so it fires nothing
        stack.callback(setter.stop)
        nodes = shared_out(url, setter, count, stack)
        questions = STORES[subject](url, stack)

        def used() -> tuple[float, float, float]:
            return questions(), sum(map(cpu_s, nodes)), sum(map(server_cpu_s, servers))

        _set(setter, _JOBS_TO_BEGIN)  # also pays for one-time work
        before, begun = used(), time.monotonic()
        _set(setter, jobs)
        asked, owners, server = (end - begin for begin, end in zip(before, used(), strict=True))
        took = time.monotonic() - begun
    name = f"{count} owner{'s' * (count > 1)}"
    return [
        Measure(f"jobs, {name}", jobs / took, "per second", "wall"),
        Measure(f"questions, {name}", asked / took, "per second", "wall"),
        Measure(f"owners, {name}", 1e9 * owners / jobs, "ns", "cpu"),
        Measure(f"server, {name}", 1e9 * server / jobs, "ns", "cpu"),
    ]


def _set(setter: Scheduler, jobs: int) -> None:
    """
    Set jobs one by one, at fixed intervals that do not depend on how long each call takes.
    """
    begin = time.monotonic()
    for number in range(jobs):
        setter.set(f"{number}", delay=0.0, handler="nothing")
        time.sleep(max(0.0, begin + (number + 1) * EACH_S - time.monotonic()))


def _transactions(url: str, stack: ExitStack) -> Callable[[], float]:
    """
    Return a function that counts the transactions of all sessions.

    The count lags by up to a second.
    """
    connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
    stack.callback(connection.close)

    def count() -> float:
        found = connection.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        row = found.fetchone()
        assert row
        return float(row[0])

    return count


def _commands(url: str, stack: ExitStack) -> Callable[[], float]:
    """
    Return a function that counts all commands of the server, including commands that scripts run.
    """
    client = redis.Redis(port=urlsplit(url).port or 0)
    stack.callback(client.close)

    def count() -> float:
        facts: dict[str, Any] = client.info("stats")
        return float(facts["total_commands_processed"])

    return count


STORES: Final = {"tickwheel-postgres": _transactions, "tickwheel-redis": _commands}
