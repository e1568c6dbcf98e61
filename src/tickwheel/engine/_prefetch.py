"""
The prefetcher: loads jobs into memory as they come within the horizon.

Each owned shard has a cursor. Every pending job up to the cursor is staged (in memory), or was. A scan reads from the
cursor to the horizon. If this process sets a job at or before the cursor, the job is staged after the commit. A job
after the cursor is read by the next scan. Jobs that other processes set at or before the cursor are read from the
store's list of changes. The sweep of overdue jobs finds every job that was missed.

A lane that has more jobs than its share of the memory gets its own cursor. A scan first reads all other lanes, and then
this lane, as far as it has room. A lane that has caught up uses the common cursor again.

A lane without visible progress is called stalled (see `_lanes`). If the stalled lanes of a target together have no
room, they form a group with one cursor. If a lane of the group makes progress, it leaves the group. The common cursor
is then set back to the group's cursor, so that the lane's unread jobs are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tickwheel.engine._claims import ClaimBatcher
from tickwheel.engine._clock_steps import ClockStepAdjuster
from tickwheel.engine._shares import PAGE, Shares
from tickwheel.engine._staged import START, Position, ShardProgress, StagedJobs, before, is_target, position_of
from tickwheel.engine._staging import Loader, OverdueSweeper, PauseFilter
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.checks import seconds
from tickwheel.jobs.explanation import EVERY_LANE, WaitReason
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job
from tickwheel.observe.events import LaneCleared, LaneFilled
from tickwheel.stores import Cursor, LaneSet, Lease, ShardScan
from tickwheel.timers.contract import Timer

__all__ = ["Prefetcher"]

_SCANNED: Final = 10_000
"""Maximum number of pending jobs that one scan reads, over all shards, which takes some milliseconds."""
_QUICK_S: Final = 2.0
"""Minimum seconds between two updates of a full group of stalled lanes (see the module). Each update costs a scan."""
_SWEEP_S: Final = 60.0
"""Interval at which lanes with their own cursors are read again from the beginning, to find missed jobs."""
_LAST: Final = 2**63 - 1
"""The largest possible generation, and the largest possible due time."""
_RETRY_S: Final = 1.0
_LOOK_MAX_S: Final = 60.0
"""Maximum time between two scans while a job is pending, so that a clock step is noticed in time."""
_STEP_MS: Final = 250
"""Clock step that triggers a rescan, in ms."""
_WATCH_S: Final = 0.5
"""Interval at which this machine's time of day is checked while a job is pending."""
_PAGES: Final = 4
"""Maximum number of pages that a scan reads from a lane with its own cursor, or from a shard after a clock step."""
_NOWHERE: Final[Mapping[int, Position]] = {}
_UNDER_WAY: Final = 4 * PAGE
"""Maximum number of unfinished rewrites of due times. While there are more, no further due times are checked."""


class Prefetcher:
    """
    Loads jobs of one partition from the store into memory, in its own thread, because reads of the store block.
    """

    def __init__(
        self, resources: Resources, staged: StagedJobs, claims: ClaimBatcher, pause_filter: PauseFilter
    ) -> None:
        self._store = resources.store
        self._staged = staged
        self._claims = claims
        self._clock = resources.clock
        self._timers = resources.timers
        self._hooks = resources.hooks
        self._waits = resources.hooks.waits
        self._horizon_ms = int(seconds("horizon_s", resources.options.horizon_s) * 1000)
        self._shares = Shares(staged)
        self._lane_of = staged.lanes.of
        self._current_thread = resources.runtime.current_thread
        self._lock = resources.runtime.lock()
        self._shards: dict[int, ShardProgress] = {}
        self._wake = resources.runtime.event()
        self.adjuster = ClockStepAdjuster(resources, self._redated)
        self._staging = Loader(
            resources,
            staged,
            claims,
            pause_filter,
            self.adjuster,
            on_more=self.on_external_writes,
            on_room=self.request_scan,
        )
        self._sweeper = OverdueSweeper(resources, staged, self._staging, self.adjuster)
        self._known = claims.moving()
        self._quick = self._known[1]
        self._moving: frozenset[str] = frozenset()
        self._quick_at = 0.0
        self._flowing: set[str] = set()
        """The targets whose stalled lanes (see the module) have had room since `_quick_at`."""
        self._reported: set[str] = set()
        """The lanes that were last reported to the hooks as full."""
        self._has_changes = True
        self._has_news = False
        """True if other processes may have written since changes were last read, also during a scan."""
        self._is_look_wanted = self._is_lookout_wanted = False
        self._is_current = False
        """True if the last scan has read all jobs that are due before `_look_at`."""
        self._is_full = False
        self._swept_at = 0.0
        self._is_stopped = False
        self._timer: Timer | None = None
        self._look_at: float | None = None
        self._looked_due = _LAST
        """The earliest due time for which a scan at `_look_at` is early enough."""
        self._offset_ms: float | None = None
        self._clock_step = 0
        self._is_watching = False
        self._elapsed = resources.elapsed
        self._thread = resources.runtime.thread(target=self._run, name="tickwheel-prefetcher", daemon=True)

    def start(self) -> None:
        self.request_scan()
        self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        self._is_stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not self._current_thread():
            self._thread.join(timeout_s)

    def own(self, leases: Sequence[Lease]) -> None:
        with self._lock:
            old, self._shards = self._shards, {}
            for lease in leases:
                shard = old.get(lease.shard)
                if shard is None or shard.epoch != lease.epoch:
                    shard = ShardProgress(lease.epoch, checked=None if self._elapsed.is_steady else (0, 0))
                self._shards[lease.shard] = shard
        self.request_scan()

    def on_committed(self, jobs: Sequence[Job]) -> None:
        """
        Stage pending *jobs* that this process committed, or leave them to the next scan. Runs on the writer's thread.
        """
        if not self._elapsed.is_steady:
            jobs = self._right(jobs)
        shard_of, by_shard = self._store.shard_of, dict[int, list[Job]]()
        for job in jobs:
            number = shard_of(job.key)
            if (of_shard := by_shard.get(number)) is None:
                of_shard = by_shard[number] = []
            of_shard.append(job)
        with self._lock:
            placed = [
                (shard, by_shard[number]) for number in by_shard if (shard := self._shards.get(number)) is not None
            ]
        self._place(placed, is_news=True)
        if not self._is_watching:
            self._wake.set()  # makes the thread watch the clock from now on; it has nothing to read

    def claims_under(self) -> int | None:
        """
        Return the epoch under which a commit may both set and claim jobs, or None.

        None means that the store may have older due jobs that are not in memory.
        """
        with self._lock:
            shard = self._shards.get(0)
            if shard is None or self._is_look_wanted or not self._is_current or self._is_full or self._shares.lanes:
                return None
            return shard.epoch if self._look_at is None or self._look_at > self._clock.monotonic() else None

    def on_external_writes(self) -> None:
        self._has_changes = self._has_news = True
        self.request_scan()

    def sweep_overdue(self) -> None:
        self._is_lookout_wanted = True
        self._wake.set()

    def rescan(self) -> None:
        """
        Read everything up to the horizon again, because a write may have been missed.
        """
        with self._lock:
            for shard in self._shards.values():
                shard.rescan()
        self.request_scan()

    def on_capacity(self) -> None:
        if (self._is_full and self._shares.has_some()) or self._shares.wants_more():
            self._is_full = False
            self.request_scan()

    def on_lanes_moved(self) -> None:
        if self._shares.targets():
            self.request_scan()

    def full_lanes(self) -> dict[str, WaitReason]:
        return {lane: self._reason(lane) for lane in self._shares.lanes}

    def _report(self) -> None:
        full = set(self._shares.lanes)
        if full == self._reported:
            return
        news = (full - self._reported, self._reported - full)
        self._reported = full
        if self._hooks.is_active:
            for lane in sorted(news[0]):
                self._hooks.emit(LaneFilled(lane, self._reason(lane).value, self._staged.waiting_in(lane)))
            for lane in sorted(news[1]):
                self._hooks.emit(LaneCleared(lane))

    def _reason(self, lane: str) -> WaitReason:
        if is_target(lane):
            return self._claims.reason(lane)
        reasons = [self._staging.pause_filter.reason(member) for member in self._staged.lanes.members(lane)]
        return reasons[0] or self._claims.reason(lane) if all(reasons) else self._claims.reason(lane)

    def _run(self) -> None:
        while True:
            if not self._wake.wait(_WATCH_S if self._is_watching else None):
                if not self._was_set() and not self._has_quick():
                    continue
                self._is_look_wanted = True
            self._wake.clear()
            if self._is_stopped:
                return
            with self._lock:
                is_look, self._is_look_wanted = self._is_look_wanted, False
                self._is_current = self._is_current and not is_look
            is_lookout, self._is_lookout_wanted = self._is_lookout_wanted, False
            try:
                if is_look:
                    self._look()
                if is_lookout:
                    self._sweep_overdue()
                self._note_pending()
                self._report()
            except Exception as error:  # noqa: BLE001 - this thread must not end: nothing would fire any more
                self._hooks.failed("staging jobs", error)
                if is_look:
                    self._has_changes = True
                    self._set_timer(self._clock.monotonic() + _RETRY_S)

    def request_scan(self) -> None:
        self._is_look_wanted = True
        self._wake.set()

    def _look(self) -> None:
        self._claims.recover()
        has_changes, self._has_changes, self._has_news = self._has_changes, False, False
        self._notice_step()
        self._notice_moving()
        self.adjuster.begin_scan()
        with self._lock:
            shards = dict(self._shards)
            # Set before the read, so that a scan that a commit requests in the meantime is not lost.
            self._look_at, self._looked_due = None, _LAST
        if has_changes:
            self._take_up(shards)
        for number, shard in shards.items():
            if shard.checked is not None:
                self._check_on(number, shard)
        until = int(self._clock.now()) + self._horizon_ms
        soonest = self._read_on(shards, until, has_changes=has_changes)
        self._read_lanes(shards, until)
        if soonest is not None and not self._is_full:
            self._look_before(soonest)
        self._is_current = True

    def _sweep_overdue(self) -> None:
        with self._lock:
            shards = dict(self._shards)
            if is_sweep := bool(self._shares.lanes) and self._clock.monotonic() - self._swept_at > _SWEEP_S:
                for shard in shards.values():
                    shard.lanes = dict.fromkeys(shard.lanes, START)
        if is_sweep:
            self._swept_at = self._clock.monotonic()
        crowded = self._outside() if self._shares.lanes else None
        self._sweeper.sweep({number: shard.epoch for number, shard in shards.items()}, crowded)
        self._take_up(shards)
        if self._shares.lanes or self._is_full:
            self.request_scan()

    def _take_up(self, shards: Mapping[int, ShardProgress]) -> None:
        def place(number: int, jobs: Sequence[Job]) -> None:
            self._place([(shards[number], jobs)], is_news=False)

        epochs = {number: shard.epoch for number, shard in shards.items()}
        self._staging.take_up(epochs, place)

    def _has_quick(self) -> bool:
        is_time = self._clock.monotonic() - self._quick_at > _QUICK_S
        return (
            is_time and not self._flowing.issuperset(self._shares.targets()) and self._claims.moving()[1] != self._quick
        )

    def _notice_moving(self) -> None:
        asked, quick = known = self._claims.moving()
        if known[0] is not self._known[0] or known[1] is not self._known[1]:
            self._known = known
            self._staged.set_moving(asked | quick)
        if (now := self._clock.monotonic()) - self._quick_at > _QUICK_S:
            # The stalled lanes of these targets (see `_lanes`) have room together, so they need not be read one by one.
            flowing = tuple(f"{target}:" for target in self._flowing.intersection(self._shares.targets()))
            kept = [lane for lane in self._quick if lane.startswith(flowing)]
            self._quick = frozenset((*kept, *(lane for lane in quick if not lane.startswith(flowing))))
            self._quick_at = now
            self._flowing.clear()
        moving = asked | self._quick
        if moving == self._moving:
            return
        with self._lock:
            for target in self._shares.targets():
                has_moving, has_stalled = (
                    any(lane.startswith(f"{target}:") for lane in lanes)
                    for lanes in (moving - self._moving, self._moving - moving)
                )
                for shard in self._shards.values():
                    shard.move(target, has_moving=has_moving, has_stalled=has_stalled)
            self._moving = moving

    def _was_set(self) -> bool:
        offset = self._clock.now() - self._clock.local()
        self._note_pending()
        return self._offset_ms is None or abs(offset - self._offset_ms) >= _STEP_MS

    def _note_pending(self) -> None:
        """
        Turn the checks of this machine's clock on if a job is pending, and off if not.
        """
        self._is_watching = False
        # a commit that finds the checks off during this search wakes this thread
        self._is_watching = self._staged.waiting > 0 or self._look_at is not None or self._is_full

    def _notice_step(self) -> None:
        offset, clock_step = self._clock.now() - self._clock.local(), self._clock.clock_step
        if self._offset_ms is not None and clock_step == self._clock_step and abs(offset - self._offset_ms) < _STEP_MS:
            return
        is_first, self._offset_ms = self._offset_ms is None, offset
        if is_first and clock_step == 0:
            return
        with self._lock:
            for shard in self._shards.values():
                shard.rescan()
                if clock_step != self._clock_step:
                    shard.checked = (0, 0)
            self._claims.forget()
            self._staged.drop_all()  # they were staged by the old time
        self._clock_step = clock_step
        self.adjuster.stepped()
        self._waits.tell(EVERY_LANE, WaitReason.CLOCK_SET, "all instants are read again")

    def _right(self, jobs: Sequence[Job]) -> list[Job]:
        by_epoch: dict[int, list[Job]] = {}
        with self._lock:
            for job in jobs:
                shard = self._shards.get(self._store.shard_of(job.key))
                if shard is not None:
                    by_epoch.setdefault(shard.epoch, []).append(job)
        right = {id(job) for epoch, mine in by_epoch.items() for job in self.adjuster.right(mine, epoch, is_news=True)}
        self._staged.drop([job.key for job in jobs if id(job) not in right])
        return [job for job in jobs if id(job) in right]

    def _redated(self, jobs: Sequence[Job]) -> None:
        self._staged.drop([job.key for job in jobs])  # rows with the old due times may be staged
        self.on_committed(jobs)
        if self.adjuster.under_way < _UNDER_WAY and any(shard.checked for shard in self._shards.values()):
            self.request_scan()

    def _check_on(self, number: int, shard: ShardProgress) -> None:
        for _ in range(_PAGES):
            if self._is_stopped or shard.checked is None or self.adjuster.under_way >= _UNDER_WAY:
                return
            jobs = self._store.due(number, _LAST, shard.checked, PAGE)
            self.adjuster.right(jobs, shard.epoch, is_news=False)
            shard.checked = position_of(jobs[-1]) if len(jobs) == PAGE else None
        if shard.checked is not None:
            self.request_scan()

    def _place(self, by_shard: Sequence[tuple[ShardProgress, Sequence[Job]]], *, is_news: bool) -> None:
        soonest: int | None = None
        by_epoch: dict[int, list[Job]] = {}
        far: list[str] = []
        with self._lock:
            has_lanes = bool(self._shares.lanes)
            for shard, jobs in by_shard:
                near: list[Job] = []
                until, generation = shard.cursor
                for job in jobs:
                    due_at = job.due_at
                    lane = self._own_lane(job) if has_lanes else None
                    if lane is not None:
                        is_near = shard.holds((due_at, job.generation), lane)
                    else:
                        is_near = due_at < until or (due_at == until and job.generation <= generation)
                    if is_near:
                        near.append(job)
                        continue
                    far.append(job.key)
                    if lane is None and (soonest is None or due_at < soonest):
                        soonest = due_at
                if near:
                    by_epoch.setdefault(shard.epoch, []).extend(near)
            # An older generation may be staged. Once the lock is free, a scan may bring this one.
            self._staged.drop(far)
        if by_epoch and (refused := self._staging.stage(by_epoch, is_news=is_news)):
            shards = {job.generation: shard for shard, jobs in by_shard for job in jobs}
            self._read_again([(shards[job.generation], job) for job in refused])
        if soonest is not None and soonest < self._looked_due:
            self._look_before(soonest)

    def _own_lane(self, job: Job) -> str | None:
        if not self._shares.lanes:
            return None
        lane = self._lane_of(job.target, job.handler)
        if self._shares.has(lane):
            return lane
        is_stalled = self._shares.has(job.target) and lane_of(job.target, job.handler) not in self._moving
        return job.target if is_stalled else None

    def _read_again(self, refused: Iterable[tuple[ShardProgress, Job]]) -> None:
        with self._lock:
            for shard, job in refused:
                if (name := self._own_lane(job)) is not None:
                    shard.set_back(position_of(job), name)
                    continue
                name = self._staged.crowd_of(job.target, job.handler)
                if name is None:  # the table of staged jobs is full, or was full
                    shard.set_back(position_of(job), None)
                    self._is_full = True
                elif self._shares.has(name) or self._part(name):
                    shard.set_back(position_of(job), name)
                elif not self._staged.is_moving(job.target, job.handler) and self._part(job.target):
                    shard.set_back(position_of(job), job.target)
                # Otherwise too many lanes are read separately; the sweeper finds the job once it is overdue.
                self.request_scan()

    def _part(self, lane: str, starts: Mapping[int, Position] = _NOWHERE) -> bool:
        if not self._shares.add(lane):  # the caller holds the lock
            return False
        for number, shard in self._shards.items():
            shard.part(lane, starts.get(number))
        return True

    def _read_on(self, shards: Mapping[int, ShardProgress], until: int, *, has_changes: bool) -> int | None:
        """
        Stage jobs from the cursors to the horizon while there is room; return the due time of the next job.

        If *has_changes* is True, jobs of other processes at or before the cursors are also staged.
        """
        with self._lock:
            for shard in shards.values():
                # From here on, commits stage their own jobs. A job that is also read is staged only once.
                shard.reached, shard.cursor = shard.cursor, max(shard.cursor, _end(until))
        # The mark must be taken before the first scan: otherwise a change in between would be missed.
        with_changes = has_changes or any(shard.mark is None for shard in shards.values())
        soonest: list[int] = []
        more = list(shards)
        met: Counter[str] = Counter()
        try:
            if with_changes and self._shares.lanes:
                self._look_into(shards, more, until, 0, with_changes=True)
                with_changes = False
            while more and not self._is_stopped:
                self._take_news(shards, until)
                page = self._shares.page(len(more))
                if not self._shares.lanes:
                    more, dues = self._look_on(shards, more, until, page, met, with_changes=with_changes)
                    soonest += dues
                    with_changes = False
                elif page:
                    more = self._scan_on(shards, more, until, page, met)
                if more and page == 0:
                    self._is_full = True
                    self._waits.tell(EVERY_LANE, WaitReason.NO_ROOM, f"{self._staged.waiting} jobs are staged")
                    break
            if self._shares.lanes and not more:
                soonest = self._followings(shards, until)
        finally:
            with self._lock:
                for shard in shards.values():
                    shard.cursor, shard.reached = min(shard.cursor, shard.reached or START), None
        if self._is_full and self._shares.has_some():
            self._is_full = False
            self.request_scan()
        return min(soonest, default=None)

    def _look_on(
        self,
        shards: Mapping[int, ShardProgress],
        numbers: Sequence[int],
        until: int,
        limit: int,
        met: Counter[str],
        *,
        with_changes: bool,
    ) -> tuple[list[int], list[int]]:
        cursors, sights = self._look_into(shards, numbers, until, limit, with_changes=with_changes)
        refused = self._stage(cursors, [sight.due for sight in sights])
        self._read_again([(shards[number], job) for number, job in refused])
        more, soonest = list[int](), list[int]()
        for cursor, sight in zip(cursors, sights, strict=True):
            following, shard = sight.following, shards[cursor.shard]
            if following is None or following.due_at >= until:
                shard.reached = max(cursor.after, _end(until))
                soonest += [] if following is None else [following.due_at]
            else:
                shard.reached = position_of(sight.due[-1]) if sight.due else cursor.after
                more.append(cursor.shard)
        if more:
            self._part_crowding([job for sight in sights for job in sight.due], met)
        return more, soonest

    def _take_news(self, shards: Mapping[int, ShardProgress], until: int) -> None:
        if self._has_news and self._shares.lanes:
            self._has_news = False
            self._look_into(shards, list(shards), until, 0, with_changes=True, to=_end(until))

    def _look_into(
        self,
        shards: Mapping[int, ShardProgress],
        numbers: Sequence[int],
        until: int,
        limit: int,
        *,
        with_changes: bool,
        to: Position = START,
    ) -> tuple[list[Cursor], list[ShardScan]]:
        cursors = []
        with self._lock:
            for number in numbers:
                shard = shards[number]
                assert shard.reached is not None  # a scan is under way
                # Changes after this position are left out. A lane that is read separately may have been read further.
                after = shard.reached if limit else max((to, shard.reached, *shard.lanes.values()))
                cursors.append(Cursor(number, shard.epoch, after, shard.mark))
            reached = [shards[number].reached for number in numbers]
            if with_changes:
                for number in numbers:
                    shards[number].reached = START
        try:
            sights = self._store.look(cursors, until, limit, with_changes=with_changes)
            changed: list[tuple[ShardProgress, Sequence[Job]]] = []
            for cursor, sight in zip(cursors, sights, strict=True):
                self._elapsed.met(sight.changed if sight.following is None else [*sight.changed, sight.following])
                right = self.adjuster.right(sight.changed, cursor.epoch, is_news=False)
                changed.append((shards[cursor.shard], right))
            self._place(changed, is_news=False)
        except BaseException:
            if with_changes:  # the store may not report these changes again
                with self._lock:
                    for number in numbers:
                        shards[number].rescan()
            raise
        for cursor, sight, position in zip(cursors, sights, reached, strict=True):
            shards[cursor.shard].mark, shards[cursor.shard].reached = sight.mark, position
        return cursors, sights

    def _scan_on(
        self, shards: Mapping[int, ShardProgress], numbers: Sequence[int], until: int, limit: int, met: Counter[str]
    ) -> list[int]:
        cursors = [Cursor(number, shards[number].epoch, shards[number].reached or START) for number in numbers]
        jobs, more, refused = self._scan(cursors, until, limit, self._outside(), inside=False)
        self._read_again([(shards[number], job) for number, job in refused])
        for cursor in cursors:
            shards[cursor.shard].reached = more.get(cursor.shard) or max(cursor.after, _end(until))
        if more:
            self._part_crowding(jobs, met)
        return list(more)

    def _scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool
    ) -> tuple[list[Job], dict[int, Position], list[tuple[int, Job]]]:
        rows = max(_SCANNED // len(cursors), PAGE // 4)
        scans = self._store.scan(cursors, until, limit, lanes, inside=inside, rows=rows)
        refused = self._stage(cursors, [scan.due for scan in scans])
        more = {
            cursor.shard: scan.reached
            for cursor, scan in zip(cursors, scans, strict=True)
            if scan.reached is not None and scan.reached < _end(until)
        }
        return [job for scan in scans for job in scan.due], more, refused

    def _outside(self) -> LaneSet:
        targets = self._shares.targets()
        return LaneSet(self._members(), targets, [lane for target in targets for lane in self._moving_of(target)])

    def _inside(self, lane: str) -> LaneSet:
        if is_target(lane):
            return LaneSet((), [lane], [*self._members(), *self._moving_of(lane)])
        return LaneSet(self._staged.lanes.members(lane))

    def _members(self) -> list[str]:
        lanes = [lane for lane in self._shares.lanes if not is_target(lane)]
        return [member for lane in lanes for member in self._staged.lanes.members(lane)]

    def _moving_of(self, target: str) -> list[str]:
        return [lane for lane in self._moving if lane.startswith(f"{target}:")]

    def _followings(self, shards: Mapping[int, ShardProgress], until: int) -> list[int]:
        cursors = [Cursor(number, shard.epoch, _end(until)) for number, shard in shards.items()]
        sights = self._store.look(cursors, until, 0, with_changes=False)
        followings = [sight.following for sight in sights if sight.following is not None]
        self._elapsed.met(followings)
        return [job.due_at for job in followings]

    def _part_crowding(self, jobs: Sequence[Job], met: Counter[str]) -> None:
        lanes = Counter(self._lane_of(job.target, job.handler) for job in jobs)
        met.update(lanes)
        with self._lock:
            for lane in lanes:
                if self._shares.crowds(lane, met):
                    self._part(lane)

    def _read_lanes(self, shards: Mapping[int, ShardProgress], until: int) -> None:
        has_more = False
        for lane in self._shares.lanes:
            if self._is_stopped or (has_more and self._wake.is_set()):
                break
            has_more |= self._read_lane(lane, shards, until)
            if self._shares.has(lane):
                self._tell(lane)
        if has_more:
            self.request_scan()

    def _read_lane(self, lane: str, shards: Mapping[int, ShardProgress], until: int) -> bool:
        end = _end(until)
        with self._lock:
            reached = {number: shard.lanes.get(lane, START) for number, shard in shards.items()}
            for shard in shards.values():
                shard.lanes[lane] = max(shard.lanes.get(lane, START), end)
        more = [number for number, position in reached.items() if position < end]
        has_room = True
        try:
            for _ in range(_PAGES):
                if not more or self._is_stopped:
                    break
                is_due = min(reached[number][0] for number in more) <= self._clock.now()
                limit = self._shares.page_of(lane, len(more), is_due=is_due)
                has_room = limit > 0
                if not has_room or self._staging.is_behind:
                    break
                cursors = [Cursor(number, shards[number].epoch, reached[number]) for number in more]
                left, has_room = self._read_page(lane, cursors, until, limit)
                reached.update({number: left.get(number, end) for number in more})
                more = list(left)
                if not has_room:
                    break
        finally:
            with self._lock:
                for number, shard in shards.items():
                    shard.lanes[lane] = min(shard.lanes.get(lane, START), reached[number])
                if all(shard.lanes[lane] >= end for shard in shards.values()):
                    self._shares.remove(lane)
                    for shard in self._shards.values():
                        shard.join(lane)
                else:
                    self._shares.put_last(lane, has_room=has_room)
        if has_room:
            self._flowing.add(lane)
        return bool(more) and has_room and not self._staging.is_behind

    def _read_page(
        self, lane: str, cursors: Sequence[Cursor], until: int, limit: int
    ) -> tuple[dict[int, Position], bool]:
        _, left, refused = self._scan(cursors, until, limit, self._inside(lane), inside=True)
        if refused and is_target(lane):
            refused = self._without_crowds(refused, lane, {cursor.shard: cursor.after for cursor in cursors})
        for number, job in refused:
            left[number] = min(left.get(number, _end(until)), before(position_of(job)))
        return left, not refused

    def _without_crowds(
        self, refused: Sequence[tuple[int, Job]], target: str, reached: Mapping[int, Position]
    ) -> list[tuple[int, Job]]:
        left = []
        with self._lock:
            for number, job in refused:
                name = self._staged.crowd_of(job.target, job.handler) or target
                if name == target or not (self._shares.has(name) or self._part(name, reached)):
                    left.append((number, job))
        return left

    def _tell(self, lane: str) -> None:
        if self._waits.is_on:
            text = f"it has more jobs than its share of memory, {self._staged.waiting_in(lane)} are staged"
            self._waits.tell(lane, self._reason(lane), text)

    def _stage(self, cursors: Sequence[Cursor], pages: Sequence[Sequence[Job]]) -> list[tuple[int, Job]]:
        by_epoch: dict[int, list[Job]] = {}
        for cursor, jobs in zip(cursors, pages, strict=True):
            self._elapsed.met(jobs)
            by_epoch.setdefault(cursor.epoch, []).extend(self.adjuster.right(jobs, cursor.epoch, is_news=False))
        refused = {job.generation for job in self._staging.stage(by_epoch, is_news=False)}
        if not refused:
            return []
        pairs = [(cursor.shard, job) for cursor, jobs in zip(cursors, pages, strict=True) for job in jobs]
        return [(number, job) for number, job in pairs if job.generation in refused]

    def _look_before(self, due_at: int) -> None:
        now = self._clock.monotonic()
        look_at = min(self._clock.deadline(due_at - self._horizon_ms), now + _LOOK_MAX_S)
        if look_at <= now:
            self.request_scan()
        else:
            self._set_timer(look_at, due_at)

    def _set_timer(self, look_at: float, due_at: int = _LAST) -> None:
        with self._lock:
            self._looked_due = min(self._looked_due, due_at)
            if self._look_at is not None and self._look_at <= look_at:
                return
            old, self._look_at = self._timer, look_at
            try:
                self._timer = self._timers.call_at(look_at, self.request_scan)
            except ClosedError:
                return
        if old is not None:
            old.cancel()


def _end(until: int) -> Position:
    return until - 1, _LAST
