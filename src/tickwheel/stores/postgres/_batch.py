"""
The writes of one transaction, in as few statements as they allow.

A batch knows no connection: it yields statements and is sent what comes of each, so that it goes the same way on a
connection that blocks and on one that is awaited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tickwheel.jobs.model import Answer, Job, Manifest, Set, State, Write
from tickwheel.jobs.rows import job_of, row_of
from tickwheel.jobs.rules import decide
from tickwheel.stores._manifests import Manifests
from tickwheel.stores._plan import FIRINGS, Differences, Plan, WrongGuessError
from tickwheel.stores.postgres._arrays import COLUMNS, Array, Int4s, Int8s, Texts
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._copy import rows_of
from tickwheel.stores.postgres._history import columns_of
from tickwheel.stores.postgres._queries import SQL

__all__ = ["ASIDE", "Batch", "Result", "ServerMovedError", "Statement", "Steps", "add_counts", "run", "run_async"]

_T = TypeVar("_T")

_FLOOR_MARGIN: Final = 100_000
"""What others may draw while a sequence is raised, without its going back behind them."""

_UNIQUE_VIOLATION: Final = "23505"

ASIDE: Final = 2**31 - 1
"""The shard of what was set aside: nobody's, and taken up by anybody."""

_PAUSED: Final = ASIDE - 1
"""That of pending jobs that are paused."""

_STATES: Final = (State.PENDING, State.RUNNING, State.DEAD)


class ServerMovedError(Exception):
    """
    Another server answers than the one that generations were last drawn from: roll back, let them leap, and try again.
    """


class Statement(NamedTuple):
    """
    One to execute: its text, its values, and what it copies in.
    """

    text: str
    values: Sequence[Any] | dict[str, Any] = ()
    data: bytes = b""


class Result(NamedTuple):
    """
    The outcome of a statement.
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
                if statement.data:
                    cursor = connection.cursor()
                    with cursor.copy(statement.text) as copy:
                        copy.write(statement.data)
                else:
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
            except BaseException as error:  # noqa: BLE001 - it is raised where the statement was yielded
                statement = steps.throw(error)
            else:
                statement = steps.send(Result(cursor.rowcount, rows))
    except StopIteration as end:
        result: _T = end.value
        return result


class Batch:
    """
    One transaction's writes; the caller begins, commits and rolls back.
    """

    def __init__(
        self,
        shard_of: Callable[[str], int],
        owner: str | None,
        owned: frozenset[int],
        *,
        sets_new: bool = False,
        is_joined: bool = False,
    ) -> None:
        """
        Take note of what is owned here: jobs of other shards leave a note for their owners.

        Args:
            shard_of: The shard of a key.
            owner: In whose name begins and ends are written, if anybody's.
            owned: Those whose owner hears of these writes anyway.
            sets_new: Whether keys that are set are guessed to have no job: a wrong guess ends the transaction.
            is_joined: Whether the transaction is somebody else's, who may leave it open: it locks nothing that all
                writers need.
        """
        self._shard_of = shard_of
        self._owner = owner
        self._owned = owned
        self._sets_new = sets_new
        self._is_joined = is_joined
        self._counts: Counter[State] = Counter()
        self._running: Counter[int] = Counter()
        self._away: dict[str, int] = {}
        self._found: dict[str, int] = {}
        self.noted: set[int] = set()
        """The shards whose owners are to hear of it."""
        self.pending: list[int] = []
        """The instants of jobs that are pending now."""
        self.has_found: bool | None = None
        """Whether keys that were set had jobs; None where nobody looked."""

    def apply(self, writes: Sequence[Write], *, is_guessing: bool) -> Steps[list[Answer]]:
        """
        Do all *writes*, in order, and answer each.

        Raises:
            WrongGuessError: If a guess was wrong, or somebody else made a job of the same key meanwhile.
        """
        epochs = yield from self._epochs(writes)
        plan = Plan.of(writes, epochs, self._shard_of, is_guessing=is_guessing)
        self._away = plan.away
        if plan.begins:
            yield from self._guess("begin_jobs", plan.begins, {State.PENDING: -1, State.RUNNING: 1})
        if plan.ends:
            yield from self._guess("end_jobs", plan.ends, {State.RUNNING: -1})
        if plan.careful and is_guessing and self._sets_new and _sets_apart(plan):
            yield from self._set_new(plan)
        elif plan.careful:
            yield from self._do_with_care(plan)
        if records := plan.records():
            yield Statement(SQL["insert_records"], columns_of(records))
        yield from self._write_shards()
        counts = [self._counts[state] for state in _STATES]
        if self._is_joined and any(counts):
            yield Statement(SQL["add_counts_apart"], counts)
        else:
            yield from add_counts(*counts)
        return plan.answers

    def _epochs(self, writes: Sequence[Write]) -> Steps[dict[int, int]]:
        epochs = {write.epoch for write in writes if isinstance(write, FIRINGS)}
        if not epochs or self._owner is None:
            return {}
        ask = Statement(SQL["epochs"], (sorted(epochs), self._owner))
        found = (yield ask).rows
        if len(found) < len(epochs):
            # This may have waited for a hand-over: only a statement that begins after it sees the tail, with the epoch.
            found = (yield ask).rows
        return dict(found)

    def _guess(self, name: str, jobs: list[Job], changes: dict[State, int]) -> Steps[None]:
        # In the order in which all lock what they write.
        places = sorted([(self._shard_of_firing(job.key), job.due_at, job.generation) for job in jobs])
        shards, dues, generations = zip(*places, strict=True)
        yield from _change(name, (Int4s.of(shards), Int8s.of(dues), Int8s.of(generations)), len(jobs))
        for state, change in changes.items():
            self._counts[state] += change * len(jobs)
        for shard, number in Counter(shards).items():
            self._running[shard] += changes[State.RUNNING] * number

    def _set_new(self, plan: Plan) -> Steps[None]:
        """
        Do sets of keys that are guessed to have no job, without a look for one.
        """
        now, draw = yield from self._draw(len(plan.careful))
        made: list[tuple[str, Job, int]] = []
        for index, key, write in plan.careful:
            assert isinstance(write, Set)
            plan.answers[index], job = decide(write, None, now, draw)
            if getattr(write, "actor", None) is not None:
                plan.note(index, write, now)
            if job is not None:
                made.append((key, job, self._shard_of(key)))
        made.sort(key=itemgetter(0))
        _, jobs, shards = zip(*made, strict=True)
        try:
            changed = (yield Statement(SQL["copy_jobs"], data=rows_of(jobs, shards))).changed
        except Exception as error:
            if getattr(error, "sqlstate", None) == _UNIQUE_VIOLATION:
                raise WrongGuessError from error
            raise
        if changed != len(jobs):
            raise WrongGuessError
        self._counts[State.PENDING] += changed
        yield from self._note(jobs)

    def _do_with_care(self, plan: Plan) -> Steps[None]:
        manifests = (yield from _lock_manifests(sorted(plan.manifests))) if plan.manifests else None
        rows = (yield Statement(SQL["jobs_by_key"], (Texts.of(plan.keys()),))).rows
        self._found = {row[0]: row[-1] for row in rows}
        away = {key: shard for key, shard in self._found.items() if 0 <= shard < _PAUSED}
        sets = [key for _, key, write in plan.careful if isinstance(write, Set)]
        if sets:
            self.has_found = not {row[0] for row in rows}.isdisjoint(sets)
        if plan.floor:
            yield Statement(SQL["raise_generation"], {"floor": plan.floor, "margin": _FLOOR_MARGIN})
        # Drawn while the rows are locked: a key's generations grow, by any writer.
        now, draw = yield from self._draw(len(plan.careful))
        yield from self._store(plan.decide({row[0]: job_of(row) for row in rows}, now, draw, away, manifests))
        for manifest in manifests.changed.values() if manifests is not None else ():
            yield Statement(SQL["write_manifest"], asdict(manifest))

    def _draw(self, count: int) -> Steps[tuple[int, Callable[[], int]]]:
        """
        Return the store's time, and what gives *count* new generations.
        """
        first, numbers, now, is_same_server = (yield Statement(SQL["generations"], (count,))).rows[0]
        if not is_same_server:
            raise ServerMovedError
        return now, iter(numbers or range(first, first + count)).__next__

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
        yield from self._note((*changed, *new))

    def _note(self, jobs: Sequence[Job]) -> Steps[None]:
        """
        Leave notes of those whose owner does not hear of this transaction.
        """
        pending = [job for job in jobs if job.state is State.PENDING]
        self.pending += [job.due_at for job in pending]
        notes = [
            (shard, job.generation, job.key)
            for job in pending
            if job.is_scheduled and (shard := self._shard_of(job.key)) not in self._owned
        ]
        if any(job.lacks_handler for job in pending):
            self.noted.add(ASIDE)  # somebody may have the handler
        if notes:
            shards, generations, names = zip(*notes, strict=True)
            yield from _change("insert_notes", (Int4s.of(shards), Int8s.of(generations), Texts.of(names)), len(notes))
            self.noted.update(shards)

    def _count(self, job: Job, change: int) -> None:
        self._counts[job.state] += change
        # What a rescue looks for is never too little: one more counts always, also while a lease has just ended.
        if job.state is State.RUNNING:
            shard = self._shard_of_firing(job.key) if change > 0 else self._found[job.key]
            if change > 0 or shard in self._owned:
                self._running[shard] += change

    def _columns(self, jobs: list[Job]) -> tuple[Array, ...]:
        columns = zip(COLUMNS, zip(*map(row_of, jobs), strict=True), strict=True)
        return (*(kind.of(column) for kind, column in columns), Int4s.of([*map(self._place_of, jobs)]))

    def _place_of(self, job: Job) -> int:
        if job.lacks_handler:
            return ASIDE
        if job.is_paused:
            return _PAUSED
        if job.state is State.RUNNING:
            return self._shard_of_firing(job.key)
        shard = self._shard_of(job.key)
        return -1 - shard if job.state is State.DEAD else shard

    def _shard_of_firing(self, key: str) -> int:
        """
        Return the shard under whose lease the job of *key* is begun or ended: that of its key, unless it was taken up.
        """
        shard = self._away.get(key) if self._away else None
        return self._shard_of(key) if shard is None else shard

    def _write_shards(self) -> Steps[None]:
        shards = sorted(shard for shard, change in self._running.items() if change)
        if shards:
            yield Statement(SQL["write_shards"], (shards, [self._running[shard] for shard in shards]))


def _lock_manifests(names: list[str]) -> Steps[Manifests]:
    """
    Read the manifests with *names*, which nobody else declares until the transaction ends.
    """
    yield Statement(SQL["make_manifests"], (Texts.of(names),))
    rows = (yield Statement(SQL["lock_manifests"], (Texts.of(names),))).rows
    return Manifests({row[0]: Manifest(*row) for row in rows})


def _sets_apart(plan: Plan) -> bool:
    """
    Return whether all careful writes are sets of different keys, for which there may be none.
    """
    writes = plan.careful
    if not all(isinstance(write, Set) and _may_be_new(write) for *_, write in writes):
        return False
    return len({key for _, key, _ in writes}) == len(writes)


def _may_be_new(write: Set) -> bool:
    is_free = write.under is None and not write.is_over
    return is_free and not write.if_generation and write.if_due_at is None


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
