"""
Bulk calls on PostgreSQL compared with bare SQL: processor time of client and server, and number of statements.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from benchmarks.durable import network
from benchmarks.durable.file import BATCH, PAYLOAD, batched, do_nothing, wait_for
from benchmarks.durable.server import postgres
from benchmarks.model import Measure
from benchmarks.process import parent_of, server_cpu_s
from tickwheel.scheduler import Scheduler, SetRequest

__all__ = ["CYCLE", "ROUNDS", "SETS", "STATEMENTS", "measure"]

CYCLE: Final = "cycle, 1,000 a call"
SETS: Final = "far sets, 1,000 a call"
STATEMENTS: Final = f"{CYCLE}: statements per 1,000"
ROUNDS: Final = 5
_HOUR_S: Final = 3_600
_COUNTED: Final = "shared_preload_libraries=pg_stat_statements"
_TABLE: Final = """
CREATE EXTENSION pg_stat_statements;
CREATE TABLE bare (LIKE tickwheel_job INCLUDING ALL);
INSERT INTO bare SELECT * FROM tickwheel_job;
ANALYZE bare
"""
_INSERT: Final = """
INSERT INTO bare (key, generation, due_at, payload, target, handler, attempt, state, first_set_at, shard)
SELECT key, number, %s, %s, 'handler', 'nothing', 0, 0, 0, 0 FROM unnest(%s::text[], %s::bigint[]) AS new (key, number)
"""
_BEGIN: Final = "UPDATE bare SET state = 1, attempt = 1 WHERE key = ANY(%s) AND state = 0"
_END: Final = "DELETE FROM bare WHERE key = ANY(%s) AND state = 1"
_CALLS: Final = "SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'"


class _Meter:
    """
    Measures the processor time of this process and of a server, and the number of statements that the server ran.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._server = parent_of(connection.info.backend_pid)
        self.found: dict[str, list[float]] = {}

    @contextmanager
    def of(self, work: str, jobs: int) -> Iterator[None]:
        """
        Measure *work*, which the body of the `with` statement does for this number of *jobs*.
        """
        gc.collect()
        calls, server, client = self._calls(), server_cpu_s(self._server), time.process_time_ns()
        yield
        client = time.process_time_ns() - client
        server = server_cpu_s(self._server) - server
        calls = self._calls() - calls
        figures = {"": client / jobs, ": server": 1e9 * server / jobs, ": statements per 1,000": 1_000 * calls / jobs}
        for what, figure in figures.items():
            self.found.setdefault(work + what, []).append(figure)

    def _calls(self) -> int:
        row = self._connection.execute(_CALLS).fetchone()
        assert row
        return int(row[0] or 0)


def measure(pending: int, keys: list[str]) -> list[Measure]:
    """
    Set and fire jobs with *keys*, and set far jobs, by the scheduler and by bare statements in turns.

    Both use the same server. The bare statements insert, update and delete a thousand rows each, in a table like the
    store's.
    """
    with postgres(_COUNTED) as url:
        network.fill(url, pending)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLE)
            meter = _Meter(connection)
            for number in range(ROUNDS):
                _bare(meter, connection, [f"bare/{number}/{key}" for key in keys])
                _ours(meter, url, [f"{number}/{key}" for key in keys])
    middle = {work: statistics.median(figures) for work, figures in meter.found.items()}
    found = [
        Measure(work, figure, "statements") if work.endswith("1,000") else Measure(work, figure, "ns", "cpu")
        for work, figure in middle.items()
    ]
    for work in (CYCLE, SETS):
        pairs = zip(meter.found[f"{work}: server"], meter.found[f"bare {work}: server"], strict=True)
        share = statistics.median(ours / bare for ours, bare in pairs)
        found.append(Measure(f"{work}: server over bare", share, "of bare", "cpu"))
    return found


def _ours(meter: _Meter, url: str, keys: list[str]) -> None:
    with Scheduler(url) as scheduler:
        scheduler.handler("nothing")(do_nothing)
        first = keys[:BATCH]
        _set(scheduler, _requests([f"first/{key}" for key in first], 0.0))  # also pays for one-time work
        wait_for(scheduler, len(first))
        due = _requests(keys, 0.0)
        with meter.of(CYCLE, len(keys)):
            _set(scheduler, due)
            wait_for(scheduler, len(keys) + len(first))
        far = _requests([f"far/{key}" for key in keys], _HOUR_S)
        with meter.of(SETS, len(keys)):
            _set(scheduler, far)
        for part in batched(far, BATCH):
            scheduler.cancel_many([request.key for request in part])


def _requests(keys: list[str], delay: float) -> list[SetRequest]:
    return [SetRequest(key, delay=delay, payload=PAYLOAD, handler="nothing") for key in keys]


def _set(scheduler: Scheduler, requests: list[SetRequest]) -> None:
    for part in batched(requests, BATCH):
        scheduler.set_many(part)


def _bare(meter: _Meter, connection: psycopg.Connection[Any], keys: list[str]) -> None:
    now = time.time_ns() // 1_000_000
    lots = [(list(part), list(range(1, len(part) + 1))) for part in batched(keys, BATCH)]

    def insert(due_at: int, lot: tuple[list[str], list[int]]) -> None:
        connection.execute(_INSERT, (due_at, f'"{PAYLOAD}"'.encode(), *lot), prepare=True)

    with meter.of(f"bare {CYCLE}", len(keys)):
        for lot in lots:
            insert(now, lot)
            connection.execute(_BEGIN, (lot[0],), prepare=True)
            connection.execute(_END, (lot[0],), prepare=True)
    with meter.of(f"bare {SETS}", len(keys)):
        for lot in lots:
            insert(now + 1_000 * _HOUR_S, lot)
    for lot in lots:
        connection.execute("DELETE FROM bare WHERE key = ANY(%s)", (lot[0],))
