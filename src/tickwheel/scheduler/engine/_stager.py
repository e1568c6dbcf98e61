"""
The stager: brings jobs near as their instants come into sight.

For each shard that is owned there is a cursor: every pending job up to it is near, or was. A look reads on from the
cursor to the horizon. Jobs that this process writes at or before the cursor are staged straight from their commit;
those after it only pull the next look forward. What other processes write is told by the store, and read as changes.
Whatever is missed by all of that is found by the lookout once it is overdue.
The next look is a timer, set to when the first job after the cursor comes within the horizon; without one there is no
timer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from tickwheel.errors import ClosedError
from tickwheel.observe._events import StoreFailed
from tickwheel.scheduler.engine._armer import Armer
from tickwheel.scheduler.engine._ground import Ground
from tickwheel.scheduler.engine._lookout import Lookout
from tickwheel.scheduler.engine._near import Near
from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.model import Job
from tickwheel.scheduler.stores import Lease
from tickwheel.timers._contract import Timer

__all__ = ["Stager"]

_PAGE: Final = 1_000
_LAST: Final = 2**63 - 1
"""Of its instant the last generation; of all instants the last."""
_RETRY_S: Final = 1.0
_LOOK_MAX_S: Final = 60.0
"""With a job pending, at most this far from one look to the next: so a step of the wall clock is noticed in time."""
_STEP_MS: Final = 1_000
"""A clock that moved by so much against the monotonic one was set by somebody."""

_Place = tuple[int, int]


class _Shard:
    """
    How far one shard is staged.

    Attributes:
        epoch: Of its lease.
        cursor: The (instant, generation) up to which every pending job is near, or was.
        mark: Up to where the changes of others were read.
    """

    __slots__ = ("cursor", "epoch", "mark")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.cursor: _Place = (0, 0)
        self.mark: int | None = None


class Stager:
    """
    From far to near. Runs in a thread of its own, since it reads the store.
    """

    def __init__(self, ground: Ground, near: Near, armer: Armer) -> None:
        self._store = ground.store
        self._near = near
        self._armer = armer
        self._clock = ground.clock
        self._timers = ground.timers
        self._hooks = ground.hooks
        self._horizon_ms = int(ground.options.horizon_s * 1000)
        self._near_max = ground.options.near_max
        self._lock = threading.Lock()
        self._shards: dict[int, _Shard] = {}
        self._wake = threading.Event()
        self._lookout = Lookout(ground, near, armer)
        self._has_changes = True
        self._is_look_wanted = False
        self._is_lookout_wanted = False
        self._is_full = False
        self._is_stopped = False
        self._timer: Timer | None = None
        self._look_at: float | None = None
        self._offset_ms: float | None = None
        self._thread = threading.Thread(target=self._run, name="tickwheel-stager", daemon=True)

    def start(self) -> None:
        """
        Begin with a look at everything that is owned.
        """
        self._want_look()
        self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        """
        Stage nothing more, and wait for a look that is under way.
        """
        self._is_stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def own(self, leases: Sequence[Lease]) -> None:
        """
        Stage the shards of *leases* from now on, and no others.
        """
        with self._lock:
            old = self._shards
            self._shards = {lease.shard: old.get(lease.shard) or _Shard(lease.epoch) for lease in leases}
            for lease in leases:
                if self._shards[lease.shard].epoch != lease.epoch:
                    self._shards[lease.shard] = _Shard(lease.epoch)
        self._want_look()

    def written(self, jobs: Sequence[Job]) -> None:
        """
        Take notice of pending *jobs* from a commit of this process; on the writer's thread.
        """
        soonest: int | None = None
        by_epoch: dict[int, list[Job]] = {}
        far: list[str] = []
        with self._lock:
            room = self._near_max - self._near.waiting
            for job in jobs:
                shard = self._shards.get(self._store.shard_of(job.key))
                if shard is None:
                    continue
                place = (job.due_at, job.generation)
                if place <= shard.cursor and room > 0:
                    by_epoch.setdefault(shard.epoch, []).append(job)
                    room -= 1
                    continue
                far.append(job.key)
                if place <= shard.cursor:  # full: read it again once there is room
                    shard.cursor = (job.due_at, job.generation - 1)
                    self._is_full = True
                elif soonest is None or job.due_at < soonest:
                    soonest = job.due_at
            # An older generation may be near. Once the lock is free, a scan may bring this one.
            self._near.drop(far)
        for epoch, staged in by_epoch.items():
            self._armer.add(self._near.stage(staged, epoch, is_news=True))
        if soonest is not None:
            self._look_before(soonest)

    def dropped(self, keys: Sequence[str]) -> None:
        """
        Take notice of cancelled jobs.
        """
        self._near.drop(keys)

    def changed(self) -> None:
        """
        Take notice that other processes may have written.
        """
        self._has_changes = True
        self._want_look()

    def look_back(self) -> None:
        """
        Look for what is overdue in the store and not in memory.
        """
        self._is_lookout_wanted = True
        self._wake.set()

    def start_over(self) -> None:
        """
        Read everything up to the horizon again: something may have been written that nobody here was told.

        What was sent and never answered may even take effect later: that is found when it is overdue.
        """
        self._forget_cursors()
        self._want_look()

    def made_room(self) -> None:
        """
        Go on, if staging stopped for lack of room and half of it is free again.
        """
        if self._is_full and self._near.waiting <= self._near_max // 2:
            self._is_full = False
            self._want_look()

    def _run(self) -> None:
        while self._wake.wait():
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
            except StoreError as error:
                if self._hooks.is_active:
                    self._hooks.tell(StoreFailed("staging jobs", str(error)))
                if is_look:
                    self._has_changes = True
                    self._set_timer(self._clock.monotonic() + _RETRY_S)

    def _want_look(self) -> None:
        self._is_look_wanted = True
        self._wake.set()

    def _look(self) -> None:
        """
        Stage what came into sight, and set the timer of the next look.
        """
        has_changes, self._has_changes = self._has_changes, False
        self._notice_step()
        with self._lock:
            shards = list(self._shards.items())
            self._look_at = None  # before anything is read: a look that a commit asks for meanwhile is kept
        soonest: int | None = None
        for number, shard in shards:
            if has_changes or shard.mark is None:  # the mark comes before the first scan, or a change between is missed
                self._read_changes(number, shard)
            self._read_on(number, shard)
            following = self._store.due(number, _LAST, shard.cursor, 1)
            if following and (soonest is None or following[0].due_at < soonest):
                soonest = following[0].due_at
        if soonest is not None and not self._is_full:
            self._look_before(soonest)

    def _look_back(self) -> None:
        with self._lock:
            epochs = {number: shard.epoch for number, shard in self._shards.items()}
        self._lookout.look(epochs)

    def _forget_cursors(self) -> None:
        with self._lock:
            for shard in self._shards.values():
                shard.cursor = (0, 0)

    def _notice_step(self) -> None:
        """
        Begin anew if somebody set the clock: what is near was filed by the old time.
        """
        offset = self._clock.now() - self._clock.monotonic() * 1e3
        before, self._offset_ms = self._offset_ms, offset
        if before is None or abs(offset - before) < _STEP_MS:
            return
        with self._lock:
            for shard in self._shards.values():
                shard.cursor = (0, 0)
            self._armer.forget()
            self._near.drop_all()

    def _read_changes(self, number: int, shard: _Shard) -> None:
        """
        Stage what others wrote at or before the cursor; what they wrote after it is met by reading on.
        """
        try:
            changes = self._store.changes(number, shard.epoch, shard.cursor[0] + 1, shard.mark)
        except StoreError:  # a store may have told it, and not tell it again
            with self._lock:
                shard.cursor = (0, 0)
            raise
        if changes.jobs:
            self._armer.add(self._near.stage(changes.jobs, shard.epoch, is_news=False))
        shard.mark = changes.mark

    def _read_on(self, number: int, shard: _Shard) -> None:
        """
        Stage from the cursor to the horizon, or until there is no room.
        """
        until = int(self._clock.now()) + self._horizon_ms
        with self._lock:
            place = shard.cursor
            if place >= (until - 1, _LAST):
                return
            shard.cursor = (
                until - 1,
                _LAST,
            )  # from here on commits stage for themselves; what is read twice is staged once
        try:
            while not self._is_stopped:
                if self._near.waiting >= self._near_max:
                    self._is_full = True
                    break
                jobs = self._store.due(number, until, place, _PAGE)
                self._armer.add(self._near.stage(jobs, shard.epoch, is_news=False))
                if len(jobs) < _PAGE:
                    place = (until - 1, _LAST)
                    break
                place = (jobs[-1].due_at, jobs[-1].generation)
        finally:
            with self._lock:
                shard.cursor = min(shard.cursor, place)
        self.made_room()

    def _look_before(self, due_at: int) -> None:
        """
        Look again when *due_at* comes within the horizon, or earlier if that is planned.
        """
        now = self._clock.monotonic()
        look_at = min(self._clock.deadline(due_at - self._horizon_ms), now + _LOOK_MAX_S)
        if look_at <= now:
            self._want_look()
        else:
            self._set_timer(look_at)

    def _set_timer(self, look_at: float) -> None:
        with self._lock:
            if self._look_at is not None and self._look_at <= look_at:
                return
            old, self._look_at = self._timer, look_at
            try:
                self._timer = self._timers.call_at(look_at, self._want_look)
            except ClosedError:
                return
        if old is not None:
            old.cancel()
