"""
The writes of one transaction, in as few statements as they allow.

A batch knows no connection: it yields statements and is sent what comes of each, so that it goes the same way on a
connection that blocks and on one that is awaited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tickwheel.scheduler._model import Advance, Answer, Begin, Job, Settle, State, Write
from tickwheel.scheduler.stores._plan import Differences, Plan, WrongGuessError
from tickwheel.scheduler.stores._rows import job_of, row_of
from tickwheel.scheduler.stores.postgres._arrays import COLUMNS, Array, Int4s, Int8s, Texts
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["Batch", "Result", "Statement", "Steps", "add_counts", "run", "run_async"]

_T = TypeVar("_T")

_FLOOR_MARGIN: Final = 100_000
"""What others may draw while a sequence is raised, without its going back behind them."""

_STATES: Final = (State.PENDING, State.RUNNING, State.DEAD)


class Statement(NamedTuple):
    """
    One to execute: its text, and its values.
    """

    text: str
    values: Sequence[Any] | dict[str, Any] = ()


class Result(NamedTuple):
    """
    What came of a statement.
    """

    changed: int
    rows: list[Any]


Steps: TypeAlias = Generator[Statement, Result, _T]


def run(connection: Connection, steps: Steps[_T]) -> _T:
    """
    Execute what *steps* yield, one after the other, and return their end.
    """
    try:
        statement = next(steps)
        while True:
            try:
                cursor = connection.execute(statement.text, statement.values)
                rows = cursor.fetchall() if cursor.description else []
            except BaseException as error:  # noqa: BLE001 - it is raised where the statement was yielded
                statement = steps.throw(error)
            else:
                statement = steps.send(Result(cursor.rowcount, rows))
    except StopIteration as end:
        result: _T = end.value
        return result


async def run_async(connection: Any, steps: Steps[_T]) -> _T:
    """
    Do the same on a connection, or cursor, that is awaited.
    """
    try:
        statement = next(steps)
        while True:
            try:
                cursor = await connection.execute(statement.text, statement.values)
                rows = await cursor.fetchall() if cursor.description else []
            except BaseException as error:  # noqa: BLE001 - as above
                statement = steps.throw(error)
            else:
                statement = steps.send(Result(cursor.rowcount, rows))
    except StopIteration as end:
        result: _T = end.value
        return result


class Batch:
    """
    One transaction's writes; whoever makes it begins, commits and rolls back.
    """

    def __init__(self, shard_of: Callable[[str], int], owned: frozenset[int], *, is_guest: bool = False) -> None:
        """
        Take note of what is owned here: jobs of other shards leave a note for their owners.

        Args:
            shard_of: The shard of a key.
            owned: Those whose owner hears of these writes anyway.
            is_guest: Whether the transaction is somebody else's, who may leave it open: it locks nothing that all
                writers need.
        """
        self._shard_of = shard_of
        self._owned = owned
        self._is_guest = is_guest
        self._counts: Counter[State] = Counter()
        self._running: Counter[int] = Counter()
        self.has_notes = False

    def apply(self, writes: Sequence[Write], *, is_guessing: bool) -> Steps[list[Answer]]:
        """
        Do all *writes*, in order, and answer each.

        Raises:
            WrongGuessError: If a guess was wrong, or somebody else made a job of the same key meanwhile.
        """
        epochs = yield from self._epochs(writes)
        plan = Plan.of(writes, epochs, self._shard_of, is_guessing=is_guessing)
        if plan.begins:
            yield from self._guess("begin_jobs", plan.begins, {State.PENDING: -1, State.RUNNING: 1})
        if plan.ends:
            yield from self._guess("end_jobs", plan.ends, {State.RUNNING: -1})
        if plan.careful:
            yield from self._do_with_care(plan)
        yield from self._write_shards(plan.watermarks)
        counts = [self._counts[state] for state in _STATES]
        if self._is_guest and any(counts):
            yield Statement(SQL["add_counts_apart"], counts)
        else:
            yield from add_counts(*counts)
        return plan.answers

    def _epochs(self, writes: Sequence[Write]) -> Steps[dict[int, int]]:
        shards = {write.shard for write in writes if isinstance(write, Advance)}
        shards |= {self._shard_of(write.job.key) for write in writes if isinstance(write, (Begin, Settle))}
        if not shards:
            return {}
        return dict((yield Statement(SQL["epochs"], (sorted(shards),))).rows)

    def _guess(self, name: str, jobs: list[Job], changes: dict[State, int]) -> Steps[None]:
        # In the order in which all lock what they write.
        places = sorted([(self._shard_of(job.key), job.due_at, job.generation) for job in jobs])
        shards, dues, generations = zip(*places, strict=True)
        yield from _change(name, (Int4s.of(shards), Int8s.of(dues), Int8s.of(generations)), len(jobs))
        for state, change in changes.items():
            self._counts[state] += change * len(jobs)
        for shard, number in Counter(shards).items():
            self._running[shard] += changes[State.RUNNING] * number

    def _do_with_care(self, plan: Plan) -> Steps[None]:
        rows = (yield Statement(SQL["jobs_by_key"], (Texts.of(plan.keys()),))).rows
        if plan.floor:
            yield Statement(SQL["raise_generation"], {"floor": plan.floor, "margin": _FLOOR_MARGIN})
        # Drawn while the rows are locked: a key's generations grow, whoever writes it.
        drawn = (yield Statement(SQL["generations"], (len(plan.careful),))).rows
        numbers: Iterator[tuple[int, int]] = iter(drawn)
        before = {row[0]: job_of(row) for row in rows}
        yield from self._store(plan.decide(before, drawn[0][1], lambda: next(numbers)[0]))

    def _store(self, differences: Differences) -> Steps[None]:
        changed = [job for _, job in differences.changed]
        changed.sort(key=lambda job: job.key)
        new = sorted(differences.new, key=lambda job: job.key)
        if differences.gone:
            keys = sorted(job.key for job in differences.gone)
            yield from _change("delete_jobs", (Texts.of(keys),), len(keys))
        if changed:
            yield from _change("update_jobs", self._columns(changed), len(changed))
        if new:
            yield from _change("insert_jobs", self._columns(new), len(new))
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
            shards, generations, names = zip(*notes, strict=True)
            yield from _change("insert_notes", (Int4s.of(shards), Int8s.of(generations), Texts.of(names)), len(notes))
            self.has_notes = True

    def _count(self, job: Job, change: int) -> None:
        self._counts[job.state] += change
        # What a rescue looks for is never too little: one more counts always, also while a lease has just ended.
        if job.state is State.RUNNING and (change > 0 or self._shard_of(job.key) in self._owned):
            self._running[self._shard_of(job.key)] += change

    def _columns(self, jobs: list[Job]) -> tuple[Array, ...]:
        columns = (*zip(*map(row_of, jobs), strict=True), tuple(map(self._place_of, jobs)))
        return tuple(kind.of(column) for kind, column in zip(COLUMNS, columns, strict=True))

    def _place_of(self, job: Job) -> int:
        shard = self._shard_of(job.key)
        return -1 - shard if job.state is State.DEAD else shard

    def _write_shards(self, watermarks: dict[int, int]) -> Steps[None]:
        shards = sorted({shard for shard, change in self._running.items() if change} | set(watermarks))
        if shards:
            values = ([self._running[shard] for shard in shards], [watermarks.get(shard, 0) for shard in shards])
            yield Statement(SQL["write_shards"], (shards, *values))


def _change(name: str, values: Sequence[Array], expected: int) -> Steps[None]:
    if (yield Statement(SQL[name], values)).changed != expected:
        raise WrongGuessError


def add_counts(pending: int, running: int, dead: int) -> Steps[None]:
    """
    Add to the counts by state, on any row of them that nobody else is writing.
    """
    changes = (pending, running, dead)
    if any(changes) and not (yield Statement(SQL["add_counts"], changes)).changed:
        yield Statement(SQL["add_counts_and_wait"], changes)
