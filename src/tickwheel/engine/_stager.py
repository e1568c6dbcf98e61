"""
The stager (a prefetcher): brings jobs into memory as their instants come within the horizon.

For each shard that is owned there is a cursor: every pending job up to it is staged, or was. A look reads on from the
cursor to the horizon. Jobs that this process writes at or before the cursor are staged straight from their commit;
those after it only pull the next look forward. What other processes write is announced by the store, and read as
changes. Whatever is missed by all of that is found by the lookout once it is overdue. The next look is a timer, set to
when the first job after the cursor comes within the horizon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tickwheel.engine._armer import Armer
from tickwheel.engine._lookout import Lookout
from tickwheel.engine._redater import Redater
from tickwheel.engine._runnable import Runnable
from tickwheel.engine._shard_progress import ShardProgress, position_of
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staging import Staging
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.checks import seconds
from tickwheel.jobs.model import Job
from tickwheel.stores import Cursor, Lease, Sight
from tickwheel.timers.contract import Timer

__all__ = ["Stager"]

_PAGE: Final = 1_000
_LEAST: Final = 64
"""A page is shared among shards that have more to read, and each gets so many jobs at least."""
_LAST: Final = 2**63 - 1
"""Of its instant the last generation; of all instants the last."""
_RETRY_S: Final = 1.0
_LOOK_MAX_S: Final = 60.0
"""With a job pending, at most this far from one look to the next: so a step of the wall clock is noticed in time."""
_STEP_MS: Final = 250
"""If the store's clock moved by so much against the monotonic one, timers have to be set again."""
_WATCH_S: Final = 0.5
"""How often this machine's time of day is looked at while a job is pending: two readings of a clock."""
_PAGES: Final = 4
"""Of jobs that are checked in one look, after the clock was set."""
_UNDER_WAY: Final = 4 * _PAGE
"""How many instants may be on their way to the store before more are checked."""


class Stager:
    """
    Brings far jobs of one partition into memory, in a thread of its own, since it reads the store.
    """

    def __init__(self, resources: Resources, staged: StagedJobs, armer: Armer, runnable: Runnable) -> None:
        self._store = resources.store
        self._staged = staged
        self._armer = armer
        self._clock = resources.clock
        self._timers = resources.timers
        self._hooks = resources.hooks
        self._horizon_ms = int(seconds("horizon_s", resources.options.horizon_s) * 1000)
        self._staged_max = resources.options.staged_max
        self._current_thread = resources.runtime.current_thread
        self._lock = resources.runtime.lock()
        self._shards: dict[int, ShardProgress] = {}
        self._wake = resources.runtime.event()
        self.redater = Redater(resources, self._redated)
        self._staging = Staging(resources, staged, armer, runnable, self.redater, on_more=self.changed)
        self._lookout = Lookout(resources, staged, self._staging, self.redater)
        self._has_changes = True
        self._is_look_wanted = self._is_lookout_wanted = False
        self._is_full = False
        self._is_stopped = False
        self._timer: Timer | None = None
        self._look_at: float | None = None
        self._offset_ms: float | None = None
        self._era = 0
        self._is_watching = False
        self._elapsed = resources.elapsed
        self._thread = resources.runtime.thread(target=self._run, name="tickwheel-stager", daemon=True)

    def start(self) -> None:
        """
        Begin with a look at everything that is owned.
        """
        self.want_look()
        self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        """
        Stage nothing more, and wait for a look that is under way.
        """
        self._is_stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not self._current_thread():
            self._thread.join(timeout_s)

    def own(self, leases: Sequence[Lease]) -> None:
        """
        Stage the shards of *leases* from now on, and no others.
        """
        with self._lock:
            old, self._shards = self._shards, {}
            for lease in leases:
                shard = old.get(lease.shard)
                if shard is None or shard.epoch != lease.epoch:
                    shard = ShardProgress(lease.epoch, checked=None if self._elapsed.is_steady else (0, 0))
                self._shards[lease.shard] = shard
        self.want_look()

    def written(self, jobs: Sequence[Job]) -> None:
        """
        Take notice of pending *jobs* from a commit of this process; on the writer's thread.
        """
        if not self._elapsed.is_steady:
            jobs = self._right(jobs)
        soonest: int | None = None
        by_epoch: dict[int, list[Job]] = {}
        far: list[str] = []
        with self._lock:
            room = self._staged_max - self._staged.waiting
            for job in jobs:
                shard = self._shards.get(self._store.shard_of(job.key))
                if shard is None:
                    continue
                position = position_of(job)
                if position <= shard.cursor and room > 0:
                    by_epoch.setdefault(shard.epoch, []).append(job)
                    room -= 1
                    continue
                far.append(job.key)
                if position <= shard.cursor:  # full: read it again once there is room
                    shard.cursor = (job.due_at, job.generation - 1)
                    self._is_full = True
                elif soonest is None or job.due_at < soonest:
                    soonest = job.due_at
            # An older generation may be staged. Once the lock is free, a scan may bring this one.
            self._staged.drop(far)
        self._staging.stage(by_epoch, is_news=True)
        if soonest is not None:
            self._look_before(soonest)
        if not self._is_watching:
            self.want_look()

    def changed(self) -> None:
        """
        Take notice that other processes may have written.
        """
        self._has_changes = True
        self.want_look()

    def look_back(self) -> None:
        """
        Look for what is overdue in the store and not in memory.
        """
        self._is_lookout_wanted = True
        self._wake.set()

    def start_over(self) -> None:
        """
        Read everything up to the horizon again: something may have been written of which nothing here was notified.

        What was sent and never answered may even take effect later: that is found when it is overdue.
        """
        with self._lock:
            for shard in self._shards.values():
                shard.cursor = (0, 0)
        self.want_look()

    def made_room(self) -> None:
        """
        Go on, if staging stopped for lack of room and half of it is free again.
        """
        if self._is_full and self._staged.waiting <= self._staged_max // 2:
            self._is_full = False
            self.want_look()

    def _run(self) -> None:
        while True:
            if not self._wake.wait(_WATCH_S if self._is_watching else None):
                if not self._was_set():
                    continue
                self._is_look_wanted = True
            self._wake.clear()
            if self._is_stopped:
                return
            is_look, self._is_look_wanted = self._is_look_wanted, False
            is_lookout, self._is_lookout_wanted = self._is_lookout_wanted, False
            try:
                if is_look:
                    self._look()
                if is_lookout:
                    self._look_back()
            except Exception as error:  # noqa: BLE001 - this thread must not end: nothing would fire any more
                self._hooks.failed("staging jobs", error)
                if is_look:
                    self._has_changes = True
                    self._set_timer(self._clock.monotonic() + _RETRY_S)

    def want_look(self) -> None:
        """
        Look at everything that is owned; only sets a flag.
        """
        self._is_look_wanted = True
        self._wake.set()

    def _look(self) -> None:
        """
        Stage what came into sight, and set the timer of the next look.
        """
        has_changes, self._has_changes = self._has_changes, False
        self._notice_step()
        self.redater.look()
        with self._lock:
            shards = dict(self._shards)
            self._look_at = None  # before anything is read: a look that a commit asks for meanwhile is kept
        if has_changes:
            self._staging.take_up({number: shard.epoch for number, shard in shards.items()})
        for number, shard in shards.items():
            if shard.checked is not None:
                self._check_on(number, shard)
        soonest = self._read_on(shards, has_changes=has_changes)
        self._is_watching = soonest is not None or self._staged.waiting > 0
        if soonest is not None and not self._is_full:
            self._look_before(soonest)

    def _look_back(self) -> None:
        with self._lock:
            epochs = {number: shard.epoch for number, shard in self._shards.items()}
        self._lookout.look(epochs)
        self._staging.take_up(epochs)

    def _was_set(self) -> bool:
        """
        Return whether the clock was set, or the machine slept; if not, see whether there is anything to watch for.
        """
        offset = self._clock.now() - self._clock.local()
        self._is_watching = self._staged.waiting > 0 or self._look_at is not None or self._is_full
        return self._offset_ms is None or abs(offset - self._offset_ms) >= _STEP_MS

    def _notice_step(self) -> None:
        """
        Begin again if somebody set the clock: what is staged was filed by the old time.
        """
        offset, era = self._clock.now() - self._clock.local(), self._clock.era
        if self._offset_ms is not None and era == self._era and abs(offset - self._offset_ms) < _STEP_MS:
            return
        is_first, self._offset_ms = self._offset_ms is None, offset
        if is_first and era == 0:
            return
        with self._lock:
            for shard in self._shards.values():
                shard.cursor = (0, 0)
                if era != self._era:
                    shard.checked = (0, 0)
            self._armer.forget()
            self._staged.drop_all()
        self._era = era
        self.redater.stepped()

    def _right(self, jobs: Sequence[Job]) -> list[Job]:
        """
        Return those of *jobs* whose instants are what they say; the others come again.
        """
        by_epoch: dict[int, list[Job]] = {}
        with self._lock:
            for job in jobs:
                shard = self._shards.get(self._store.shard_of(job.key))
                if shard is not None:
                    by_epoch.setdefault(shard.epoch, []).append(job)
        right = {id(job) for epoch, mine in by_epoch.items() for job in self.redater.right(mine, epoch, is_news=True)}
        self._staged.drop([job.key for job in jobs if id(job) not in right])
        return [job for job in jobs if id(job) in right]

    def _redated(self, jobs: Sequence[Job]) -> None:
        """
        Stage what was redated, and go on if that was waited for; on the writer's thread.
        """
        self._staged.drop([job.key for job in jobs])  # what was read with the instant of before
        self.written(jobs)
        if self.redater.under_way < _UNDER_WAY and any(shard.checked for shard in self._shards.values()):
            self.want_look()

    def _check_on(self, number: int, shard: ShardProgress) -> None:
        """
        Check the instants of some more pages of what is pending, the soonest first: see `Redater`.
        """
        for _ in range(_PAGES):
            if self._is_stopped or shard.checked is None or self.redater.under_way >= _UNDER_WAY:
                return
            jobs = self._store.due(number, _LAST, shard.checked, _PAGE)
            self.redater.right(jobs, shard.epoch, is_news=False)
            shard.checked = position_of(jobs[-1]) if len(jobs) == _PAGE else None
        if shard.checked is not None:
            self.want_look()

    def _read_on(self, shards: Mapping[int, ShardProgress], *, has_changes: bool) -> int | None:
        """
        Stage from the cursors to the horizon, or until there is no room; return when the first job after that is due.

        What others wrote at or before the cursors is staged, too; what they wrote after these is met by reading on.
        """
        until = int(self._clock.now()) + self._horizon_ms
        end = (until - 1, _LAST)
        with self._lock:
            reached = {number: shard.cursor for number, shard in shards.items()}
            for shard in shards.values():
                # From here on commits stage for themselves; what is read twice is staged once.
                shard.cursor = max(shard.cursor, end)
        # The mark comes before the first scan, or a change between is missed.
        with_changes = has_changes or any(shard.mark is None for shard in shards.values())
        soonest: list[int] = []
        more = list(shards)
        try:
            while more and not self._is_stopped:
                cursors = [
                    Cursor(number, shards[number].epoch, reached[number], shards[number].mark) for number in more
                ]
                if with_changes:
                    reached.update(dict.fromkeys(more, (0, 0)))  # if it fails: a store may not report them again
                limit = max(_PAGE // len(more), _LEAST) if self._staged.waiting < self._staged_max else 0
                sights = self._store.look(cursors, until, limit, with_changes=with_changes)
                self._stage(cursors, sights)
                more = []
                for cursor, sight in zip(cursors, sights, strict=True):
                    shards[cursor.shard].mark, following = sight.mark, sight.following
                    if following is None or following.due_at >= until:
                        reached[cursor.shard] = max(cursor.after, end)
                        soonest += [] if following is None else [following.due_at]
                    else:
                        reached[cursor.shard] = position_of(sight.due[-1]) if sight.due else cursor.after
                        more.append(cursor.shard)
                with_changes = False
                if more and limit == 0:
                    self._is_full = True
                    break
        finally:
            with self._lock:
                for number, shard in shards.items():
                    shard.cursor = min(shard.cursor, reached[number])
        self.made_room()
        return min(soonest, default=None)

    def _stage(self, cursors: Sequence[Cursor], sights: Sequence[Sight]) -> None:
        """
        Stage what is seen and due when it says.
        """
        by_epoch: dict[int, list[Job]] = {}
        for cursor, sight in zip(cursors, sights, strict=True):
            jobs = sight.changed + sight.due
            self._elapsed.met(jobs if sight.following is None else [*jobs, sight.following])
            by_epoch.setdefault(cursor.epoch, []).extend(self.redater.right(jobs, cursor.epoch, is_news=False))
        self._staging.stage(by_epoch, is_news=False)

    def _look_before(self, due_at: int) -> None:
        """
        Look again when *due_at* comes within the horizon, or earlier if that is planned.
        """
        now = self._clock.monotonic()
        look_at = min(self._clock.deadline(due_at - self._horizon_ms), now + _LOOK_MAX_S)
        if look_at <= now:
            self.want_look()
        else:
            self._set_timer(look_at)

    def _set_timer(self, look_at: float) -> None:
        with self._lock:
            if self._look_at is not None and self._look_at <= look_at:
                return
            old, self._look_at = self._timer, look_at
            try:
                self._timer = self._timers.call_at(look_at, self.want_look)
            except ClosedError:
                return
        if old is not None:
            old.cancel()
