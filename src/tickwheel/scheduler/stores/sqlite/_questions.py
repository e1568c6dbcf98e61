"""
What is asked of the file's owner by processes that do not own it: whether a counted attempt has started.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from tickwheel.scheduler.model import Job, State
from tickwheel.scheduler.stores.sqlite._queries import SQL

__all__ = ["ask", "asked", "started", "tell_started"]

_KEPT_MS: Final = 60_000


def ask(connection: sqlite3.Connection, jobs: Sequence[Job], now: int) -> None:
    """
    Leave a question about each of *jobs*, and forget old ones.
    """
    connection.execute(SQL["forget_questions"], (now - _KEPT_MS,))
    connection.executemany(SQL["ask"], [(*_attempt(job), job.key, now) for job in jobs])


def asked(connection: sqlite3.Connection, now: int) -> list[Job]:
    """
    Return what is asked and not answered.
    """
    rows = connection.execute(SQL["questions"], (now - _KEPT_MS,)).fetchall()
    return [
        Job(key, generation, due_at, attempt=attempt, state=State.RUNNING) for key, generation, due_at, attempt in rows
    ]


def tell_started(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """
    Answer that the attempts of *jobs* have started.
    """
    connection.executemany(SQL["tell_started"], list(map(_attempt, jobs)))


def started(connection: sqlite3.Connection, jobs: Sequence[Job]) -> set[int]:
    """
    Return the generations of those of which that was answered.
    """
    return {job.generation for job in jobs if connection.execute(SQL["has_started"], _attempt(job)).fetchone()}


def _attempt(job: Job) -> tuple[int, int, int]:
    return job.generation, job.due_at, job.attempt
