"""
What nodes ask of the owners of shards: whether a counted attempt has started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tickwheel.scheduler.model import Job, State
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["ask", "asked", "started", "tell_started"]

_KEPT_MS: Final = 60_000


def ask(connection: Connection, jobs: Sequence[Job], shard_of: Callable[[str], int]) -> set[int]:
    """
    Leave a question about each of *jobs* that has an owner, and return the generations of the others.

    What runs may be in another shard than that of its key.
    """
    shards = {job.key: shard_of(job.key) for job in jobs}
    shards.update(connection.execute(SQL["shards_of_running"], (list(shards),)).fetchall())
    rows = connection.execute(SQL["unowned_shards"], (sorted(set(shards.values())),)).fetchall()
    unowned = {row[0] for row in rows}
    connection.execute(SQL["forget_questions"], (_KEPT_MS,))
    owned = sorted(
        [
            (shards[job.key], job.generation, job.due_at, job.attempt, job.key)
            for job in jobs
            if shards[job.key] not in unowned
        ]
    )
    if owned:
        connection.execute(SQL["ask"], [list(column) for column in zip(*owned, strict=True)])
    return {job.generation for job in jobs if shards[job.key] in unowned}


def asked(connection: Connection, shards: Sequence[int]) -> list[Job]:
    """
    Return what is asked of the owner of *shards* and not answered.
    """
    rows = connection.execute(SQL["questions"], (list(shards), _KEPT_MS)).fetchall()
    return [
        Job(key, generation, due_at, attempt=attempt, state=State.RUNNING) for key, generation, due_at, attempt in rows
    ]


def tell_started(connection: Connection, jobs: Sequence[Job]) -> None:
    """
    Answer that the attempts of *jobs* have started.
    """
    connection.execute(SQL["tell_started"], _attempts(jobs))


def started(connection: Connection, jobs: Sequence[Job]) -> set[int]:
    """
    Return the generations of those of which that was answered.
    """
    return {row[0] for row in connection.execute(SQL["started"], _attempts(jobs)).fetchall()}


def _attempts(jobs: Sequence[Job]) -> tuple[list[int], list[int], list[int]]:
    return [job.generation for job in jobs], [job.due_at for job in jobs], [job.attempt for job in jobs]
