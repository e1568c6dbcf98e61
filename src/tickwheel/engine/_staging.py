"""
Stages loaded jobs that this node can run, and finds jobs that the cursors have missed.

A node can run a job if it has a handler or target that accepts the job's payload, if it understands the job's
recurrence rule, and if the job is not paused. A node sets aside any job that it cannot run: the job leaves its shard,
no attempt is counted, and the first node that can run it moves it to one of its own shards. A paused job stays aside
until it is resumed. If all nodes can run all jobs, this costs a set lookup per job, and a query every two seconds.

Each node reads from the store which handlers, queues and targets are paused: before it stages its first job, every two
seconds, and at once after a pause or resume through its own scheduler. From then on, it starts no paused job.

Cursors, commits and notifications can each miss a job: a hint may be lost, a former owner may have consumed a
notification, or a write may take effect long after its sender gave up. Every two seconds, one query for all shards
therefore searches the store for overdue jobs that are not in memory. The cost of the query depends on the number of
jobs that it finds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine._claims import ClaimBatcher
from tickwheel.engine._clock_steps import ClockStepAdjuster
from tickwheel.engine._completion import Completer
from tickwheel.engine._staged import Position, StagedJobs, position_of
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.host.registry import Registry
from tickwheel.jobs.explanation import WaitReason
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Answer, Job, SetAside, scope_over
from tickwheel.jobs.unreadable import is_readable, unreadable_part
from tickwheel.stores import Cursor, LaneSet, Skill, Versioned

__all__ = ["Loader", "OverdueSweeper", "PauseFilter"]

_NAMED_MAX: Final = 1_000
"""Maximum number of handlers and reasons that are remembered."""

_UNFIT_MAX: Final = 1_000
"""If this node meets more jobs with unfit payloads than this, it leaves all jobs of their handlers to other nodes."""

_log = logging.getLogger("tickwheel.scheduler")


class PauseFilter:
    """
    Decides which jobs this node can run: unpaused jobs whose handlers it has. Callable from any thread.
    """

    def __init__(
        self,
        resources: Resources,
        registry: Registry,
        staged: StagedJobs,
        completer: Completer,
        callbacks: EngineCallbacks,
    ) -> None:
        self._store = resources.store
        self._registry = registry
        self._waits = resources.hooks.waits
        self._staged = staged
        self._completer = completer
        self._callbacks = callbacks
        self._lock = resources.runtime.lock()
        self._paused: frozenset[str] | None = None
        self._is_aside_unknown = True
        self._unreadable: dict[str, str] = {}
        self._unfit: dict[int, Skill] = {}
        self._left: set[Skill] = set()
        self._named: set[tuple[str, str, str]] = set()

    def skills(self) -> Sequence[Skill]:
        skills = self._registry.skills()
        return [skill for skill in skills if skill not in self._left] if self._left else skills

    def unreadable(self) -> Sequence[str]:
        return list(self._unreadable)

    def unfit(self) -> Sequence[int]:
        return list(self._unfit)

    @property
    def is_complete(self) -> bool:
        return not self._unreadable and self._registry.is_complete

    def look_again(self) -> bool:
        for part, text in [*self._unreadable.items()]:
            if is_readable(text):
                self._unreadable.pop(part, None)
        self._registry.look_again()
        return self.is_complete

    def can_run(self, job: Job) -> bool:
        has_handler = self._registry.can_run(job.target, job.handler)
        return has_handler and self._can_read(job) and not self._is_paused(job) and self.misfit(job) is None

    def lacking(self, jobs: Sequence[Job]) -> Sequence[Job]:
        can_run, names = self._registry.can_run, {(job.target, job.handler) for job in jobs}
        has_all = all(can_run(*name) for name in names) and not any(self._registry.is_choosy(*name) for name in names)
        if has_all and not self._paused and all(job.recurrence is None or self._can_read(job) for job in jobs):
            return ()
        return [job for job in jobs if not self.can_run(job)]

    def warn(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            lane, lack = lane_of(job.target, job.handler), self.lack(job)
            self._waits.tell(lane, WaitReason.PAUSED if lack is None else WaitReason.NO_HANDLER, lack or "")
            if lack is not None:
                self._warn_once(job.target, job.handler, lack, f"job {job.key!r} waits for a node that can run it")

    def lack(self, job: Job) -> str | None:
        lack = self._registry.lack_of(job.target, job.handler)
        if lack is None and job.recurrence is not None and (part := unreadable_part(job.recurrence)) is not None:
            return f"this node cannot read {part} in its rule: install what it needs, such as tzdata or cronsim"
        if lack is None and self.misfit(job) is not None:
            return f"its payload does not fit {job.handler!r} here, as its error says: another version of it may run"
        return lack

    def _warn_of_aside(self) -> None:
        for each in self._store.aside():
            reason = self._registry.lack_of(each.target, each.handler)
            if reason is not None and scope_over(each.target, each.handler, self._paused or ()) is None:
                jobs = "1 job waits" if each.count == 1 else f"{each.count} jobs wait"
                self._warn_once(each.target, each.handler, reason, f"{jobs} for a node with handler {each.handler!r}")

    def _warn_once(self, target: str, handler: str, reason: str, waiting: str) -> None:
        name = (target, handler, reason)
        if name not in self._named and len(self._named) < _NAMED_MAX:
            self._named.add(name)
            _log.warning("%s: %s", waiting, reason)

    def misfit(self, job: Job) -> str | None:
        """
        Return why the handler of this node cannot take the payload of *job*. Such a job is left to other nodes.
        """
        reason = self._registry.misfit(job)
        if reason is not None and job.generation not in self._unfit:
            if len(self._unfit) < _UNFIT_MAX:
                self._unfit[job.generation] = (job.target, job.handler)
            else:
                self._left.add((job.target, job.handler))
        return reason

    def _can_read(self, job: Job) -> bool:
        if job.recurrence is None:
            return True
        if any(part in job.recurrence for part in [*self._unreadable]):
            return False
        if is_readable(job.recurrence):
            return True
        part = unreadable_part(job.recurrence)
        if part is not None:
            self._unreadable[part] = job.recurrence
        return part is None

    def reason(self, lane: str) -> WaitReason | None:
        target, _, name = lane.partition(":")
        if self._paused and scope_over(target, name, self._paused) is not None:
            return WaitReason.PAUSED
        return None if self._registry.can_run(target, name) else WaitReason.NO_HANDLER

    def unpaused(self, entries: list[StagedJob]) -> list[StagedJob]:
        if not self._paused:
            return entries
        paused = [entry for entry in entries if self._is_paused(entry.job)]
        self._give_back(paused)
        gone = set(paused)
        return [entry for entry in entries if entry not in gone]

    def load_pauses(self) -> None:
        if self._paused is None:
            self.refresh_pauses()

    def refresh_pauses(self) -> None:
        with self._lock:  # so that an earlier read cannot replace a later one
            is_first, before = self._paused is None, self._paused or frozenset()
            self._paused = paused = frozenset(pause.scope for pause in self._store.scopes())
        if paused - before:
            self._staged.drop(job.key for job in self._staged.jobs() if self._is_paused(job))
            self._give_back([entry for entry in self._staged.take(Phase.BEGUN) if self._is_paused(entry.job)])
            self._callbacks.rescan()
        if before - paused:
            self._callbacks.on_external_writes()
            self._is_aside_unknown = True
        if self._is_aside_unknown and not is_first:  # just after the start, handlers may be missing
            self._warn_of_aside()
            self._is_aside_unknown = False

    def _is_paused(self, job: Job) -> bool:
        paused = self._paused
        return paused is not None and bool(paused) and scope_over(job.target, job.handler, paused) is not None

    def _give_back(self, entries: Iterable[StagedJob]) -> None:
        for entry in self._staged.recall(entries):
            self._completer.give_back(entry)


_PAGE: Final = 1_000
_RETRY_S: Final = 1.0
"""Seconds before this node searches again for set-aside jobs, or for a missing library."""
_FULL_S: Final = 0.25
"""Seconds before this node searches again for set-aside jobs of a full lane."""
_TAKING_S: Final = 0.1
"""Seconds after which a scan takes no more set-aside jobs, so that it reads other nodes' changes soon."""
_BEHIND: Final = 4_000
"""Maximum number of unfinished writes that set jobs aside. Above it, lanes with their own cursors are not read."""
_CHUNK: Final = 500
"""Maximum number of jobs set aside in one write, so that callers need not wait long."""


class Loader:
    def __init__(
        self,
        resources: Resources,
        staged: StagedJobs,
        claims: ClaimBatcher,
        pause_filter: PauseFilter,
        adjuster: ClockStepAdjuster,
        *,
        on_more: Callable[[], object],
        on_room: Callable[[], object],
    ) -> None:
        self._store = resources.store
        self._writer = resources.writer
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._staged = staged
        self._claims = claims
        self.pause_filter = pause_filter
        self._adjuster = adjuster
        self._on_more = on_more
        self._on_room = on_room
        self._monotonic = resources.runtime.monotonic
        self._turns = count()
        self._is_waiting = False
        self._under_way = 0

    def stage(self, by_epoch: Mapping[int, Sequence[Job]], *, is_news: bool) -> list[Job]:
        """
        Stage the jobs that can run here; return the jobs whose lanes have no room. Callable from any thread.

        *by_epoch* maps the epochs of leases to jobs. Jobs that are due soon are claimed in one commit, in order, even
        if they are from several shards.
        """
        entries: list[StagedJob] = []
        refused: list[Job] = []
        for epoch, jobs in by_epoch.items():
            new, left = self._staged_of(jobs, epoch, is_news=is_news)
            entries += new
            refused += left
        if len(by_epoch) > 1:
            entries.sort(key=_turn)
        if entries:
            self._claims.add(entries)
        return refused

    def _staged_of(self, jobs: Sequence[Job], epoch: int, *, is_news: bool) -> tuple[list[StagedJob], list[Job]]:
        if lacking := self.pause_filter.lacking(jobs):
            gone = {job.generation for job in lacking}
            jobs = [job for job in jobs if job.generation not in gone]
            self._staged.drop([job.key for job in lacking])  # an older generation may be staged
            for start in range(0, len(lacking), _CHUNK):
                self._set_aside(lacking[start : start + _CHUNK], epoch)
        return self._staged.stage(jobs, epoch, is_news=is_news)

    def take_up(
        self,
        epochs: Mapping[int, int],
        place: Callable[[int, Sequence[Job]], object],
    ) -> None:
        """
        Take jobs that were set aside and can run here: move them to shards of one partition, and pass them to *place*.
        """
        self.pause_filter.load_pauses()
        if not self.pause_filter.look_again():
            self._wait_for_more()
        skills = self.pause_filter.skills()
        open_to = [
            (target, name)
            for target, name in skills
            if name is None or not self._staged.is_full(self._staged.lanes.of(target, name), is_due=True)
        ]
        if len(open_to) < len(skills):
            self._wait_for_more(_FULL_S)
        started, shards = self._monotonic(), deque(epochs)
        shards.rotate(-next(self._turns))  # begin with another shard: one search may not reach all
        for shard in shards:
            room, epoch = min(_PAGE, self._staged.free), epochs[shard]
            if room <= 0:
                self._wait_for_more()
                return
            unreadable, unfit = self.pause_filter.unreadable(), self.pause_filter.unfit()
            jobs = self._store.take_up(shard, epoch, open_to, room, unreadable=unreadable, unfit=unfit)
            if not jobs:
                return
            place(shard, self._adjuster.right(jobs, epoch, is_news=False))
            is_late = self._monotonic() - started > _TAKING_S
            if is_late or len(jobs) >= room:
                self._on_more()
            if is_late:
                return

    @property
    def is_behind(self) -> bool:
        return self._under_way >= _BEHIND

    def _wait_for_more(self, delay_s: float = _RETRY_S) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            with suppress(ClosedError):
                self._pacer.call_later(delay_s, self._look_again)

    def _look_again(self) -> None:
        self._is_waiting = False
        self._on_more()

    def _set_aside(self, jobs: Sequence[Job], epoch: int) -> None:
        self.pause_filter.warn(jobs)
        if not self.pause_filter.is_complete:  # a private store is not searched regularly
            self._wait_for_more()
        self._under_way += len(jobs)
        with suppress(ClosedError):  # the scheduler stops: the next owner handles these jobs
            writes = [SetAside(job, epoch, self.pause_filter.misfit(job)) for job in jobs]
            self._writer.post(writes, partial(self._done, jobs))

    def _done(self, jobs: Sequence[Job], result: list[Answer] | Exception) -> None:
        was_behind = self.is_behind
        self._under_way -= len(jobs)
        if was_behind and not self.is_behind:
            self._on_room()
        if isinstance(result, Exception):
            self._hooks.failed("setting jobs aside", result)
        elif any(map(self.pause_filter.can_run, jobs)):  # a handler was registered meanwhile, or a pause has ended
            self._on_more()


def _turn(entry: StagedJob) -> Position:
    return position_of(entry.job)


# If the owner must leave a job to another node, two searches, one by each node, still find it within the promised 5 s.
_OVERDUE_MS: Final = 500
"""Minimum lateness in ms of the pending jobs that a search finds."""
_OVERDUE_PAGE: Final = 200
_FIRST: Final = (-(2**63), -1)
_LAST: Final = 2**63 - 1
_SCANNED: Final = 10_000
"""Maximum number of pending jobs that one scan reads in total, or that one search reads from each shard."""
_BUDGET_S: Final = 0.1
"""Maximum seconds for which one search reads more pages. The next search starts where this one stopped."""


class OverdueSweeper:
    """
    Finds overdue jobs. Called by one thread at a time.
    """

    def __init__(self, resources: Resources, staged: StagedJobs, staging: Loader, adjuster: ClockStepAdjuster) -> None:
        self._store = resources.store
        self._staged = staged
        self._staging = staging
        self._adjuster = adjuster
        self._clock = resources.clock
        self._cursors: dict[int, Position] = {}
        """Scan position of each shard in which the search is not finished."""
        self._versioned = self._store if isinstance(self._store, Versioned) else None
        self._known: object = None
        """The state of store, leases and lanes at a time when all jobs up to `_until` were known here, or None."""
        self._until = 0
        self._searched: object = None
        """The state at the start of the current search."""
        self._ends_at = 0
        self._has_news = False

    def sweep(self, epochs: Mapping[int, int], crowded: LaneSet | None = None) -> None:
        """
        Stage overdue jobs that are not in memory, except paused jobs and jobs of the lanes in *crowded*.
        """
        self._staging.pause_filter.refresh_pauses()
        known, self._known = self._known, None
        if not epochs or self._staged.free <= 0:
            self._cursors.clear()
            return
        until = self._clock.now_ms() - _OVERDUE_MS
        state: object = None
        if self._versioned is not None:  # read before the jobs, so that a later write causes a full search next time
            state = self._versioned.version(), dict(epochs), crowded, self._clock.clock_step
        is_rest = state is not None and state == known
        if not self._cursors:
            self._searched, self._has_news = state, False
            self._ends_at = max(until, self._until) if is_rest else until
        if is_rest:
            self._search_from((self._until - 1, _LAST), epochs, until, crowded)
        elif crowded is None:
            self._search_all(epochs, until)
        else:
            self._search_from(_FIRST, epochs, until, crowded)
        if not self._cursors and not self._has_news and state == self._searched:
            self._known, self._until = state, self._ends_at

    def _search_all(self, epochs: Mapping[int, int], until: int) -> None:
        started = self._clock.monotonic()
        by_shard = self._store.overdue(list(epochs), until, _OVERDUE_PAGE)
        self._cursors = {
            shard: cursor for shard, cursor in self._cursors.items() if len(by_shard.get(shard, ())) >= _OVERDUE_PAGE
        }
        for shard, jobs in by_shard.items():
            page = jobs
            self._stage(page, epochs[shard])
            while len(page) >= _OVERDUE_PAGE:
                cursor = self._cursors.get(shard, _last_of(page))
                page = self._store.due(shard, until, cursor, _OVERDUE_PAGE)
                self._stage(page, epochs[shard])
                if len(page) < _OVERDUE_PAGE:
                    self._cursors.pop(shard, None)
                    break
                self._cursors[shard] = _last_of(page)
                if self._clock.monotonic() - started > _BUDGET_S:
                    break

    def _search_from(self, first: Position, epochs: Mapping[int, int], until: int, crowded: LaneSet | None) -> None:
        started = self._clock.monotonic()
        lanes = LaneSet() if crowded is None else crowded
        left, read = list(epochs), 0
        while left and (read < _SCANNED or self._clock.monotonic() - started <= _BUDGET_S):
            cursors = [Cursor(shard, epochs[shard], self._cursors.get(shard, first)) for shard in left]
            rows = max(_SCANNED // len(left), _OVERDUE_PAGE)
            scans = self._store.scan(cursors, until, _OVERDUE_PAGE, lanes, inside=False, rows=rows)
            for shard, scan in zip(left, scans, strict=True):
                self._stage(scan.due, epochs[shard])
                if scan.reached is None:
                    self._cursors.pop(shard, None)
                else:
                    self._cursors[shard] = scan.reached
            left = [shard for shard, scan in zip(left, scans, strict=True) if scan.reached is not None]
            read += rows

    def _stage(self, jobs: list[Job], epoch: int) -> None:
        unknown = self._staged.unknown(jobs, epoch) if jobs else jobs
        if unknown:
            self._has_news = True
            if self._staged.free > 0:
                right = self._adjuster.right(unknown, epoch, is_news=False)
                self._staging.stage({epoch: right}, is_news=False)  # refused jobs are found again by the next search


def _last_of(jobs: list[Job]) -> Position:
    return max(map(position_of, jobs))
