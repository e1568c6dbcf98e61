from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from struct import error as StructError  # noqa: N812 - `struct.error` is a class
from typing import Any, Final, TypeVar

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, Minute, of_text, to_text
from tickwheel.jobs.model import (
    Answer,
    Claim,
    HistoryRecord,
    Job,
    JobQuery,
    Manifest,
    Page,
    Pause,
    State,
    Write,
    scope_over,
)
from tickwheel.jobs.rows import PLACE
from tickwheel.jobs.rules import ATTEMPT, is_counted, rescued, values_of
from tickwheel.stores._decided import Batch
from tickwheel.stores._entries import Changes, Entry, MinutePlace
from tickwheel.stores._memory_history import MemoryHistory
from tickwheel.stores._onces import PRUNED_AT_ONCE, Kept, Onces, Place, once_of
from tickwheel.stores._records import cut_off
from tickwheel.stores._reports import ahead_of, owners_of
from tickwheel.stores.contract import Abilities, Aside, Cursor, LaneSet, Lease, Node, Scan, Shard, ShardScan, Skill
from tickwheel.threads import Event, Lock

__all__ = ["BaseStore"]

_K = TypeVar("_K")
_V = TypeVar("_V")

_RUN_MS: Final = 60_000
"""Range of due times, in ms, of one sorted list of pending jobs. An insertion moves only the jobs of one list."""


class BaseStore:
    """
    A store with one owner and all jobs in memory. Thread-safe. Costs are as in `Store`, except that `page` is O(jobs).

    A subclass makes the store durable. It stores entries, which are names (text) with values (bytes), and need not know
    their meaning. `load` returns all entries, and `commit` changes some of them in one transaction. Attributes whose
    names begin with an underscore belong to this class; a subclass uses other names. *clock* is the store's wall clock,
    by default the system's.
    """

    abilities = Abilities(is_private=True, keeps_answers=True, claims_sets=True)
    url = ""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._lock = Lock()
        self._woken = Event()
        self._is_open = self._is_doubtful = False
        self._clear()

    def _clear(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._runs: dict[int, list[tuple[int, int, str]]] = {}
        self._run_minutes: list[int] = []
        self._counts = dict.fromkeys(State, 0)
        self._aside: dict[str, Job] = {}
        self._paused: set[str] = set()
        self._scopes: dict[str, Pause] = {}
        self._manifests: dict[str, Manifest] = {}
        self._kept: dict[str, dict[str, Kept]] = {}
        self._lapsing: list[tuple[int, str]] = []
        self._generation = 0
        self._owner: str | None = None
        self._epoch = 0
        self._history = MemoryHistory()
        self._minutes: dict[MinutePlace, Minute] = {}
        self._asked: dict[tuple[int, int, int], Job] = {}
        self._started: set[tuple[int, int, int]] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._jobs)} jobs>"

    def load(self) -> Iterable[tuple[str, bytes]] | None:
        """
        Lock the store for this process, and return all its entries; None if it exists only in memory.

        Each call of `open` calls this.

        Raises:
            StoreInUseError: If another process has locked the store.
            StoreError: If the store cannot be read.
        """
        return None

    def commit(self, entries: Iterable[Entry]) -> None:
        """
        Store *entries* atomically and durably. An entry with the value None deletes its name, if the name exists.

        Called by one thread at a time, before the changes take effect in memory. The cost should be O(entries).

        Raises:
            StoreError: If nothing was stored; or, with `is_unknown`, if the outcome is unknown. After that, `unload`
                and `load` are called before the next commit.
        """

    def unload(self) -> None:
        """
        Release the lock of `load`. This may be called without a lock, or after a `load` that failed.
        """

    def entries(self) -> Iterator[tuple[str, bytes]]:
        """
        Yield all entries as of the last successful commit, for a store whose `commit` rewrites everything.
        """
        answers = {(token, part): kept for token, parts in self._kept.items() for part, kept in parts.items()}
        whole = Changes(
            self._generation,
            self._epoch,
            {**self._jobs},
            {record.number: record for record in self._history.records()},
            self._manifests,
            {**self._scopes},
            {**answers},
            {**self._minutes},
        )
        return ((name, data) for name, data in whole.entries() if data is not None)

    def open(self) -> None:
        with self._lock:
            if self._is_open:
                return
            self._load()
            self._is_open = True

    def close(self) -> None:
        with self._lock:
            if self._is_open:
                self.unload()
            self._is_open = False
            self._owner = None
        self._woken.set()

    def now_ms(self) -> int:
        return self._clock.wall_ns() // 1_000_000

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        with self._lock:
            self._check_open()
            for write in writes:
                self._check_storable(write)
            now = self.now_ms()
            onces = self._onces(writes, now)
            batch = self._batch(now, onces)
            answers: list[Answer] = []
            for write in writes:
                answers.append(batch.claim(write, answers) if isinstance(write, Claim) else batch.answer(write))
            changes = batch.changes
            lapsed: Mapping[Place, Kept | None] = {}
            if batch.records:
                changes.records = self._history.numbered(batch.records)
            if onces is not None:
                lapsed = self._lapsed(PRUNED_AT_ONCE * len(onces.changed), now)
                changes.answers = {**lapsed, **onces.changed}
            try:
                self._save(changes)
            except BaseException:
                for token, _ in lapsed:
                    heapq.heappush(self._lapsing, (now, token))
                raise
            return answers

    def get(self, key: str) -> Job | None:
        with self._lock:
            self._check_open()
            return self._jobs.get(key)

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        with self._lock:
            self._check_open()
            return [self._jobs[key] for key in keys if key in self._jobs]

    def page(self, query: JobQuery) -> Page:
        with self._lock:
            self._check_open()
            after = query.cursor or ""  # keys are not empty
            found = (job for job in self._jobs.values() if job.key > after and query.matches(job))
            jobs = heapq.nsmallest(query.limit + 1, found, lambda job: job.key)
        is_last = len(jobs) <= query.limit
        return Page(tuple(jobs[: query.limit]), None if is_last else jobs[query.limit - 1].key)

    def count(self) -> dict[str, int]:
        with self._lock:
            self._check_open()
            return {state.value: number for state, number in self._counts.items()}

    def last_generation(self) -> int:
        with self._lock:
            self._check_open()
            return self._generation

    def shard_of(self, key: str) -> int:
        return 0

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        with self._lock:
            self._check_open()
            found: list[Job] = []
            for key in self._keys_from(after):
                job = self._jobs[key]
                if job.due_at >= until or len(found) == limit:
                    break
                found.append(job)
            return found

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        return {0: jobs} if (jobs := self.due(0, until, None, limit)) else {}

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        return [ShardScan.of([], 0, ahead_of(cursor, self.due, until, limit), until, limit) for cursor in cursors]

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        return [self._scan(cursor.after, until, limit, lanes, inside=inside, rows=rows) for cursor in cursors]

    def _scan(self, after: tuple[int, int], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int) -> Scan:
        found: list[Job] = []
        with self._lock:
            self._check_open()
            for count, key in enumerate(self._keys_from(after), 1):
                job = self._jobs[key]
                if job.due_at >= until:
                    break
                if lanes.has(job.target, job.handler) is inside:
                    found.append(job)
                if len(found) == limit or count == rows:
                    return Scan(found, PLACE(job))
        return Scan(found, None)

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        return self.due(0, until, (since, -1), limit)

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        counts = [0] * steps
        with self._lock:
            self._check_open()
            first = bisect_left(self._run_minutes, since // _RUN_MS)
            last = bisect_left(self._run_minutes, (since + step_ms * steps - 1) // _RUN_MS + 1)
            for minute in self._run_minutes[first:last]:
                for due_at, _, _ in self._runs[minute]:
                    step = (due_at - since) // step_ms
                    if 0 <= step < steps:
                        counts[step] += 1
        return counts

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        with self._lock:
            self._check_open()
            return self._history.of(key, before, limit)

    def latest_dead(self, limit: int) -> list[Job]:
        with self._lock:
            self._check_open()
            dead = (job for job in self._jobs.values() if job.state is State.DEAD)
            latest = heapq.nlargest(limit, dead, PLACE)
        return [replace(job, payload=b"") for job in latest]

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        with self._lock:
            self._check_open()
            going = self._history.surplus(since, per_key, total, limit)
            self._save(Changes(records=dict.fromkeys(going)))
            return len(going)

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        with self._lock:
            self._check_open()
            self._save(Changes(records=self._history.numbered(records)))

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        with self._lock:
            self._check_open()
            return self._history.acts(since, until, limit)

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        with self._lock:
            self._check_open()
            rows = ((each, (each.span_ms, each.at, each.owner)) for each in minutes)
            kept = {row: of_text(each.owner, each.at, each.span_ms, to_text(each)) for each, row in rows}
            self._save(Changes(minutes={**kept}))

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        with self._lock:
            self._check_open()
            places = sorted(each for each in self._minutes if each[0] == span_ms and since <= each[1] < until)
            return [self._minutes[place] for place in places]

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        first = {MINUTE_MS: minutes_from, QUARTER_MS: quarters_from}
        with self._lock:
            self._check_open()
            self._save(Changes(minutes=dict.fromkeys(row for row in self._minutes if row[1] < first[row[0]])))

    def acquire(self, owner: str) -> list[Lease]:
        with self._lock:
            self._check_open()
            if self._owner not in (None, owner):
                what = f"{self.url} is owned by {self._owner!r}"
                raise StoreInUseError(what, "stop that scheduler first")
            if self._owner == owner:
                return [Lease(0, self._epoch, None, 0, self.now_ms())]
            running = [job for job in self._jobs.values() if job.state is State.RUNNING]
            now = self.now_ms()
            records = self._history.numbered([cut_off(job, now) for job in running])
            jobs: dict[str, Job | None] = {job.key: rescued(job) for job in running}
            self._save(Changes(epoch=self._epoch + 1, jobs=jobs, records=records))
            self._owner = owner
            return [Lease(0, self._epoch, None, len(running), now)]

    def renew(self, owner: str) -> list[Lease]:
        with self._lock:
            return [Lease(0, self._epoch, None, 0, self.now_ms())] if self._owner == owner else []

    def release(self, owner: str) -> None:
        with self._lock:
            if self._owner == owner:
                self._owner = None

    def take_up(
        self,
        shard: int,
        epoch: int,
        skills: Sequence[Skill],
        limit: int,
        unreadable: Sequence[str] = (),
        *,
        unfit: Sequence[int] = (),
    ) -> list[Job]:
        with self._lock:
            self._check_open()
            if self._owner is None or epoch != self._epoch:
                return []
            wanted = set(skills)
            found = [
                job
                for job in self._aside.values()
                if ((job.target, job.handler) in wanted or (job.target, None) in wanted)
                and scope_over(job.target, job.handler, self._scopes) is None
                and not any(part in (job.recurrence or "") for part in unreadable)
                and job.generation not in unfit
            ]
            taken = [replace(job, lacks_handler=False) for job in found[:limit]]
            self._save(Changes(jobs={job.key: job for job in taken}))
            return taken

    def aside(self) -> list[Aside]:
        groups: dict[tuple[str, str], list[int]] = {}
        with self._lock:
            self._check_open()
            for job in self._aside.values():
                groups.setdefault((job.target, job.handler), []).append(job.due_at)
        return [Aside(*name, len(dues), min(dues)) for name, dues in sorted(groups.items())]

    def count_paused(self) -> int:
        with self._lock:
            self._check_open()
            return len(self._paused)

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        with self._lock:
            self._check_open()
            before = self._scopes.get(scope)
            records = self._history.numbered([record] if record is not None and before is not pause else [])
            self._save(Changes(scopes={scope: pause}, records=records))
            return before is not None

    def scopes(self) -> list[Pause]:
        with self._lock:
            self._check_open()
            return [self._scopes[scope] for scope in sorted(self._scopes)]

    def manifests(self, name: str | None = None) -> list[Manifest]:
        with self._lock:
            self._check_open()
            return [self._manifests[each] for each in sorted(self._manifests) if name in {None, each}]

    def shards(self) -> list[Shard]:
        with self._lock:
            self._check_open()
            return [Shard(0, self._owner, self._epoch)]

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        pass

    def nodes(self) -> list[Node]:
        return owners_of(self.shards())

    def wait_for_change(self, timeout_s: float) -> bool:
        self._woken.wait(timeout_s)
        self._woken.clear()
        return False

    def wake(self) -> None:
        self._woken.set()

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        with self._lock:
            self._check_open()
            if self._owner is None:
                return {job.generation for job in jobs}
            self._asked.update((ATTEMPT(job), job) for job in jobs)
            return set()

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        with self._lock:
            asked, self._asked = self._asked, {}
            return list(asked.values())

    def report_started(self, jobs: Sequence[Job]) -> None:
        with self._lock:
            self._started |= {ATTEMPT(job) for job in jobs}

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        with self._lock:
            counted = [job for job in jobs if is_counted(job, self._jobs.get(job.key))]
            said = {job.generation: ATTEMPT(job) in self._started for job in counted}
            self._started -= {ATTEMPT(job) for job in jobs}
            return said

    def _check_open(self) -> None:
        if not self._is_open:
            what = f"the store {self.url} is not open"
            raise StoreError(what, "open it before use, and make a new one after close")
        if self._is_doubtful:
            owner, epoch = self._owner, self._epoch
            self.unload()
            self._load()
            self._owner = owner if self._epoch == epoch else None

    def _check_storable(self, write: Write) -> None:
        # Refuse values that another store does not accept. Otherwise tests with this store would prove less.
        for value in values_of(write):
            try:
                if isinstance(value, str):
                    value.encode()
                elif value is not None:
                    value.to_bytes(8, "big", signed=True)
            except (UnicodeError, OverflowError) as error:
                what = f"{self.url}: a value cannot be stored ({error})"
                raise StoreError(what, "pass text without surrogates and integers in int64") from error

    def _load(self) -> None:
        whole = Changes()
        try:
            loaded = self.load()
            for name, data in loaded or ():
                whole.add(name, data)
        except BaseException as error:
            self.unload()
            if isinstance(error, (ValueError, LookupError, TypeError, StructError)):
                what = f"{self.url} has an entry that cannot be read ({error})"
                raise StoreError(what, "restore a backup, or open it with the tickwheel that wrote it") from error
            raise
        if loaded is not None:
            self._clear()
            self._take(whole)
        self._is_doubtful = False

    def _save(self, changes: Changes) -> None:
        try:
            self.commit(changes.entries())
        except StoreError as error:
            self._is_doubtful = error.is_unknown
            raise
        self._take(changes)

    def _take(self, changes: Changes) -> None:
        self._generation = changes.generation or self._generation
        self._epoch = changes.epoch or self._epoch
        for key, job in changes.jobs.items():
            self._replace(self._jobs.get(key), job)
        for number, record in changes.records.items():
            self._history.put(number, record)
        self._manifests |= changes.manifests
        for scope, pause in changes.scopes.items():
            _put(self._scopes, scope, pause)
        for (token, part), kept in changes.answers.items():
            parts = self._kept.setdefault(token, {})
            parts.pop(part, None)
            if kept is not None:
                parts[part] = kept
                heapq.heappush(self._lapsing, (kept.until, token))
            elif not parts:
                del self._kept[token]
        for row, minute in changes.minutes.items():
            _put(self._minutes, row, minute)

    def _onces(self, writes: Sequence[Write], now: int) -> Onces | None:
        tokens = {once.token for write in writes if (once := once_of(write)) is not None}
        if not tokens:
            return None
        stored = (((token, part), kept) for token in tokens for part, kept in self._kept.get(token, {}).items())
        return Onces(stored, now)

    def _batch(self, now: int, onces: Onces | None) -> Batch:
        epoch = None if self._owner is None else self._epoch
        return Batch(now, self._jobs, self._generation, epoch, manifests=self._manifests, onces=onces)

    def _lapsed(self, limit: int, now: int) -> dict[Place, Kept | None]:
        found: dict[Place, Kept | None] = {}
        while self._lapsing and self._lapsing[0][0] <= now and limit > 0:
            _, token = heapq.heappop(self._lapsing)
            limit -= 1
            parts = self._kept.get(token, {})
            if all(kept.until <= now for kept in parts.values()):
                found |= dict.fromkeys((token, part) for part in parts)
        return found

    def _replace(self, before: Job | None, after: Job | None) -> None:
        if before is not None:
            del self._jobs[before.key]
            self._counts[before.state] -= 1
            if before.state is State.PENDING:
                self._unfile(before)
        if after is not None:
            self._jobs[after.key] = after
            self._counts[after.state] += 1
            if after.state is State.PENDING:
                self._file(after)

    def _file(self, job: Job) -> None:
        if job.lacks_handler:
            self._aside[job.key] = job
            return
        if job.pause is not None:
            self._paused.add(job.key)
            return
        minute = job.due_at // _RUN_MS
        run = self._runs.get(minute)
        if run is None:
            run = self._runs[minute] = []
            insort(self._run_minutes, minute)
        insort(run, (job.due_at, job.generation, job.key))

    def _unfile(self, job: Job) -> None:
        if job.lacks_handler:
            del self._aside[job.key]
            return
        if job.pause is not None:
            self._paused.remove(job.key)
            return
        minute = job.due_at // _RUN_MS
        run = self._runs[minute]
        del run[bisect_left(run, (job.due_at, job.generation, job.key))]
        if not run:
            del self._runs[minute]
            del self._run_minutes[bisect_left(self._run_minutes, minute)]

    def _keys_from(self, after: tuple[int, int] | None) -> Iterator[str]:
        first = 0 if after is None else bisect_left(self._run_minutes, after[0] // _RUN_MS)
        start = None if after is None else (after[0], after[1] + 1, "")
        for minute in self._run_minutes[first:]:
            run = self._runs[minute]
            for index in range(0 if start is None else bisect_left(run, start), len(run)):
                yield run[index][2]


def _put(table: dict[_K, _V], key: _K, value: _V | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
