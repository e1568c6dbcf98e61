"""
Applies the writes of one transaction in as few statements as possible.

A batch is a generator that yields statements and receives their results, so it works on blocking and async connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from tickwheel.jobs.model import Answer, Job, Manifest, Set, State, Write
from tickwheel.jobs.rows import job_of, row_of
from tickwheel.jobs.rules import decide
from tickwheel.stores._manifests import Manifests
from tickwheel.stores._onces import PRUNED_AT_ONCE, Kept, Onces
from tickwheel.stores._plan import FIRINGS, Differences, Plan, WrongGuessError
from tickwheel.stores.postgres._arrays import COLUMNS, Array, Byteas, Int4s, Int8s, Texts
from tickwheel.stores.postgres._begun import Entry
from tickwheel.stores.postgres._history import columns_of
from tickwheel.stores.postgres._queries import SQL
from tickwheel.stores.postgres._steps import Rows, Statement, Steps

__all__ = [
    "ASIDE",
    "Batch",
    "ServerMovedError",
    "is_wrong_guess",
]

_FLOOR_MARGIN: Final = 100_000
"""Safety margin when a sequence is advanced, because other sessions may draw numbers at the same time."""

_WRONG_GUESS: Final = "22P02"
"""SQLSTATE of a wrong assumption about a stored job. In a batch only the macro `@guessed` raises it."""

_DUPLICATE: Final = "23505"
_KEYS: Final = "tickwheel_job_pkey"
"""The constraint that fails if the key of a new job exists. `set_new` inserts without looking up the key first."""

ASIDE: Final = 2**31 - 1
"""Pseudo-shard of jobs that no node could run. It has no owner; any node may move its jobs to a shard of its own."""

_PAUSED: Final = ASIDE - 1
"""Pseudo-shard of paused jobs."""

_BY_KEY: Final = attrgetter("key")
_STATES: Final = (State.PENDING, State.RUNNING, State.DEAD)


class ServerMovedError(Exception):
    """
    This server did not assign the latest generations. The caller rolls back, raises the sequences, and retries.
    """


def is_wrong_guess(error: BaseException | None) -> bool:
    state = getattr(error, "sqlstate", None)
    if state == _DUPLICATE:
        diagnosis: Any = getattr(error, "diag", None)
        return bool(diagnosis.constraint_name == _KEYS)
    return state == _WRONG_GUESS or isinstance(error, WrongGuessError)


class Batch:
    """
    Applies the writes of one transaction. The caller begins the transaction, and commits it or rolls it back.
    """

    def __init__(
        self,
        shard_of: Callable[[str], int],
        owner: str | None,
        owned: frozenset[int],
        *,
        held: Mapping[int, int] = MappingProxyType({}),
        sets_new: bool = False,
        is_joined: bool = False,
        entry: Entry | None = None,
    ) -> None:
        """
        Record the shards of this node. Any other shard's owner gets a note about each job that becomes pending there.

        Args:
            shard_of: Returns the shard of a key.
            owner: The owner that claims and settles jobs, or None.
            owned: Shards that need no notes, because their owner learns of these writes directly.
            held: The shards that *owner* is known to hold, keyed by the epochs of their leases.
            sets_new: True to assume that no job has the key of a `Set`. A wrong assumption ends the transaction.
            is_joined: True for a caller's transaction. It may stay open for long, so rows of other jobs are not locked.
            entry: The change to the owner's lists of claimed jobs, which the batch fills in. None without an owner.
        """
        self._shard_of = shard_of
        self._owner = owner
        self._owned = owned
        self._held = held
        self._sets_new = sets_new
        self._is_joined = is_joined
        self._entry = entry
        self._counts: Counter[State] = Counter()
        self._away: dict[str, int] = {}
        self._found: dict[str, int] = {}
        self._versions: dict[str, str] = {}
        self._manifests: Manifests | None = None
        self._onces: Onces | None = None
        self._now = 0
        self.noted: set[int] = set()
        """The shards whose owners are to be notified."""
        self.pending: list[int] = []
        """The due times of jobs that have become pending."""
        self.has_found: bool | None = None
        """True if keys of sets had jobs, False if none had, None if unknown."""

    def apply(self, writes: Sequence[Write], *, is_guessing: bool) -> Steps[list[Answer]]:
        """
        Apply *writes* in order, and return one answer for each.

        A `WrongGuessError` means that an assumption was wrong, or that another writer has just created the same key.
        """
        epochs, is_held = yield from self._epochs(writes, is_guessing=is_guessing)
        plan = Plan.of(writes, epochs, self._shard_of, is_guessing=is_guessing)
        self._away = plan.away
        is_new = is_guessing and self._sets_new and not plan.tokens and _sets_apart(plan)
        differences = Differences()
        # All reads come before all locks, so that no lock is held while an answer is on its way.
        if plan.careful and is_new:
            differences = yield from self._decide_new(plan)
        elif plan.careful:
            differences = yield from self._decide(plan, is_guessing=is_guessing)
        if epochs and not is_held:
            owned = sorted(epochs.items())
            shards, numbers = map(list, zip(*owned, strict=True))
            yield Statement(SQL["hold_epochs"], (len(owned), shards, numbers, self._owner))
        if plan.begins:
            yield from self._guess("begin_jobs", plan.begins, {State.PENDING: -1, State.RUNNING: 1})
        if plan.ends:
            yield from self._guess("end_jobs", plan.ends, {State.RUNNING: -1})
        yield from self._store(differences, is_locked=not is_guessing)
        yield from self._list_begun(plan, differences)
        for manifest in self._manifests.changed.values() if self._manifests is not None else ():
            yield Statement(SQL["write_manifest"], asdict(manifest))
        if self._onces is not None and self._onces.changed:
            yield from self._keep_answers(self._onces)
        if records := plan.records():
            yield Statement(SQL["insert_records"], columns_of(records))
        counts = [self._counts[state] for state in _STATES]
        if any(counts) or differences.new or differences.gone:  # otherwise `update_jobs` writes a row of counts
            yield Statement(SQL["add_counts_apart" if self._is_joined else "add_counts"], counts)
        return plan.answers

    def _epochs(self, writes: Sequence[Write], *, is_guessing: bool) -> Steps[tuple[dict[int, int], bool]]:
        # the second value is True if the rows of these leases are already locked
        epochs = {write.epoch for write in writes if isinstance(write, FIRINGS)}
        if not epochs or self._owner is None:
            return {}, True
        if is_guessing and epochs <= self._held.keys():
            return {self._held[epoch]: epoch for epoch in epochs}, False
        ask = Statement(SQL["epochs"], (sorted(epochs), self._owner))
        (found,) = yield [ask]
        if len(found) < len(epochs):
            # The statement may have waited for a hand-over, which moved the epoch to a tail. Only a second statement
            # sees the tail.
            (found,) = yield [ask]
        return dict(found), True

    def _guess(self, name: str, jobs: list[Job], changes: dict[State, int]) -> Steps[None]:
        # All writers lock rows in this order.
        places = sorted([(self._shard_of_firing(job.key), job.due_at, job.generation) for job in jobs])
        shards, dues, generations = zip(*places, strict=True)
        yield Statement(SQL[name], (Int4s.of(shards), Int8s.of(dues), Int8s.of(generations), len(jobs)))
        for state, change in changes.items():
            self._counts[state] += change * len(jobs)

    def _decide_new(self, plan: Plan) -> Steps[Differences]:
        (drawn,) = yield [Statement(SQL["generations"], (len(plan.careful),))]
        now, draw = _drawn(drawn, len(plan.careful))
        differences = Differences()
        for index in plan.careful:
            write = plan.writes[index]
            assert isinstance(write, Set)
            plan.answers[index], job = decide(write, None, now, draw)
            if getattr(write, "actor", None) is not None:
                plan.note(index, write, None, now)
            if job is not None:
                differences.new.append(job)
        return differences

    def _decide(self, plan: Plan, *, is_guessing: bool) -> Steps[Differences]:
        manifests = self._manifests = (yield from _lock_manifests(sorted(plan.manifests))) if plan.manifests else None
        if plan.floor:
            yield Statement(SQL["raise_generation"], {"floor": plan.floor, "margin": _FLOOR_MARGIN})
        # Generations are drawn after the jobs were read, and the write checks that the jobs have not changed since. So
        # the generations of a key grow.
        asked = [
            Statement(SQL["jobs_read" if is_guessing else "jobs_by_key"], (Texts.of(plan.keys()),)),
            Statement(SQL["generations"], (len(plan.careful),)),
        ]
        if plan.tokens:
            asked.append(Statement(SQL["answers"], (Texts.of(sorted(plan.tokens)),)))
        rows, drawn, *kept = yield asked
        self._found = {row[0]: row[-2] for row in rows}
        self._versions = {row[0]: row[-1] for row in rows}
        away = {key: shard for key, shard in self._found.items() if 0 <= shard < _PAUSED}
        sets = [write.job.key for write in plan.writes if isinstance(write, Set)]
        if sets:
            self.has_found = not self._found.keys().isdisjoint(sets)
        now, draw = _drawn(drawn, len(plan.careful))
        if kept:
            self._now = now
            self._onces = Onces([((token, part), Kept(*rest)) for token, part, *rest in kept[0]], now)
        return plan.decide(
            {row[0]: job_of(row) for row in rows}, now, draw, away, manifests=manifests, onces=self._onces
        )

    def _keep_answers(self, onces: Onces) -> Steps[None]:
        changed = sorted(onces.changed.items())
        yield Statement(SQL["prune_answers"], (self._now, PRUNED_AT_ONCE * len(changed)))
        if ended := [place for place, kept in changed if kept is None]:
            tokens, parts = zip(*ended, strict=True)
            yield Statement(SQL["delete_answers"], (Texts.of(tokens), Texts.of(parts)))
        if new := [(*place, *kept) for place, kept in changed if kept is not None]:
            tokens, parts, asked, until, generations, data = zip(*new, strict=True)
            names = (Texts.of(tokens), Texts.of(parts), Texts.of(asked))
            columns = (*names, Int8s.of(until), Int8s.of(generations), Byteas.of(data))
            yield Statement(SQL["write_answers"], (*columns, self._now, len(new)))

    def _store(self, differences: Differences, *, is_locked: bool) -> Steps[None]:
        before = [*differences.gone, *(old for old, _ in differences.changed)]
        changed = sorted((job for _, job in differences.changed), key=_BY_KEY)
        new = sorted(differences.new, key=_BY_KEY)
        if before and not is_locked:
            keys = sorted(job.key for job in before)
            versions = [self._versions[key] for key in keys]
            yield Statement(SQL["hold_jobs"], (len(keys), Texts.of(keys), Texts.of(versions)))
        if differences.gone:
            yield Statement(SQL["delete_jobs"], (Texts.of(sorted(job.key for job in differences.gone)),))
        if changed:
            yield Statement(SQL["update_jobs"], self._columns(changed))
        if new:
            yield Statement(SQL["insert_jobs"], (*self._columns(new), len(new)))
        for old in before:
            self._counts[old.state] -= 1
        for job in (*changed, *new):
            self._counts[job.state] += 1
        yield from self._note((*changed, *new))

    def _note(self, jobs: Sequence[Job]) -> Steps[None]:
        pending = [job for job in jobs if job.state is State.PENDING]
        self.pending += [job.due_at for job in pending]
        notes = [
            (shard, job.generation, job.key)
            for job in pending
            if job.is_scheduled and (shard := self._shard_of(job.key)) not in self._owned
        ]
        if any(job.lacks_handler for job in pending):
            self.noted.add(ASIDE)  # another node may have the handler
        if notes:
            shards, generations, names = zip(*notes, strict=True)
            yield Statement(SQL["insert_notes"], (Int4s.of(shards), Int8s.of(generations), Texts.of(names)))
            self.noted.update(shards)

    def _list_begun(self, plan: Plan, differences: Differences) -> Steps[None]:
        if (entry := self._entry) is None:
            return
        were_running = {job.generation for job in differences.gone if job.state is State.RUNNING}
        begun = [*plan.begins]
        for old, job in differences.changed:
            if job.state is State.RUNNING and old.state is not State.RUNNING:
                begun.append(job)
            elif old.state is State.RUNNING and job.state is not State.RUNNING:
                were_running.add(old.generation)
        entry.begun = [job.generation for job in begun]
        entry.ended = [*(job.generation for job in plan.ends), *were_running]
        if begun:
            yield Statement(SQL["list_begun"], (self._owner, entry.slot, Texts.of([job.key for job in begun])))

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
        shard = self._away.get(key) if self._away else None
        return self._shard_of(key) if shard is None else shard


def _lock_manifests(names: list[str]) -> Steps[Manifests]:
    yield Statement(SQL["make_manifests"], (Texts.of(names),))
    (rows,) = yield [Statement(SQL["lock_manifests"], (Texts.of(names),))]
    return Manifests({row[0]: Manifest(*row) for row in rows})


def _sets_apart(plan: Plan) -> bool:
    writes = [plan.writes[index] for index in plan.careful]
    if not all(isinstance(write, Set) and _may_be_new(write) for write in writes):
        return False
    return len(set(plan.careful_keys)) == len(writes)


def _may_be_new(write: Set) -> bool:
    is_free = write.under is None and not write.is_over
    return is_free and not write.if_generation and write.if_due_at is None


def _drawn(rows: Rows, count: int) -> tuple[int, Callable[[], int]]:
    first, numbers, now, is_same_server = rows[0]
    if not is_same_server:
        raise ServerMovedError
    return now, iter(numbers or range(first, first + count)).__next__
