"""
The owner regularly sweeps the store (scans it from the beginning).

So a job fires within seconds even if no notification reported it.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest

from tickwheel.jobs.model import Job, Set
from tickwheel.jobs.rows import row_of
from tickwheel.scheduler import SchedulerOptions, SetRequest
from tickwheel.stores import Abilities, MemoryStore
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.stores.sqlite._batch import shelf_of
from tickwheel.stores.sqlite._queries import SQL

WAIT_S = 5.0
"""Number of seconds within which docs/promise.md promises that a job fires even if no notification reports it."""


class Silent(MemoryStore):
    """
    A store to which other clients write, and which sends no notifications.
    """

    abilities = Abilities(has_notify=True)


def test_a_job_without_a_notification(make, record):
    """
    If another process stores a due job and sends no notification, the job fires within `WAIT_S`.
    """
    store = Silent()
    scheduler = make(store).start()
    scheduler.handler("h")(record)
    scheduler.set("known", delay=0, handler="h", payload="known")
    record.wait(1)
    started = time.monotonic()
    store.apply([Set(Job("unknown", 0, store.now_ms() + 10, b'"unknown"', handler="h"))])
    assert record.wait(2) == ["known", "unknown"]
    assert time.monotonic() - started < WAIT_S


class Counting(SqliteStore):
    """
    A store that counts the pending rows that its scans return.
    """

    searches = rows = 0

    def overdue(self, *asked):
        found = super().overdue(*asked)
        self.searches += 1
        self.rows += sum(map(len, found.values()))
        return found

    def scan(self, *asked, **how):
        found = super().scan(*asked, **how)
        self.searches += 1
        self.rows += sum(len(each.due) for each in found)
        return found


@pytest.mark.parametrize("staged_max", [10_000, 200], ids=["in memory", "most in the store"])
def test_an_idle_owner_reads_no_rows(make, tmp_path, record, until, staged_max):
    """
    If the owner scans the store again, it does not read the rows of jobs that wait for a worker.

    It still finds a new job.
    """
    path = tmp_path / "jobs.db"
    store = Counting(path)
    scheduler = make(store, options=SchedulerOptions(staged_max=staged_max))
    scheduler.handler("h")(record)
    scheduler.set_many(SetRequest(f"waits/{n}", delay=0, target="pull", handler=f"q{n}") for n in range(500))
    scheduler.start()

    def is_calm():
        searches, rows = store.searches, store.rows
        until(lambda: store.searches > searches + 1)
        return store.rows == rows

    until(is_calm)
    job = Job("unknown", 1_000_000, scheduler.get("waits/0").due_at, b'"unknown"', handler="h")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:  # writes without a note or a notification
        other.execute(SQL["insert_job"], (0, *row_of(job), None))
        other.execute(SQL["insert_key"], (shelf_of(job), job.key, job.due_at, job.generation))
    started = time.monotonic()
    assert record.wait(1) == ["unknown"]
    assert time.monotonic() - started < 10 * WAIT_S
    until(is_calm)
