"""
A store in memory, for tests and for schedules that may end with the process.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, Minute, of_text, to_text
from tickwheel.jobs.model import (
    Adopt,
    Answer,
    Begin,
    Claim,
    Claimed,
    Declare,
    HistoryRecord,
    Job,
    JobQuery,
    Keep,
    Manifest,
    Outcome,
    Page,
    Pause,
    Settle,
    State,
    Write,
    key_of,
    scope_over,
)
from tickwheel.jobs.rows import PLACE
from tickwheel.jobs.rules import ATTEMPT, NOT_OWNER, decide, is_counted, rescued, values_of
from tickwheel.stores._manifests import Manifests
from tickwheel.stores._memory_history import MemoryHistory
from tickwheel.stores._onces import PRUNED_AT_ONCE, Kept, Onces, once_of
from tickwheel.stores._plan import FIRINGS
from tickwheel.stores._records import act_of, cut_off, has_no_record
from tickwheel.stores._reports import ahead_of, owners_of
from tickwheel.stores.contract import Abilities, Aside, Cursor, LaneSet, Lease, Node, Scan, Shard, ShardScan, Skill
from tickwheel.threads import Event, Lock

__all__ = ["MemoryStore"]

_RUN_MS: Final = 60_000
"""Pending jobs are kept in sorted runs, one for each minute: an insertion moves at most one minute's jobs."""


class MemoryStore:
    """
    Jobs in dictionaries, lost when the process ends. Only one scheduler may use a store. `page` costs O(jobs).
    """

    abilities = Abilities(
        loss_window="everything, when the process ends", is_private=True, keeps_answers=True, claims_sets=True
    )
    url = "memory://"

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._lock = Lock()
        self._woken = Event()
        self._is_open = False
        self._jobs: dict[str, Job] = {}
        self._runs: dict[int, list[tuple[int, int, str]]] = {}
        self._minutes: list[int] = []
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
        self._kept_minutes: dict[tuple[int, int, str], Minute] = {}
        self._asked: dict[tuple[int, int, int], Job] = {}
        self._started: set[tuple[int, int, int]] = set()

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._jobs)} jobs>"

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        with self._lock:
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
            now, manifests = self.now_ms(), Manifests(self._manifests)
            onces = self._onces(writes, now)
            claim = writes[-1] if writes and isinstance(writes[-1], Claim) else None
            answers = [self._answer(write, now, manifests, onces) for write in (writes[:-1] if claim else writes)]
            if claim is not None:
                answers.append(self._claim(claim, answers, now))
            self._manifests |= manifests.changed
            if onces is not None:
                self._keep_answers(onces, now)
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
            first = bisect_left(self._minutes, since // _RUN_MS)
            last = bisect_left(self._minutes, (since + step_ms * steps - 1) // _RUN_MS + 1)
            for minute in self._minutes[first:last]:
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
            return self._history.prune(since, per_key, total, limit)

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        with self._lock:
            self._check_open()
            for record in records:
                self._history.add(record)

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        with self._lock:
            self._check_open()
            return self._history.acts(since, until, limit)

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        with self._lock:
            self._check_open()
            for each in minutes:
                kept = of_text(each.owner, each.at, each.span_ms, to_text(each))
                self._kept_minutes[each.span_ms, each.at, each.owner] = kept

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        with self._lock:
            self._check_open()
            places = sorted(each for each in self._kept_minutes if each[0] == span_ms and since <= each[1] < until)
            return [self._kept_minutes[place] for place in places]

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        first = {MINUTE_MS: minutes_from, QUARTER_MS: quarters_from}
        with self._lock:
            self._check_open()
            for place in [place for place in self._kept_minutes if place[1] < first[place[0]]]:
                del self._kept_minutes[place]

    def acquire(self, owner: str) -> list[Lease]:
        with self._lock:
            self._check_open()
            if self._owner not in (None, owner):
                what = f"{self.url} is owned by {self._owner!r}"
                raise StoreInUseError(what, "stop that scheduler first")
            if self._owner == owner:
                return [Lease(0, self._epoch, None, 0, self.now_ms())]
            self._owner = owner
            self._epoch += 1
            running = [job for job in self._jobs.values() if job.state is State.RUNNING]
            now = self.now_ms()
            for job in running:
                self._history.add(cut_off(job, now))
                self._replace(job, rescued(job))
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
            for old, job in zip(found, taken, strict=False):
                self._replace(old, job)
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
            before = self._scopes.pop(scope, None)
            self._scopes |= {} if pause is None else {scope: pause}
            if record is not None and before is not pause:
                self._history.add(record)
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

    def _check_storable(self, write: Write) -> None:
        # Refuse values that all other stores refuse: otherwise tests with this store would prove less.
        for value in values_of(write):
            try:
                if isinstance(value, str):
                    value.encode()
                elif value is not None:
                    value.to_bytes(8, "big", signed=True)
            except (UnicodeError, OverflowError) as error:
                what = f"{self.url}: a value cannot be stored ({error})"
                raise StoreError(what, "pass text without surrogates and integers in int64") from error

    def _answer(self, write: Write, now: int, manifests: Manifests, onces: Onces | None) -> Answer:
        if isinstance(write, FIRINGS) and (self._owner is None or write.epoch != self._epoch):
            return NOT_OWNER
        if (refusal := manifests.answer(write, self._jobs)) is not None:
            return refusal
        if onces is not None and (known := onces.answer(write)) is not None:
            return known
        assert not isinstance(write, (Declare, Keep, Claim))
        job = self._jobs.get(key_of(write))
        if isinstance(write, Adopt):
            self._generation = max(self._generation, write.job.generation)
        answer, after = decide(write, job, now, self._next_generation)
        if after is not job:
            self._replace(job, after)
        if onces is not None:
            onces.note(write, answer)
        if isinstance(write, Settle):
            record = None if has_no_record(answer, is_first=write.is_first) else write.record
        else:
            record = act_of(write, job, answer, now)
        if record is not None:
            self._history.add(record)
        return answer

    def _claim(self, claim: Claim, answers: Sequence[Answer], now: int) -> Answer:
        if self._owner is None or claim.epoch != self._epoch:
            return NOT_OWNER
        indexes: list[int] = []
        for index in claim.indexes:
            outcome, job = answers[index].outcome, answers[index].job
            if outcome is Outcome.CREATED and job is not None and self._jobs.get(job.key) is job and job.is_scheduled:
                _, begun = decide(Begin(job, claim.epoch), job, now, self._next_generation)
                self._replace(job, begun)
                indexes.append(index)
        return Claimed(Outcome.BEGUN, indexes=indexes)

    def _onces(self, writes: Sequence[Write], now: int) -> Onces | None:
        tokens = {once.token for write in writes if (once := once_of(write)) is not None}
        if not tokens:
            return None
        stored = (((token, part), kept) for token in tokens for part, kept in self._kept.get(token, {}).items())
        return Onces(stored, now)

    def _keep_answers(self, onces: Onces, now: int) -> None:
        for (token, part), kept in onces.changed.items():
            parts = self._kept.setdefault(token, {})
            parts.pop(part, None)
            if kept is not None:
                parts[part] = kept
                heapq.heappush(self._lapsing, (kept.until, token))
        for _ in range(PRUNED_AT_ONCE * len(onces.changed)):
            if not self._lapsing or self._lapsing[0][0] > now:
                return
            _, token = heapq.heappop(self._lapsing)
            if all(kept.until <= now for kept in self._kept.get(token, {}).values()):
                self._kept.pop(token, None)

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

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
            insort(self._minutes, minute)
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
            del self._minutes[bisect_left(self._minutes, minute)]

    def _keys_from(self, after: tuple[int, int] | None) -> Iterator[str]:
        first = 0 if after is None else bisect_left(self._minutes, after[0] // _RUN_MS)
        start = None if after is None else (after[0], after[1] + 1, "")
        for minute in self._minutes[first:]:
            run = self._runs[minute]
            for index in range(0 if start is None else bisect_left(run, start), len(run)):
                yield run[index][2]
