"""
Requests to withdraw claimed attempts. An owner makes the job pending again, or answers that the attempt has started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tickwheel.jobs.model import Job, State
from tickwheel.jobs.rules import REQUESTS_KEPT_MS, holds
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL

__all__ = ["attempts", "report_started", "request", "requests"]


def request(connection: Connection, jobs: Sequence[Job], shard_of: Callable[[str], int]) -> tuple[set[int], set[int]]:
    """
    Request the withdrawal of each of *jobs* that has an owner.

    Returns the generations of jobs without an owner, and the shards to notify. A running job may be in a shard other
    than its key's.
    """
    shards = {job.key: shard_of(job.key) for job in jobs}
    shards.update(connection.execute(SQL["shards_of_running"], (list(shards),)).fetchall())
    rows = connection.execute(SQL["unowned_shards"], (sorted(set(shards.values())),)).fetchall()
    unowned = {row[0] for row in rows}
    connection.execute(SQL["forget_withdrawal_requests"], (REQUESTS_KEPT_MS,))
    owned = sorted(
        [
            (shards[job.key], job.generation, job.due_at, job.attempt, job.key)
            for job in jobs
            if shards[job.key] not in unowned
        ]
    )
    if owned:
        connection.execute(SQL["request_withdrawal"], [list(column) for column in zip(*owned, strict=True)])
    return {job.generation for job in jobs if shards[job.key] in unowned}, {shard for shard, *_ in owned}


def requests(connection: Connection, shards: Sequence[int]) -> list[Job]:
    rows = connection.execute(SQL["withdrawal_requests"], (list(shards),)).fetchall()
    return [
        Job(key, generation, due_at, attempt=attempt, state=State.RUNNING)
        for key, generation, due_at, attempt, age_ms in rows
        if holds(attempt, age_ms)
    ]


def report_started(connection: Connection, jobs: Sequence[Job]) -> None:
    connection.execute(SQL["report_started"], _attempts(jobs))


def attempts(connection: Connection, jobs: Sequence[Job]) -> dict[int, bool]:
    rows = connection.execute(SQL["attempts"], ([job.key for job in jobs], *_attempts(jobs))).fetchall()
    return dict(rows)


def _attempts(jobs: Sequence[Job]) -> tuple[list[int], list[int], list[int]]:
    return [job.generation for job in jobs], [job.due_at for job in jobs], [job.attempt for job in jobs]
