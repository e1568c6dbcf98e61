"""
The writes of one transaction, in as few statements as they allow.

Most of what a busy scheduler writes needs no look before the leap: the begin of a pending job, the end of a running
one. They go as one statement for many rows, which counts the rows it changed: if the count is right, every guess was.
If it is not, nothing is committed, and all is done again with care: each job is read, and the rules say what becomes
of it. So are all other writes from the start.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

from tickwheel.scheduler._model import (
    Advance,
    Answer,
    Begin,
    Cancel,
    Job,
    JobWrite,
    Move,
    Replay,
    Set,
    Settled,
    State,
    Write,
)
from tickwheel.scheduler.stores._rows import CODES, job_of, row_of, text_of
from tickwheel.scheduler.stores._rules import BEGUN, GONE, NOT_OWNER, decide, key_of
from tickwheel.scheduler.stores.sqlite._queries import KEYS_AT_ONCE, SQL, jobs_by_key

__all__ = ["Batch", "WrongGuessError", "shelf_of"]

_PENDING: Final = CODES[State.PENDING]
_RUNNING: Final = CODES[State.RUNNING]
_DEAD_SHARD: Final = -1
_SHORT_MS: Final = 60_000
"""Jobs that live no longer than this have their keys apart, in few pages."""

_ORDER: Final = ("delete_job", "delete_key", "insert_job", "insert_key", "update_key", "update_job", "insert_note")
"""Old rows make room before new ones come."""

_Row: TypeAlias = tuple[Any, ...]
_Careful: TypeAlias = tuple[int, str, JobWrite]


class WrongGuessError(Exception):
    """
    A job was not as a begin or settle took it to be: roll back, and do it again with care.
    """


class Batch:
    """
    One transaction's writes; whoever makes it begins, commits and rolls back.
    """

    def __init__(self, connection: sqlite3.Connection, now: int, *, is_owner: bool) -> None:
        """
        Read the ledger.

        Args:
            connection: With a transaction open for writing.
            now: The store's clock, in ms.
            is_owner: Whether this process fires the jobs; otherwise the owner is left a note of what became pending.
        """
        self._connection = connection
        self._now = now
        self._is_owner = is_owner
        self._ledger: tuple[Any, ...] = connection.execute(SQL["read_ledger"]).fetchone()
        self._generation: int
        self._generation, *self._counts, self._watermark, self._epoch, self._owner = self._ledger
        self.has_notes = False

    def apply(self, writes: Sequence[Write], *, is_guessing: bool) -> list[Answer]:
        """
        Do all *writes*, in order, and answer each.

        Raises:
            WrongGuessError: If *is_guessing* and a guess was wrong.
        """
        answers: list[Answer] = [NOT_OWNER] * len(writes)
        begins: list[Job] = []
        ends: list[Job] = []
        careful: list[_Careful] = []
        for index, write in enumerate(writes):
            if isinstance(write, (Set, Move, Cancel, Replay)):
                careful.append((index, key_of(write), write))
            elif self._owner is None or write.epoch != self._epoch:
                pass
            elif isinstance(write, Advance):
                self._watermark = max(self._watermark, write.until)
                answers[index] = GONE
            elif not is_guessing:
                careful.append((index, write.job.key, write))
            elif isinstance(write, Begin):
                begins.append(write.job)
                answers[index] = BEGUN
            elif write.how is Settled.DONE and write.due_at is None:
                ends.append(write.job)
                answers[index] = GONE
            else:
                careful.append((index, write.job.key, write))
        self._check_apart(begins, ends, careful)
        self._guess(begins, ends)
        if careful:
            self._do_with_care(careful, answers)
        self._write_ledger()
        return answers

    def _guess(self, begins: list[Job], ends: list[Job]) -> None:
        if begins:
            self._change("begin_job", [(job.due_at, job.generation) for job in begins])
            self._counts[_PENDING] -= len(begins)
            self._counts[_RUNNING] += len(begins)
        if ends:
            self._change("end_job", [(job.due_at, job.generation) for job in ends])
            self._change("delete_key", [(shelf_of(job), job.key) for job in ends])
            self._counts[_RUNNING] -= len(ends)

    def _check_apart(self, begins: list[Job], ends: list[Job], careful: list[_Careful]) -> None:
        # Begins are done first, then ends, then the rest: for two writes to one key that may be the wrong order.
        kinds = [[job.key for job in begins], [job.key for job in ends], [key for _, key, _ in careful]]
        kinds = [keys for keys in kinds if keys]
        if len(kinds) > 1 and any(not set(keys).isdisjoint(others) for keys, others in combinations(kinds, 2)):
            raise WrongGuessError

    def _do_with_care(self, writes: list[_Careful], answers: list[Answer]) -> None:
        before = self._load({key for _, key, _ in writes})
        after: dict[str, Job | None] = dict(before)
        for index, key, write in writes:
            answers[index], after[key] = decide(write, after.get(key), self._now, self._next_generation)
        self._store(before, after)

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

    def _load(self, keys: Iterable[str]) -> dict[str, Job]:
        wanted: list[str | None] = list(keys)
        found: dict[str, Job] = {}
        start = 0
        while start < len(wanted):
            size = next(size for size in KEYS_AT_ONCE if size <= len(wanted) - start or size == 1)
            part = wanted[start : start + size]
            start += size
            for row in self._connection.execute(jobs_by_key(size), part):
                job = job_of(row)
                found[job.key] = job
        return found

    def _store(self, before: dict[str, Job], after: dict[str, Job | None]) -> None:
        rows: dict[str, list[_Row]] = {name: [] for name in _ORDER}
        for key, job in after.items():
            old = before.get(key)
            if job is old:
                continue
            if old is not None:
                self._counts[CODES[old.state]] -= 1
                if job is None:
                    rows["delete_key"].append((shelf_of(old), key))
                    rows["delete_job"].append(_place(old))
                    continue
                if _place(job) == _place(old):
                    self._counts[CODES[job.state]] += 1
                    rows["update_job"].append((CODES[job.state], job.attempt, text_of(job.error), *_place(job)))
                    continue
                rows["update_key"].append((shelf_of(job), job.due_at, job.generation, shelf_of(old), key))
                rows["delete_job"].append(_place(old))
            elif job is not None:
                rows["insert_key"].append((shelf_of(job), key, job.due_at, job.generation))
            else:
                continue  # set and gone again in this batch
            self._counts[CODES[job.state]] += 1
            rows["insert_job"].append((_place(job)[0], *row_of(job)))
            if not self._is_owner and job.state is State.PENDING:
                rows["insert_note"].append((job.generation, job.due_at))
        for name, changed in rows.items():
            self._change(name, changed)
        self.has_notes = bool(rows["insert_note"])

    def _change(self, name: str, rows: Sequence[_Row]) -> None:
        if rows and self._connection.executemany(SQL[name], rows).rowcount != len(rows):
            raise WrongGuessError

    def _write_ledger(self) -> None:
        ledger = (self._generation, *self._counts, self._watermark)
        if ledger != self._ledger[: len(ledger)]:
            self._connection.execute(SQL["write_ledger"], ledger)


def shelf_of(job: Job) -> int:
    """
    Return the shelf that the key of *job* is on, which its own fields decide.
    """
    if job.state is State.DEAD:
        return _DEAD_SHARD
    return 0 if job.due_at - job.first_set_at <= _SHORT_MS else 1


def _place(job: Job) -> tuple[int, int, int]:
    return (_DEAD_SHARD if job.state is State.DEAD else 0, job.due_at, job.generation)
