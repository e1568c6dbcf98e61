"""
The writes of one transaction, in as few statements as they allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tickwheel.scheduler._model import Advance, Answer, Begin, Job, Settle, State, Write
from tickwheel.scheduler.stores._plan import Differences, Plan, WrongGuessError
from tickwheel.scheduler.stores._rows import job_of, row_of
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["Batch", "add_counts"]

_FLOOR_MARGIN: Final = 100_000
"""What others may draw while a sequence is raised, without its going back behind them."""

_STATES: Final = (State.PENDING, State.RUNNING, State.DEAD)


class Batch:
    """
    One transaction's writes; whoever makes it begins, commits and rolls back.
    """

    def __init__(self, connection: Connection, shard_of: Callable[[str], int], owned: frozenset[int]) -> None:
        """
        Take note of what is owned here: jobs of other shards leave a note for their owners.
        """
        self._connection = connection
        self._shard_of = shard_of
        self._owned = owned
        self._counts: Counter[State] = Counter()
        self._running: Counter[int] = Counter()
        self.has_notes = False

    def apply(self, writes: Sequence[Write], *, is_guessing: bool) -> list[Answer]:
        """
        Do all *writes*, in order, and answer each.

        Raises:
            WrongGuessError: If a guess was wrong, or somebody else made a job of the same key meanwhile.
        """
        plan = Plan.of(writes, self._epochs(writes), self._shard_of, is_guessing=is_guessing)
        if plan.begins:
            self._guess("begin_jobs", plan.begins, {State.PENDING: -1, State.RUNNING: 1})
        if plan.ends:
            self._guess("end_jobs", plan.ends, {State.RUNNING: -1})
        if plan.careful:
            self._do_with_care(plan)
        self._write_shards(plan.watermarks)
        add_counts(self._connection, *(self._counts[state] for state in _STATES))
        return plan.answers

    def _epochs(self, writes: Sequence[Write]) -> dict[int, int]:
        shards = {write.shard for write in writes if isinstance(write, Advance)}
        shards |= {self._shard_of(write.job.key) for write in writes if isinstance(write, (Begin, Settle))}
        return dict(self._connection.execute(SQL["epochs"], (sorted(shards),)).fetchall()) if shards else {}

    def _guess(self, name: str, jobs: list[Job], changes: dict[State, int]) -> None:
        jobs.sort(key=lambda job: job.key)
        places = ([job.key for job in jobs], [job.due_at for job in jobs], [job.generation for job in jobs])
        self._change(name, places, len(jobs))
        for state, change in changes.items():
            self._counts[state] += change * len(jobs)
        for job in jobs:
            self._running[self._shard_of(job.key)] += changes[State.RUNNING]

    def _do_with_care(self, plan: Plan) -> None:
        rows = self._connection.execute(SQL["jobs_by_key"], (plan.keys(),)).fetchall()
        now = self._connection.execute(SQL["now"]).fetchone()
        if plan.floor:
            self._connection.execute(SQL["raise_generation"], {"floor": plan.floor, "margin": _FLOOR_MARGIN})
        # Drawn while the rows are locked: a key's generations grow, whoever writes it.
        drawn: Iterator[tuple[int]] = iter(
            self._connection.execute(SQL["generations"], (len(plan.careful),)).fetchall()
        )
        before = {row[0]: job_of(row) for row in rows}
        assert now is not None
        self._store(plan.decide(before, now[0], lambda: next(drawn)[0]))

    def _store(self, differences: Differences) -> None:
        changed = [job for _, job in differences.changed]
        changed.sort(key=lambda job: job.key)
        new = sorted(differences.new, key=lambda job: job.key)
        if differences.gone:
            keys = sorted(job.key for job in differences.gone)
            self._change("delete_jobs", (keys,), len(keys))
        if changed:
            self._change("update_jobs", self._columns(changed), len(changed))
        if new:
            self._change("insert_jobs", self._columns(new), len(new))
        for old in (*differences.gone, *(old for old, _ in differences.changed)):
            self._count(old, -1)
        for job in (*changed, *new):
            self._count(job, 1)
        notes = [
            (shard, job.generation, job.key)
            for job in (*changed, *new)
            if job.state is State.PENDING and (shard := self._shard_of(job.key)) not in self._owned
        ]
        if notes:
            self._change("insert_notes", tuple(map(list, zip(*notes, strict=True))), len(notes))
            self.has_notes = True

    def _count(self, job: Job, change: int) -> None:
        self._counts[job.state] += change
        if job.state is State.RUNNING and self._shard_of(job.key) in self._owned:
            self._running[self._shard_of(job.key)] += change

    def _columns(self, jobs: list[Job]) -> tuple[list[Any], ...]:
        rows = [(*row_of(job), self._place_of(job)) for job in jobs]
        return tuple(map(list, zip(*rows, strict=True)))

    def _place_of(self, job: Job) -> int:
        shard = self._shard_of(job.key)
        return -1 - shard if job.state is State.DEAD else shard

    def _change(self, name: str, values: tuple[list[Any], ...], expected: int) -> None:
        if self._connection.execute(SQL[name], values).rowcount != expected:
            raise WrongGuessError

    def _write_shards(self, watermarks: dict[int, int]) -> None:
        shards = sorted({shard for shard, change in self._running.items() if change} | set(watermarks))
        if shards:
            values = ([self._running[shard] for shard in shards], [watermarks.get(shard, 0) for shard in shards])
            self._connection.execute(SQL["write_shards"], (shards, *values))


def add_counts(connection: Connection, pending: int, running: int, dead: int) -> None:
    """
    Add to the counts by state, on any row of them that nobody else is writing.
    """
    changes = (pending, running, dead)
    if any(changes) and not connection.execute(SQL["add_counts"], changes).rowcount:
        connection.execute(SQL["add_counts_and_wait"], changes)
