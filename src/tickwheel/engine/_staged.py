"""
The staged jobs (the jobs in memory), their state machine, and the progress of staging in each shard.

A job here is a key with a generation. It is in one state at a time:

    state       meaning                                           event     next
    far         in the store only                                 stage     staged
                                                                  claim     begun      (set and claimed in one commit)
    staged      filed, waiting to be claimed                      begin     beginning
                                                                  drop      far        (moved, set again, cancelled)
    beginning   the claim is on its way to the store              begun     begun
                                                                  refuse    far        (another writer was faster)
                                                                  withdraw  settling   (moved, set again, cancelled)
                                                                  doubt     doubtful   (the answer was lost)
    doubtful    the claim is repeated until the store answers     begun     begun
                                                                  refuse    far        (another writer was faster)
    begun       claimed, waiting for its due time or a worker     start     running
                                                                  withdraw  settling   (moved, set again, cancelled)
                                                                  end       settling   (released)
    running     its target runs it                                end       settling
    settling    its outcome is on its way to the store                settle    far        (deleted or rescheduled)

A row may be outdated by the time it is read. If its generation is in the table, the row is ignored. If not, the store
checks the row when the job is claimed. A later generation of a key is claimed only after the outcome of the earlier
generation is written.

Lanes share the table as the ports of a network switch share its buffer (the dynamic threshold of Choudhury and Hahne):
a lane may hold three times as many jobs as there are free places. Jobs that are already due have a separate, lower
limit for each lane. A job without room stays in the store.

While a claim is on its way, no outcome of the same attempt may be written. If the outcome reached the store before the
claim, the job would stay in the state "running" there, unknown to all processes. A doubtful job therefore cannot be
withdrawn. A beginning job can be withdrawn only if the writer's thread has just read the claimed attempt from the
store.

Only the table of staged jobs decides between a start and a withdrawal: whichever comes first prevents the other. If a
caller gets the answer CANCELLED, the job will not start; TOO_LATE means that it has started.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Final, TypeAlias

from tickwheel.engine._staged_job import TRANSITIONS, Phase, StagedJob, Step
from tickwheel.host.lane_names import LaneNames
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import AttemptState, Job

if TYPE_CHECKING:
    from tickwheel.engine._lanes import HandlerLimit

__all__ = ["START", "Position", "ShardProgress", "StagedJobs", "before", "is_target", "position_of"]

Position: TypeAlias = tuple[int, int]
"""A due time and a generation: the sort key of pending jobs."""

START: Final[Position] = (0, 0)


@dataclass(slots=True, eq=False)
class ShardProgress:
    """
    The progress of staging one shard.

    Attributes:
        cursor: Every pending job up to this position is staged, or was. During a scan, it is already the scan's end.
        mark: Position up to which changes by other processes were read.
        checked: Position up to which due times were checked since the clock was set; None if all were checked.
        lanes: Cursors of the lanes that are read separately. `cursor` is for all other lanes.
        reached: Position up to which the current scan has read; None between scans.
    """

    epoch: int
    cursor: Position = (0, 0)
    mark: int | None = None
    checked: Position | None = None
    lanes: dict[str, Position] = field(default_factory=dict)
    reached: Position | None = None

    def rescan(self) -> None:
        self.cursor = START
        self.lanes = dict.fromkeys(self.lanes, START)

    def part(self, lane: str, start: Position | None) -> None:
        self.lanes[lane] = start or (self.cursor if self.reached is None else min(self.cursor, self.reached))

    def move(self, target: str, *, has_moving: bool, has_stalled: bool) -> None:
        of_others, of_stalled = self.cursor, self.lanes.get(target, START)
        if has_moving:
            self.cursor = min(of_others, of_stalled)
        if has_stalled:
            self.lanes[target] = min(of_others, of_stalled)

    def join(self, lane: str) -> None:
        self.cursor = min(self.cursor, self.lanes.pop(lane, START))

    def holds(self, position: Position, lane: str | None) -> bool:
        """
        Return True if a job of *lane* at *position* was staged; None means any lane that does not have its own cursor.
        """
        cursor = self.cursor if lane is None else self.lanes.get(lane, START)
        return position <= cursor

    def set_back(self, position: Position, lane: str | None) -> None:
        if lane is None:
            self.cursor = min(self.cursor, before(position))
        else:
            self.lanes[lane] = min(self.lanes.get(lane, START), before(position))


def before(position: Position) -> Position:
    return position[0], position[1] - 1


def position_of(job: Job) -> Position:
    return job.due_at, job.generation


_STAGED: Final = TRANSITIONS[Step.STAGE][Phase.FAR]
_CLAIMED: Final = TRANSITIONS[Step.CLAIM][Phase.FAR]
_BEGINNING: Final = TRANSITIONS[Step.BEGIN][Phase.STAGED]
_DROP: Final = TRANSITIONS[Step.DROP]
_START: Final = TRANSITIONS[Step.START]
_WITHDRAW: Final = TRANSITIONS[Step.WITHDRAW]
_END: Final = TRANSITIONS[Step.END]

_DROPPED: Final = Job("", 0, 0)
_NONE: Final = (0, 0, 0)
_CROWDS: Final = 64
"""A stalled lane (see `_lanes`) gets its own cursor if it takes at least 1 / 64 of the places in memory."""
_CROWD_LEAST: Final = 2
_DUE_LEAST: Final = 1_000
"""Each lane may hold at least this many due jobs in memory, or half of all places if there are few places."""


class StagedJobs:
    """
    The table of staged jobs (the jobs in memory). Methods may be called from any thread; each call is atomic.
    """

    def __init__(
        self,
        runtime: Runtime,
        size: int = sys.maxsize,
        now: Callable[[], float] = float,
        lanes: LaneNames | None = None,
    ) -> None:
        self._lock = runtime.lock()
        self.lanes = lanes or LaneNames()
        self._now = now
        self.size = size
        self._kept = min(1, size // 8)
        self.due_max = max(size // 8, min(_DUE_LEAST, size // 2), 1)
        """Maximum number of jobs of one lane that were due when they were staged."""
        self._waiting: dict[str, StagedJob] = {}
        self._by_lane: dict[str, int] = {}
        """
        The number of waiting entries in each lane that has any. These are lanes of handlers, not the named lanes that
        contain them, because a named lane may be registered while its jobs wait here.
        """
        self._due_by_lane: dict[str, int] = {}
        """The number of the entries in `_by_lane` that were due when they were staged."""
        self._moving: frozenset[str] = frozenset()
        self._stalled: dict[str, list[int]] = {}
        """
        For each target, three counts: its stalled lanes (see `_lanes`) with waiting entries; these entries; and its
        stalled lanes with entries that were due when they were staged.
        """
        self._busy: dict[int, StagedJob] = {}
        self._busy_keys: set[str] = set()
        self._reserved = 0
        """Number of the busy keys whose jobs are about to be set and claimed in one commit."""
        self._queued: dict[str, list[StagedJob]] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def waiting_in(self, lane: str) -> int:
        if is_target(lane):
            return self._stalled.get(lane, _NONE)[1]
        return sum(self._by_lane.get(member, 0) for member in self.lanes.members(lane))

    def due_in(self, lane: str) -> int:
        return sum(self._due_by_lane.get(member, 0) for member in self.lanes.members(lane))

    def by_lane(self) -> dict[str, int]:
        named, found = self.lanes.named, dict[str, int]()
        if not named:
            return self._by_lane.copy()
        for lane, count in self._by_lane.copy().items():
            found[named.get(lane, lane)] = found.get(named.get(lane, lane), 0) + count
        return found

    @property
    def free(self) -> int:
        return self.size - len(self._waiting)

    @property
    def free_for_later(self) -> int:
        """
        Number of free places for jobs that are not due yet. The last place is kept for due jobs.
        """
        # a job that is due later would hold the last place for long, and block healthy lanes
        return self.free - self._kept

    def is_full(self, lane: str, *, is_due: bool) -> bool:
        """
        Return True if *lane* has no room for another job. *is_due* is True if that job is due now.

        If *lane* names a target, return True if its stalled lanes (see `_lanes`) have no room for one more lane.
        """
        free = self.free if is_due else self.free_for_later
        if is_target(lane):
            return self._lanes_of(lane, is_due=is_due) >= 3 * free
        count = self.due_in(lane) if is_due else self.waiting_in(lane)
        return max(1, count) * self._sharing(lane, is_due=is_due) >= 3 * free or (is_due and count >= self.due_max)

    def crowd_of(self, target: str, handler: str) -> str | None:
        """
        Return the name of the full lane or target that refused a job; None if memory as a whole is full.
        """
        lane = self.lanes.of(target, handler)
        count = self.waiting_in(lane)
        if self._sharing(lane, is_due=False) > 1 and count < max(_CROWD_LEAST, self.size // _CROWDS):
            return target
        return lane if count else None

    def is_moving(self, target: str, handler: str) -> bool:
        return lane_of(target, handler) in self._moving

    def set_moving(self, lanes: frozenset[str]) -> None:
        """
        Record which lanes are moving (see `_lanes`), and count each of the other lanes as stalled. O(changes).
        """
        if lanes is self._moving:
            return
        with self._lock:
            for changed, sign in ((lanes - self._moving, -1), (self._moving - lanes, 1)):
                for lane in changed:
                    if count := self._by_lane.get(lane, 0):
                        stalled = self._stalled.setdefault(lane.partition(":")[0], [0, 0, 0])
                        stalled[0] += sign
                        stalled[1] += sign * count
                        stalled[2] += sign * (lane in self._due_by_lane)
            self._moving = lanes

    def jobs(self) -> list[Job]:
        with self._lock:
            return [entry.job for entry in self._waiting.values()]

    @property
    def busy(self) -> int:
        return len(self._busy_keys)

    def stage(self, jobs: Sequence[Job], epoch: int, *, is_news: bool) -> tuple[list[StagedJob], list[Job]]:
        """
        Add pending *jobs* under *epoch*; return the new entries, and the jobs whose lanes have no room.

        If *is_news* is True, this process has just committed *jobs*, and a job replaces any staged job of its key that
        is not newer. If *is_news* is False, *jobs* were read from the store. A row then replaces only an older
        generation, or a job that was staged under a lease that has ended.
        """
        new: list[StagedJob] = []
        refused: list[Job] = []
        waiting, busy, by_lane, named = self._waiting, self._busy, self._by_lane, self.lanes.named
        target = handler = lane = crowd = ""
        with self._lock:
            moving, all_stalled, due_by_lane = self._moving, self._stalled, self._due_by_lane
            stalled: list[int] | None = None
            is_tight, now_ms = len(waiting) + len(jobs) > self.due_max, self._now()
            for job in jobs:
                key, due_at = job.key, job.due_at
                known = waiting.get(key)
                if is_news:  # a retry has the same generation and is due later
                    if known is not None and (known.job.generation, known.job.due_at) > (job.generation, due_at):
                        continue
                elif _is_known(job, epoch, busy.get(job.generation), known):
                    continue
                if known is not None:
                    del waiting[key]
                    self._drop(known)
                if job.handler is not handler or job.target is not target or not lane:  # mostly the same lane as before
                    target, handler = job.target, job.handler
                    lane = lane_of(target, handler)
                    crowd = named.get(lane, lane)
                    stalled = None if lane in moving else all_stalled.setdefault(target, [0, 0, 0])
                is_due = due_at <= now_ms
                if is_tight and self.is_full(crowd, is_due=is_due):
                    refused.append(job)
                    continue
                waiting[key] = entry = StagedJob(job, epoch, due_at, _STAGED, is_due)
                count = by_lane[lane] = by_lane.get(lane, 0) + 1
                if stalled is not None:
                    stalled[0] += count == 1
                    stalled[1] += 1
                    stalled[2] += is_due and lane not in due_by_lane
                if is_due:
                    due_by_lane[lane] = due_by_lane.get(lane, 0) + 1
                new.append(entry)
        return new, refused

    def unknown(self, jobs: Sequence[Job], epoch: int) -> list[Job]:
        busy, waiting = self._busy, self._waiting
        with self._lock:
            return [job for job in jobs if not _is_known(job, epoch, busy.get(job.generation), waiting.get(job.key))]

    def drop(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                entry = self._waiting.pop(key, None)
                if entry is not None:
                    self._drop(entry)

    def drop_all(self) -> None:
        with self._lock:
            for entry in self._waiting.values():
                self._drop(entry)
            self._waiting.clear()

    def drop_epoch(self, epoch: int) -> None:
        with self._lock:
            for entry in [each for each in self._waiting.values() if each.epoch == epoch]:
                del self._waiting[entry.job.key]
                self._drop(entry)

    def reserve(self, keys: Sequence[str]) -> list[bool]:
        """
        Reserve each of *keys* that has no job in memory; return True for each reserved key.

        Jobs of reserved keys are not claimed.
        """
        with self._lock:
            busy, waiting = self._busy_keys, self._waiting
            if busy.isdisjoint(keys) and waiting.keys().isdisjoint(keys):
                are_free = [True] * len(keys)
            else:
                are_free = [key not in busy and key not in waiting for key in keys]
            before = len(busy)
            busy.update(compress(keys, are_free))
            self._reserved += len(busy) - before
            return are_free

    def cancel(self, keys: Iterable[str]) -> list[StagedJob]:
        freed: list[StagedJob] = []
        with self._lock:
            before = len(self._busy_keys)
            self._busy_keys.difference_update(keys)
            self._reserved -= before - len(self._busy_keys)
            for key in self._queued.keys() & keys:
                freed += self._queued.pop(key)
        return freed

    def claimed(self, jobs: Sequence[Job], lanes: Sequence[HandlerLimit], epoch: int) -> list[StagedJob]:
        entries = [
            StagedJob(job, epoch, job.due_at, _CLAIMED, True, False, lane)  # noqa: FBT003  by name it takes longer
            for job, lane in zip(jobs, lanes, strict=True)
        ]
        with self._lock:
            self._reserved -= len(jobs)
            self._busy.update(zip([job.generation for job in jobs], entries, strict=True))
        return entries

    def begin(self, entries: Iterable[StagedJob], room: int) -> tuple[list[StagedJob], list[StagedJob]]:
        """
        Begin to claim at most *room* of the staged *entries*. Return these entries, and the entries without room.

        An entry that waits for another job of the same key is in neither list. It is returned when that job is settled.
        """
        begun: list[StagedJob] = []
        held: list[StagedJob] = []
        left: dict[tuple[str, bool], int] = {}
        target = handler = lane = ""
        staged, waiting, busy, busy_keys = _STAGED, self._waiting, self._busy, self._busy_keys
        with self._lock:
            for entry in entries:
                if entry.phase is not staged:
                    continue
                if len(begun) >= room:
                    held.append(entry)
                    continue
                job = entry.job
                key = job.key
                if key in busy_keys:
                    self._queued.setdefault(key, []).append(entry)
                    continue
                entry.phase = _BEGINNING
                del waiting[key]
                if job.handler is not handler or job.target is not target or not lane:
                    target, handler = job.target, job.handler
                    lane = lane_of(target, handler)
                place = lane, entry.was_due
                left[place] = left.get(place, 0) + 1
                busy[job.generation] = entry
                busy_keys.add(key)
                begun.append(entry)
            for (lane, was_due), count in left.items():
                self._leave_lane(lane, count, was_due=was_due)
        return begun, held

    def begun(self, entries: Iterable[StagedJob]) -> list[StagedJob]:
        with self._lock:
            return _step_all(entries, Step.BEGUN)

    def doubt(self, entries: Iterable[StagedJob]) -> list[StagedJob]:
        """
        Record that it is unknown whether *entries* are claimed; return the entries to be claimed again.
        """
        with self._lock:
            _step_all(entries, Step.DOUBT)
            return [entry for entry in entries if entry.phase is Phase.DOUBTFUL]

    def refuse(self, entries: Iterable[StagedJob]) -> list[StagedJob]:
        return self._leave(entries, Step.REFUSE)

    def start(self, entry: StagedJob) -> bool:
        """
        Record that *entry* starts; return False if it must not start, because it was withdrawn or released.

        This is the last check. A started job can be neither moved nor cancelled.
        """
        with self._lock:
            following = _START.get(entry.phase)
            if following is None:
                return False
            entry.phase = following
            entry.has_started = True
            return True

    def withdraw(self, job: Job, *, is_current: bool) -> tuple[StagedJob, AttemptState, bool] | None:
        """
        Withdraw the claimed attempt of *job*, unless it has started. In the store, *job* is running.

        Args:
            job: The job as read from the store: running, with this attempt counted.
            is_current: True if the writer's thread calls, and has read *job* since its last commit.

        Returns:
            The entry, its status, and True if this call withdrew it. The caller must then write the outcome, exactly
            once. None if this process does not know whether the attempt is counted.
        """
        with self._lock:
            entry = self._busy.get(job.generation)
            if entry is None or (entry.job.due_at, entry.attempt) != (job.due_at, job.attempt):
                return None
            # if not current, the attempt may have been released, and a new attempt of the same number may be on its way
            if entry.phase is Phase.DOUBTFUL or (entry.phase is Phase.BEGINNING and not is_current):
                return None
            # a second write of the outcome would end the next try, which has the same attempt number
            is_mine = _step(entry, _WITHDRAW)
            return entry, AttemptState.STARTED if entry.has_started else AttemptState.WITHDRAWN, is_mine

    def recall(self, entries: Iterable[StagedJob]) -> list[StagedJob]:
        with self._lock:
            return [entry for entry in entries if entry.phase is Phase.BEGUN and _step(entry, _WITHDRAW)]

    def is_waiting(self, generation: int) -> bool:
        entry = self._busy.get(generation)
        return entry is not None and not entry.has_started

    def entry_of(self, key: str) -> StagedJob | None:
        """
        Return the claimed entry of *key*, or else the staged entry, or else None. O(claimed entries).
        """
        with self._lock:
            if key in self._busy_keys:
                return next((entry for entry in self._busy.values() if entry.job.key == key), None)
            return self._waiting.get(key)

    def running(self, generation: int) -> StagedJob | None:
        entry = self._busy.get(generation)
        return entry if entry is not None and entry.phase is Phase.RUNNING else None

    def end(self, entry: StagedJob) -> bool:
        """
        Record that *entry* has ended; return False if it had already ended.
        """
        with self._lock:
            following = _END.get(entry.phase)
            if following is None:
                return False
            entry.phase = following
            return True

    def settle(self, entries: Iterable[StagedJob]) -> list[StagedJob]:
        return self._leave(entries, Step.SETTLE)

    def forget(self, entries: Iterable[StagedJob]) -> list[StagedJob]:
        """
        Remove claimed *entries* without settling them, because another owner has their shard.
        """
        return self.settle([entry for entry in entries if self.end(entry)])

    def take(self, *stages: Phase) -> list[StagedJob]:
        with self._lock:
            return [entry for entry in self._busy.values() if entry.phase in stages]

    def check(self) -> None:
        with self._lock:
            lanes = Counter(lane_of(entry.job.target, entry.job.handler) for entry in self._waiting.values())
            assert self._by_lane == lanes, (self._by_lane, lanes)
            due = [entry.job for entry in self._waiting.values() if entry.was_due]
            assert self._due_by_lane == Counter(lane_of(job.target, job.handler) for job in due), self._due_by_lane
            stalled = {lane: count for lane, count in lanes.items() if lane not in self._moving}
            due_lanes = {lane: 1 for lane in stalled if lane in self._due_by_lane}
            for number, expected in enumerate((dict.fromkeys(stalled, 1), stalled, due_lanes)):
                found = Counter({target: counts[number] for target, counts in self._stalled.items() if counts[number]})
                assert found == _by_target(expected), (number, found, expected)
            for key, entry in self._waiting.items():
                assert entry.phase is Phase.STAGED, (key, entry.phase)
                assert entry.job.key == key, (key, entry.job)
                busy = self._busy.get(entry.job.generation)
                assert busy is None or busy.epoch < entry.epoch, entry.job
            assert self._busy_keys >= {entry.job.key for entry in self._busy.values()}
            assert len(self._busy_keys) == len(self._busy) + self._reserved
            assert set(self._queued) <= self._busy_keys
            for generation, entry in self._busy.items():
                assert entry.phase not in (Phase.FAR, Phase.STAGED), (generation, entry.phase)
                assert entry.job.generation == generation, (generation, entry.job)

    def _leave(self, entries: Iterable[StagedJob], step: Step) -> list[StagedJob]:
        freed: list[StagedJob] = []
        with self._lock:
            left = _step_all(entries, step)
            for entry in left:
                del self._busy[entry.job.generation]
            keys = [entry.job.key for entry in left]
            self._busy_keys.difference_update(keys)
            if self._queued:
                for key in keys:
                    freed += self._queued.pop(key, ())
        return freed

    def _drop(self, entry: StagedJob) -> None:
        self._leave_lane(lane_of(entry.job.target, entry.job.handler), 1, was_due=entry.was_due)
        _step(entry, _DROP)
        entry.job = _DROPPED  # frees the payload: the slot keeps the entry until it opens

    def _sharing(self, lane: str, *, is_due: bool) -> int:
        members = self.lanes.members(lane)
        if any(member in self._moving for member in members):
            return 1
        return max(1, self._lanes_of(members[0].partition(":")[0], is_due=is_due))

    def _lanes_of(self, target: str, *, is_due: bool) -> int:
        return self._stalled.get(target, _NONE)[2 if is_due else 0]

    def _leave_lane(self, lane: str, count: int, *, was_due: bool) -> None:
        if lane not in self._moving:
            stalled = self._stalled[lane.partition(":")[0]]
            stalled[0] -= self._by_lane[lane] == count
            stalled[1] -= count
            stalled[2] -= was_due and self._due_by_lane[lane] == count
        for counts in (self._by_lane, self._due_by_lane) if was_due else (self._by_lane,):
            if counts[lane] > count:
                counts[lane] -= count
            else:
                del counts[lane]


def is_target(name: str) -> bool:
    """
    Return True if *name* is the name of a target, and False if it is the name of a lane, which contains a colon.
    """
    return ":" not in name


def _by_target(counts: dict[str, int]) -> Counter[str]:
    found = Counter[str]()
    for lane, count in counts.items():
        found[lane.partition(":")[0]] += count
    return found


def _step(entry: StagedJob, steps: dict[Phase, Phase]) -> bool:
    following = steps.get(entry.phase)
    if following is None:
        return False
    entry.phase = following
    return True


def _step_all(entries: Iterable[StagedJob], step: Step) -> list[StagedJob]:
    steps = TRANSITIONS[step]
    moved: list[StagedJob] = []
    for entry in entries:
        following = steps.get(entry.phase)
        if following is not None:
            entry.phase = following
            moved.append(entry)
    return moved


def _is_known(job: Job, epoch: int, busy: StagedJob | None, waiting: StagedJob | None) -> bool:
    """
    Return True if a row that was read under the lease of *epoch* has nothing that *busy* or *waiting* lacks.
    """
    # an attempt under an earlier lease can no longer be settled, so the job must run again under this lease
    if busy is not None and busy.epoch >= epoch:
        return True
    return waiting is not None and waiting.epoch >= epoch and waiting.job.generation >= job.generation
