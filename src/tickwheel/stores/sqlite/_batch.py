from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from operator import attrgetter
from typing import Any, Final, TypeAlias

from tickwheel.jobs.columns import text_of
from tickwheel.jobs.model import Answer, Job, Manifest, Set, State, Write
from tickwheel.jobs.record import replace
from tickwheel.jobs.rows import CODES, PLACE, code_of, is_plain, is_same_but, job_of, row_of, with_other
from tickwheel.jobs.rules import created
from tickwheel.stores._manifests import Manifests
from tickwheel.stores._onces import PRUNED_AT_ONCE, Kept, Onces
from tickwheel.stores._plan import Differences, Plan, WrongGuessError
from tickwheel.stores.contract import Skill
from tickwheel.stores.sqlite._far import FAR_SHARD, NEAR_MS, bury, is_far, slot_of
from tickwheel.stores.sqlite._filters import Filters
from tickwheel.stores.sqlite._joining import Joined
from tickwheel.stores.sqlite._queries import (
    KEYS_AT_ONCE,
    SQL,
    by_keys,
    exact_shelves,
    for_keys,
    insert_rows,
    inserts,
    jobs_by_key,
    width_of,
)
from tickwheel.stores.sqlite._scopes import unpaused_skills

__all__ = ["Batch", "shelf_of"]

_PENDING: Final = CODES[State.PENDING]
_RUNNING: Final = CODES[State.RUNNING]
_DEAD_STATE: Final = State.DEAD  # a constant, as an enum look-up is slow
_DEAD_SHARD: Final = -1
_ASIDE_SHARD: Final = -2
_PAUSED_SHARD: Final = -3
_LONG_SHELF: Final = 1
_SHORT_MS: Final = 60_000
"""Keys of jobs that were set less than this many ms before their due time are in a separate shelf (key partition)."""

_WEIGHT_OF_SLOT: Final = 3
"""
Cost of adding far jobs (due in an hour or more) to a slot (group), in writes of near jobs.
"""
_WEIGHTLESS: Final = 16
"""Number of far jobs (due in an hour or more) that count as one write of a near job."""

_DUE_AT: Final = attrgetter("due_at")
_is_updated: Final = is_same_but("state", "attempt", "error", "raised_in")
"""Returns True if two versions of a job differ only in columns that the statement `update_job` writes."""

_first_tried: Final = with_other("state", "attempt")
_due_at: Final = with_other("due_at")

_Row: TypeAlias = tuple[Any, ...]


class Batch:
    """
    Applies the writes of one transaction. The caller begins the transaction, and commits it or rolls it back.
    """

    def __init__(
        self,
        connection: sqlite3.Connection | Joined,
        now: int,
        filters: Filters,
        *,
        owner: str | None,
        may_grow: bool = True,
        alone: str | None = None,
    ) -> None:
        """
        Read the meta row. *connection* has an open write transaction.

        *alone* is the job's key if the batch only sets one job without special options. The look-up of the key is then
        part of this read. *owner* is the name of this process if it owns the file. If not, claims and settles are
        refused, and the owner gets a note about each job that becomes pending. *may_grow* is False on a full disk. If a
        job due in an hour or more is then moved or cancelled, its row is deleted at once.
        """
        self._connection = connection
        self._now = now
        self._filters = filters
        self._ledger: tuple[Any, ...] = connection.execute(SQL["begin_batch"], (alone,)).fetchone()
        self.generation: int
        """The last generation assigned."""
        self._floor: int
        self.generation, *self._counts, self._floor, self._has_runs, is_known, epoch, actual = self._ledger
        if alone is not None and not is_known and self._has_runs:
            is_known = bool(filters.within(connection, (alone,)))
        self._is_new = alone is not None and not is_known
        self._may_grow = may_grow
        self._is_owner = owner is not None and owner == actual
        self._epochs = {0: epoch} if self._is_owner else {}
        self._far: set[int] = set()
        """Generations of the jobs found on the far level."""
        self.has_notes = False
        self.shelved = 0
        """Number of keys added to shelf 1."""
        self.weight = 0
        """Growth of the WAL, counted in writes of near jobs."""

    def apply(self, writes: Sequence[Write], *, is_guessing: bool) -> list[Answer]:
        """
        Apply *writes* in order, and return one answer for each.

        If *is_guessing* is True, some jobs are not read first, but assumed to be as the writes expect. Raises a
        `WrongGuessError` if an assumption was wrong. With *is_guessing* False, that error means contradictory tables.
        """
        self.weight = len(writes)
        if self._is_new and isinstance(write := writes[0], Set):
            return [self._create(write)]
        plan = Plan.of(writes, self._epochs, _shard_of, is_guessing=is_guessing)
        if plan.begins:
            self._begin(plan.begins)
        if plan.ends:
            self._end(plan.ends)
        if plan.careful:
            self.generation = max(self.generation, plan.floor)
            before = self._load(plan.keys())
            manifests = self._manifests(plan.manifests) if plan.manifests else None
            onces = self._onces(plan.tokens) if plan.tokens else None
            self._store(plan.decide(before, self._now, self._next_generation, manifests=manifests, onces=onces))
            if onces is not None:
                self._keep_answers(onces)
            if manifests is not None:
                rows = [astuple(manifest) for manifest in manifests.changed.values()]
                self._connection.executemany(SQL["write_manifest"], rows)
        if plan.notable:
            self._change("insert_record", [record[1:] for record in plan.records()])
        self._write_ledger()
        return plan.answers

    def _create(self, write: Set) -> Answer:
        answer = created(write, self._next_generation(), self._now)
        assert answer.job is not None
        self._store(Differences(new=[answer.job]))
        self._write_ledger()
        return answer

    def take_up(
        self, epoch: int, skills: Sequence[Skill], limit: int, unreadable: Sequence[str], unfit: Sequence[int]
    ) -> list[Job]:
        if epoch not in self._epochs.values():
            return []
        changed: list[tuple[Job, Job]] = []
        for target, handler in unpaused_skills(self._connection, skills, limit):
            left_out = (json.dumps(list(unreadable)), json.dumps(list(unfit)))
            name, skill = ("jobs_of_target_aside", (target,)) if handler is None else ("jobs_aside", (target, handler))
            values = (*skill, *left_out, limit - len(changed))
            old = [job_of(row) for row in self._connection.execute(SQL[name], values)]
            changed += [(job, replace(job, lacks_handler=False)) for job in old]
        self._store(Differences(changed=changed))
        self._write_ledger()
        return [job for _, job in changed]

    def _manifests(self, names: Iterable[str]) -> Manifests:
        rows = [row for name in names for row in self._connection.execute(SQL["manifests"], (name,))]
        return Manifests({row[0]: Manifest(*row) for row in rows})

    def _onces(self, tokens: Iterable[str]) -> Onces:
        rows = [row for token in tokens for row in self._connection.execute(SQL["answers"], (token,))]
        return Onces([((token, part), Kept(*kept)) for token, part, *kept in rows], self._now)

    def _keep_answers(self, onces: Onces) -> None:
        self.weight += len(onces.changed)
        self._connection.execute(SQL["prune_answers"], (self._now, PRUNED_AT_ONCE * len(onces.changed)))
        ended = [place for place, kept in onces.changed.items() if kept is None]
        self._connection.executemany(SQL["delete_answer"], ended)
        new = [(*place, *kept) for place, kept in onces.changed.items() if kept is not None]
        self._connection.executemany(SQL["write_answer"], new)

    def _begin(self, jobs: list[Job]) -> None:
        self._change_places("begin_job", jobs)
        self._counts[_PENDING] -= len(jobs)
        self._counts[_RUNNING] += len(jobs)
        self._raise_floor()

    def _end(self, jobs: list[Job]) -> None:
        self._change_places("end_job", jobs)
        self._delete_keys(jobs)
        self._counts[_RUNNING] -= len(jobs)

    def _raise_floor(self) -> None:
        (front,) = self._connection.execute(SQL["front_from"], (self._floor, self._floor)).fetchone()
        if front is not None:
            self._floor = front

    def _lower_floor(self, jobs: Sequence[Job]) -> None:
        floor = self._floor
        if jobs and min(map(_DUE_AT, jobs)) < floor:
            self._floor = min((job.due_at for job in jobs if job.due_at < floor and job.is_scheduled), default=floor)

    def _next_generation(self) -> int:
        self.generation += 1
        return self.generation

    def _load(self, keys: list[str]) -> dict[str, Job]:
        shelves = exact_shelves(self._connection, len(keys))
        found = self._look_up(keys, shelves) if shelves else {}
        if self._has_runs and (missing := [key for key in keys if key not in found]):
            for run, some in self._filters.within(self._connection, missing):
                found |= self._look_up(some, "?", run)
        return found

    def _look_up(self, keys: list[str], shelves: str, *where: int) -> dict[str, Job]:
        found: dict[str, Job] = {}
        start = 0
        while start < len(keys):
            size = next(size for size in KEYS_AT_ONCE if size <= len(keys) - start or size == 1)
            values = (*keys[start : start + size], *where)
            for row in self._connection.execute(jobs_by_key(size, shelves), values):
                job = found[row[0]] = job_of(row)
                if row[-1] == FAR_SHARD:
                    self._far.add(job.generation)
            start += size
        return found

    def _store(self, differences: Differences) -> None:
        if self._is_owner and not (differences.changed or differences.gone or differences.begun):
            self._lower_floor(differences.new)
            self._insert_jobs(differences.new)
            self._insert_keys(differences.new)
        else:
            self._store_all(differences)

    def _store_all(self, differences: Differences) -> None:
        counts, placed = self._counts, differences.new
        rows: dict[str, list[_Row]] = {"delete_job": [], "update_key": [], "put_key": [], "update_job": []}
        lifted, laid = list(differences.gone), list(placed)
        buried: list[int] = []
        for old, job in differences.changed:
            place, old_place = self._place(job), self._found_at(old)
            counts[CODES[old.state]] -= 1
            if place == old_place and _is_updated(job, old):
                counts[CODES[job.state]] += 1
                rows["update_job"].append((code_of(job), job.attempt, text_of(job.error), job.raised_in, *place))
            else:
                if self._may_grow and old_place[0] == FAR_SHARD and job.generation != old.generation:
                    buried.append(old.generation)
                else:
                    rows["delete_job"].append(old_place)
                placed.append(job)
                shelf, old_shelf = shelf_of(job), shelf_of(old)
                if shelf == old_shelf == _LONG_SHELF:
                    self.shelved += 1
                    rows["put_key"].append((shelf, job.key, job.due_at, job.generation))
                elif _LONG_SHELF in (shelf, old_shelf):  # a key that is in a run stays there
                    lifted.append(old)
                    laid.append(job)
                else:
                    rows["update_key"].append((shelf, job.due_at, job.generation, old_shelf, job.key))
        for old in differences.gone:
            counts[CODES[old.state]] -= 1
            if self._may_grow and old.generation in self._far:
                buried.append(old.generation)
                self.weight -= 1
            else:
                rows["delete_job"].append(self._found_at(old))
        self._lower_floor(placed)
        self._lower_floor([job for _, job in differences.changed])
        if not self._is_owner:
            rows["insert_note"] = [self._note(job) for job in placed if job.is_scheduled]
            self.has_notes = bool(rows["insert_note"])
        self._write_rows(rows, lifted, buried)
        self._insert_all(placed, laid, differences.begun)

    def _write_rows(self, rows: dict[str, list[_Row]], lifted: list[Job], buried: list[int]) -> None:
        if lifted:
            self._delete_keys(lifted)
        for name, values in rows.items():
            if values:
                self._change(name, values)
        if buried:
            self.weight += bury(self._connection, buried)

    def _insert_all(self, placed: list[Job], laid: list[Job], begun: list[Job]) -> None:
        if begun:
            self._insert_begun(begun)
        if placed:
            self._insert_jobs(placed)
            self._insert_keys(laid)

    def _insert_jobs(self, jobs: Iterable[Job]) -> None:
        plain: list[Any] = []
        far: list[Any] = []
        others: list[_Row] = []
        slots, count = set[int](), 0
        near_until = self._now + NEAR_MS

        def place_of(job: Job) -> int:  # on the far level, rows of a slot are appended in order of generation
            return job.due_at if job.due_at < near_until else slot_of(job.due_at)

        for job in sorted(jobs, key=place_of):  # neighbours share a page, which saves a fifth of an insert
            self._counts[CODES[job.state]] += 1
            plainly = is_plain(job)
            place = None if job.due_at < near_until else self._place(job)
            if place is not None and place[0] == FAR_SHARD:
                slots.add(place[1])
                count += 1
                if plainly:
                    far += (*place[1:], job.due_at, job.key, job.payload, job.target, job.handler, job.first_set_at)
                else:
                    others.append((FAR_SHARD, *row_of(_due_at(job, place[1])), job.due_at))
            elif plainly:
                plain += (job.due_at, job.generation, job.key, job.payload, job.target, job.handler, job.first_set_at)
            else:
                others.append((min(shelf_of(job), 0), *row_of(job), None))
        if others:
            self._change("insert_job", others)
        if plain:
            self._insert("insert_plain_job", plain)
        if slots:
            self.weight += _WEIGHT_OF_SLOT * len(slots) + count // _WEIGHTLESS - count
        if far:
            self._insert("insert_far_job", far)

    def _insert_begun(self, jobs: Sequence[Job]) -> None:
        plain: list[Any] = []
        others: list[_Row] = []
        for job in jobs:
            if is_plain(job):
                plain += (job.due_at, job.generation, job.key, job.payload, job.target, job.handler, job.first_set_at)
            else:
                others.append((0, *row_of(_first_tried(job, State.RUNNING, 1)), None))
        self._counts[_RUNNING] += len(jobs)
        self._change("insert_job", others)
        if plain:
            self._insert("insert_begun_job", plain)
        self._insert_keys(jobs)

    def _place(self, job: Job) -> tuple[int, int, int]:
        shelf = shelf_of(job)
        if shelf == _LONG_SHELF and job.state is State.PENDING and is_far(job, self._now):
            return (FAR_SHARD, slot_of(job.due_at), job.generation)
        return (min(shelf, 0), job.due_at, job.generation)

    def _found_at(self, job: Job) -> tuple[int, int, int]:
        if job.generation in self._far:
            return (FAR_SHARD, slot_of(job.due_at), job.generation)
        return (min(shelf_of(job), 0), job.due_at, job.generation)

    def _note(self, job: Job) -> _Row:
        if job.generation > self._ledger[0]:
            return job.generation, job.due_at, None
        return self._next_generation(), job.due_at, job.generation

    def _change_places(self, name: str, jobs: list[Job]) -> None:
        """
        Execute the statement *name* for the rows of *jobs*, once for each series of adjacent rows.

        Jobs are adjacent if they are due at the same time and have consecutive generations.
        """
        if len(jobs) == 1:
            self._change_at_once(SQL[name], PLACE(jobs[0]), 1)
            return
        single: list[_Row] = []
        for due_at, first, last in _runs(jobs):
            if first == last:
                single.append((due_at, first))
                continue
            # no other row can be between these, so the right count proves that exactly these jobs were changed
            if self._connection.execute(SQL[f"{name}s_between"], (due_at, first, last)).rowcount != last - first + 1:
                raise WrongGuessError
        self._change(name, single)

    def _change(self, name: str, rows: Sequence[_Row]) -> None:
        if rows and self._connection.executemany(SQL[name], rows).rowcount != len(rows):
            raise WrongGuessError

    def _insert(self, name: str, values: list[Any]) -> None:
        """
        Insert rows. *values* has the values of all rows in one flat list.
        """
        # a flat list, because the garbage collector would visit a tuple for each row
        if len(values) == width_of(name):  # most commits insert one job
            self._connection.execute(insert_rows(name, 1), values)
            return
        for statement, part, count in inserts(name, values):
            self._change_at_once(statement, part, count)

    def _insert_keys(self, jobs: Sequence[Job]) -> None:
        values: list[Any] = []
        for job in jobs:
            shelf = shelf_of(job)
            self.shelved += shelf == _LONG_SHELF
            values += (shelf, job.key, job.due_at, job.generation)
        if values:
            self._insert("insert_key", values)

    def _delete_keys(self, jobs: list[Job]) -> None:
        """
        Delete the keys of *jobs*, except keys that were already moved to a sorted run (see `_runs`), which stay there.
        """
        if len(jobs) == 1 and (shelf := shelf_of(jobs[0])) != _LONG_SHELF:
            self._change_at_once(for_keys("delete_keys", 1), (shelf, jobs[0].key), 1)
            return
        shelves: defaultdict[int, list[str]] = defaultdict(list)
        for job in jobs:
            shelves[shelf_of(job)].append(job.key)
        for shelf, keys in shelves.items():
            for statement, part, count in by_keys("delete_keys", shelf, keys):
                if shelf == _LONG_SHELF:
                    self._connection.execute(statement, part)
                else:
                    self._change_at_once(statement, part, count)

    def _change_at_once(self, statement: str, values: Sequence[Any], count: int) -> None:
        if self._connection.execute(statement, values).rowcount != count:
            raise WrongGuessError

    def _write_ledger(self) -> None:
        ledger = (self.generation, *self._counts, self._floor)
        if ledger != self._ledger[: len(ledger)]:
            self._connection.execute(SQL["write_ledger"], ledger)


def _runs(jobs: list[Job]) -> Iterator[tuple[int, int, int]]:
    due_at, first = jobs[0].due_at, jobs[0].generation
    if jobs[-1].due_at != due_at or jobs[-1].generation != first + len(jobs) - 1:  # several runs, or unsorted
        jobs = sorted(jobs, key=PLACE)
        due_at, first = PLACE(jobs[0])
    last = first - 1
    for job in jobs:
        generation = job.generation
        if generation != last + 1 or job.due_at != due_at:
            yield due_at, first, last
            due_at, first = job.due_at, generation
        last = generation
    yield due_at, first, last


def shelf_of(job: Job) -> int:
    if job.state is _DEAD_STATE:
        return _DEAD_SHARD
    if job.lacks_handler:
        return _ASIDE_SHARD
    if job.pause is not None and job.is_paused:
        return _PAUSED_SHARD
    return 0 if job.due_at - job.first_set_at <= _SHORT_MS else _LONG_SHELF


def _shard_of(_key: str) -> int:
    return 0
