"""
Requests to withdraw claimed attempts. The owner makes the job pending again, or answers that the attempt has started.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from tickwheel.jobs.model import Job, State
from tickwheel.jobs.rows import job_of
from tickwheel.jobs.rules import ATTEMPT, REQUESTS_KEPT_MS, holds, is_counted
from tickwheel.stores.sqlite._queries import SQL

__all__ = ["attempts", "report_started", "request", "requests"]


def request(connection: sqlite3.Connection, jobs: Sequence[Job], now: int) -> None:
    connection.execute(SQL["forget_withdrawal_requests"], (now - REQUESTS_KEPT_MS,))
    connection.executemany(SQL["request_withdrawal"], [(*ATTEMPT(job), job.key, now) for job in jobs])


def requests(connection: sqlite3.Connection, now: int) -> list[Job]:
    rows = connection.execute(SQL["withdrawal_requests"]).fetchall()
    return [
        Job(key, generation, due_at, attempt=attempt, state=State.RUNNING)
        for key, generation, due_at, attempt, asked_at in rows
        if holds(attempt, now - asked_at)
    ]


def report_started(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    connection.executemany(SQL["report_started"], list(map(ATTEMPT, jobs)))


def attempts(connection: sqlite3.Connection, jobs: Sequence[Job]) -> dict[int, bool]:
    found = [(job, connection.execute(SQL["job_of_key"], (job.key,)).fetchone()) for job in jobs]
    return {
        job.generation: connection.execute(SQL["has_started"], ATTEMPT(job)).fetchone() is not None
        for job, row in found
        if is_counted(job, job_of(row) if row else None)
    }
