"""
Limits the rate and the number of running jobs of each handler, queue and receiver.

Every handler, queue and receiver has a lane; see `lane_of`. Each running job takes one of `running_max` places. By
default, a lane may take three times as many places as it leaves free, which is at most three quarters of all places. If
the jobs of one lane hang, other lanes still get places. If several lanes take all places, a lane without running
attempts gets an extra place.

A lane is moving if a worker has asked for its jobs lately, or if its last attempt was short. Any other lane is called
stalled: it has not run yet, it hangs, or no worker pulls from it. One failure can stall a hundred thousand lanes with
one job each, and none of these lanes is ever full. The stalled lanes of one target therefore share memory and places
like one lane.

Limits are checked before an attempt is counted. A job that waits for its limit can therefore be moved and cancelled,
and uses no attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Final

from tickwheel.engine._staged_job import LazyDeque, Phase, StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.host.lane_names import LaneNames
from tickwheel.host.options import loan_of, share_of
from tickwheel.jobs.explanation import LaneState, WaitReason
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job
from tickwheel.targets import DEFAULT, Limits

__all__ = ["HandlerLimit", "Lanes", "MovingLanes"]

_QUICK_MAX: Final = 1_000
"""Maximum number of remembered lanes whose last attempt was short; the oldest are forgotten."""
_ASKED_MAX: Final = 4_000
"""Maximum number of lanes remembered because a worker asked for their jobs; the oldest are forgotten."""
_ASKED_MS: Final = 60_000
"""Time for which a lane is remembered after a worker asked for its jobs."""


class MovingLanes:
    """
    Remembers the names of moving lanes (see the module) in two sets. Changing a set needs a lock; reading it does not.
    """

    def __init__(self) -> None:
        self._quick: dict[str, None] = {}
        self._asked: dict[str, float] = {}
        self._quick_names: frozenset[str] | None = frozenset()
        self._asked_names: frozenset[str] | None = frozenset()

    @property
    def quick(self) -> frozenset[str]:
        """
        The lanes whose last attempt was short. The set is the same object until it changes.
        """
        names = self._quick_names
        if names is None:
            names = self._quick_names = frozenset(self._quick)
        return names

    @property
    def asked(self) -> frozenset[str]:
        names = self._asked_names
        if names is None:
            names = self._asked_names = frozenset(self._asked)
        return names

    def has(self, lane: str) -> bool:
        return lane in self._quick or lane in self._asked

    def ended(self, lane: str, *, was_quick: bool) -> list[str]:
        if was_quick is (lane in self._quick):
            return []
        self._quick_names = None
        if not was_quick:
            del self._quick[lane]
            return [lane]
        self._quick[lane] = None
        return self._shorten(self._quick, _QUICK_MAX)

    def ask(self, lane: str, now: float) -> list[str]:
        if self._asked.pop(lane, None) is None:
            self._asked_names = None
        self._asked[lane] = now
        return self._shorten(self._asked, _ASKED_MAX)

    def old(self, now: float) -> list[str]:
        return [lane for lane, at in self._asked.items() if now - at > _ASKED_MS]

    def forget(self, lane: str) -> None:
        del self._asked[lane]
        self._asked_names = None

    @staticmethod
    def _shorten(names: dict[str, None] | dict[str, float], most: int) -> list[str]:
        gone = []
        while len(names) > most:
            gone.append(next(iter(names)))
            del names[gone[-1]]
        return gone


_LANES_MAX: Final = 1_000
"""Maximum number of idle lanes that are remembered."""
_NARROW: Final = 64
"""Maximum concurrency of a lane whose acknowledgements may skip the pause. Batches of a wider lane fill quickly."""
_USUAL: Final = Limits()
_QUICK_MS: Final = 1_000
"""Duration in ms below which an attempt shows that its lane is moving."""
_COUNTED: Final = 1_000
"""Maximum number of lanes whose figures are read while the lock is held, so that claims need not wait long."""
_TARGET_AND_HANDLER: Final = attrgetter("target", "handler")
_SWEEP_S: Final = 1.0
"""Seconds between two checks of the lanes that wait for places."""


class HandlerLimit:
    """
    The lane of one handler, queue or receiver.

    Attributes:
        width: Maximum number of running attempts, or inf.
        booked: Entries for which the rate limit has reserved a later start time.
        is_moving: True if the lane is moving; False if it is stalled (see the module).
        next_at: Earliest time in ms at which the rate limit allows another start.
        is_urgent: True if an acknowledgement should not wait for a batch, because other entries wait for its place.
    """

    __slots__ = ("booked", "busy", "is_moving", "is_urgent", "limits", "name", "next_at", "target", "waiting", "width")

    def __init__(self, name: str, target: str, limits: Limits, usual_width: int) -> None:
        self.name = name
        self.target = target
        self.limits = limits
        self.width = usual_width if limits.concurrency is DEFAULT else limits.concurrency or math.inf
        self.busy = 0
        self.is_moving = False
        self.waiting = LazyDeque(Phase.STAGED)
        self.booked: LazyDeque | tuple[()] = ()
        self.next_at = 0.0
        self.is_urgent = False

    def book(self, entry: StagedJob) -> None:
        if isinstance(self.booked, tuple):  # an empty deque has 600 bytes, and there may be 50,000 lanes
            self.booked = LazyDeque(Phase.STAGED)
        self.booked.put(entry)

    @property
    def is_free(self) -> bool:
        places = self.limits.places
        return self.busy < self.width and (places is None or self.busy < places())

    def is_forgettable(self, now: float) -> bool:
        return not (self.busy or self.waiting or self.is_moving) and self.next_at <= now


class Lanes:
    """
    Admits jobs within their handlers' limits. Callable from any thread.

    Args:
        limits_of: Returns the limits of a job's handler, or None.
        window_ms: Number of ms by which an entry is claimed before its due time.
        names: The named lanes, each of which joins several handlers.
        begin: Claims entries that are admitted later.
        sweep: Called every second while lanes wait for places. It must call `Lanes.sweep`.
        on_moving: Called when a worker asks for the jobs of a lane that was stalled (see the module).
    """

    def __init__(
        self,
        resources: Resources,
        limits_of: Callable[[Job], Limits | None],
        window_ms: int,
        *,
        names: LaneNames,
        begin: Callable[[list[StagedJob]], object],
        sweep: Callable[[], object],
        on_moving: Callable[[], object],
    ) -> None:
        self._clock = resources.clock
        self._waits = resources.hooks.waits
        self._timers = resources.timers
        self._pacer = resources.pacer
        self._limits_of = limits_of
        self._names = names
        self._window_ms: Final = window_ms
        self._begin = begin
        self._sweep = sweep
        self._on_moving = on_moving
        self._moving = MovingLanes()
        self._usual_width = share_of(resources.options.running_max)
        self._free = resources.options.running_max
        """Free places of all lanes; negative while lanes without running attempts are lent places."""
        self._loan = loan_of(resources.options.running_max)
        self._lock = resources.runtime.lock()
        self._lanes: dict[str, HandlerLimit] = {}
        self._changed: dict[HandlerLimit, None] = {}
        self._short: dict[HandlerLimit, None] = {}
        """Lanes with running attempts whose entries wait only for a larger share of the places."""
        self._idle: dict[str, dict[HandlerLimit, None]] = {}
        """
        Lanes without running attempts whose entries wait only for a free place. The key is "" for moving lanes; other
        lanes are stalled, and their key is the target (see the module).
        """
        self._stalled: dict[str, int] = {}
        """For each target, the number of its stalled lanes (see the module) that have running attempts."""
        self._is_sweeping = False

    def admit(self, entries: list[StagedJob]) -> list[StagedJob]:
        """
        Return the *entries* that may be claimed now. All other entries wait, and are passed to `begin` later.
        """
        admitted: list[StagedJob] = []
        later: list[StagedJob] = []
        held: dict[HandlerLimit, WaitReason] | None = {} if self._waits.is_on else None
        now = self._clock.now()
        lanes, named = self._lanes, self._names.named
        with self._lock:
            for entry in entries:
                job = entry.job
                name = lane_of(job.target, job.handler)
                lane = lanes.get(named.get(name, name)) or self._add_lane(job)
                rate = lane.limits.rate
                if rate is not None and not entry.rate_reserved and self._reserves_later(entry, lane, rate, now):
                    later.append(entry)
                    lane.book(entry)
                elif lane.busy < lane.width and (lane.limits.places is None or lane.is_free) and self._has_share(lane):
                    self._enter(entry, lane)
                    admitted.append(entry)
                    continue
                else:
                    lane.waiting.put(entry)
                    lane.is_urgent = lane.width <= _NARROW or lane.limits.places is not None
                if held is not None:
                    held[lane] = self._reason(lane)
        for lane, reason in (held or {}).items():
            self._waits.tell(lane.name, reason, f"attempts under way: {lane.busy}")
        if (self._idle or self._short) and not self._is_sweeping:
            self._sweep_later()
        for entry in later:
            try:
                self._timers.call_at(self._clock.deadline(entry.fire_at - self._window_ms), self._begin, [entry])
            except ClosedError:  # the scheduler stops: the entry stays in the store
                break
        return admitted

    def reserve(self, jobs: Sequence[Job]) -> list[HandlerLimit | None]:
        """
        Take a place for each of *jobs*; return the lane of each place.

        The result has None for a job that must wait, or whose lane has a rate limit.
        """
        places: list[HandlerLimit | None] = []
        named = self._names.named
        with self._lock:
            for (target, handler), run in groupby(jobs, _TARGET_AND_HANDLER):  # mostly one group, from one caller
                name, wanted = lane_of(target, handler), sum(1 for _ in run)
                lane = self._lanes.get(named.get(name, name)) or self._add_lane(jobs[len(places)])
                has_queue = lane.waiting or lane.booked or lane.limits.rate is not None
                taken = 0 if has_queue else self._take(lane, wanted)
                places += [lane] * taken
                places += [None] * (wanted - taken)
        return places

    def _take(self, lane: HandlerLimit, wanted: int) -> int:
        taken = 0
        while taken < wanted and lane.is_free and self._has_share(lane):
            self._occupy(lane)
            further = min(wanted - taken - 1, self._further(lane))
            lane.busy += further
            self._free -= further
            taken += 1 + further
        return taken

    def _further(self, lane: HandlerLimit) -> int:
        """
        Return how many more places *lane*, which has running attempts, may take now.
        """
        places = math.inf if lane.limits.places is None else lane.limits.places()
        further = min(lane.width, places) - lane.busy
        if lane.limits.concurrency is DEFAULT:
            lanes = 1 if lane.is_moving else self._stalled[lane.target]
            further = min(further, -((lane.busy * lanes - 3 * (self._free - 1)) // (3 + lanes)))
        return int(max(0, min(further, self._free)))

    def cancel(self, places: Iterable[HandlerLimit]) -> None:
        with self._lock:
            for lane in places:
                self._vacate(lane)

    def leave(self, entries: Iterable[StagedJob]) -> None:
        now = self._clock.now()
        last, count = None, 0
        with self._lock:
            for entry in entries:
                lane, entry.lane = entry.lane, None
                if lane is None:
                    continue
                if entry.fired_at and lane.limits.places is None:
                    was_quick = now - entry.fired_at < _QUICK_MS
                    if was_quick is not lane.is_moving:
                        self._note_end(lane, was_quick=was_quick)
                if lane is last:  # jobs that end together mostly have one lane
                    count += 1
                    continue
                if last is not None:
                    self._vacate(last, count)
                last, count = lane, 1
            if last is not None:
                self._vacate(last, count)

    def widen(self, target: str, handler: str) -> None:
        job, now = Job("", 0, 0, target=target, handler=handler), self._clock.now()
        name = lane_of(target, handler)
        with self._lock:
            lane = self._lanes.get(name) or self._add_lane(job)
            self._changed[lane] = None
            self._look_at(self._moving.ask(name, now))
            is_new = not lane.is_moving
            self._look_at([name])
        if is_new:
            self._on_moving()

    def moving(self) -> tuple[frozenset[str], frozenset[str]]:
        """
        Return the lanes that workers asked for, and the lanes whose last attempt was short.

        Each set is the same object until it changes.
        """
        with self._lock:
            return self._moving.asked, self._moving.quick

    def sweep(self, running: Iterable[StagedJob]) -> None:
        """
        Record which lanes have slow *running* attempts. Let lanes that wait for a larger share of the places try again.
        """
        now = self._clock.now()
        with self._lock:
            for entry in running:
                lane = entry.lane
                if lane is not None and lane.is_moving and 0 < entry.fired_at < now - _QUICK_MS:
                    self._note_end(lane, was_quick=False)
            for name in self._moving.old(now):
                lane = self._lanes.get(name)
                if lane is not None and lane.is_free:
                    self._moving.ask(name, now)
                else:
                    self._moving.forget(name)
                    self._look_at([name])
            self._changed.update(self._short)
            self._short.clear()
            self._is_sweeping = False
            is_waiting = bool(self._idle or self._changed)
        if is_waiting:
            self._sweep_later()

    @property
    def has_changed(self) -> bool:
        return bool(self._changed or self._idle)

    def next(self, count: int) -> list[StagedJob]:
        admitted: list[StagedJob] = []
        with self._lock:
            while len(admitted) < count and (lane := self._next_lane()) is not None:
                while lane.waiting and lane.is_free and len(admitted) < count and self._has_share(lane):
                    entry = lane.waiting.popleft()
                    if entry.phase is Phase.STAGED:  # the job was not moved or cancelled while it waited
                        self._enter(entry, lane)
                        admitted.append(entry)
                lane.is_urgent = lane.is_urgent and bool(lane.waiting)
                if lane.waiting and len(admitted) == count:
                    self._changed[lane] = None
        if (self._idle or self._short) and not self._is_sweeping:
            self._sweep_later()
        return admitted

    def backlog(self) -> list[StagedJob]:
        with self._lock:
            lanes = [lane for lane in self._lanes.values() if lane.limits.places is not None]
            return [entry for lane in lanes for entry in lane.waiting]

    def reason(self, name: str) -> WaitReason:
        with self._lock:
            lane = self._lanes.get(name)
            if lane is not None:
                return self._reason(lane)
            return WaitReason.NO_WORKER if name == "pull" else WaitReason.BUSY

    def waits(self) -> dict[str, tuple[int, int, int | None]]:
        with self._lock:
            lanes = [each for each in self._lanes.values() if each.busy or each.waiting or each.booked]
        found: dict[str, tuple[int, int, int | None]] = {}
        for start in range(0, len(lanes), _COUNTED):
            with self._lock:
                for lane in lanes[start : start + _COUNTED]:
                    due = _due_in(lane)
                    if due or lane.busy:
                        found[lane.name] = len(due), lane.busy, min(due, default=None)
        return found

    def state(self, name: str) -> LaneState | None:
        with self._lock:
            lane = self._lanes.get(name)
            due = [] if lane is None else _due_in(lane)
            if lane is None or not (due or lane.busy):
                return None
            limit = lane.limits.concurrency
            return LaneState(
                lane.name,
                self._reason(lane) if due else None,
                waiting=len(due),
                running=lane.busy,
                oldest_due_at=min(due, default=None),
                concurrency=limit if isinstance(limit, int) else None,
                rate=lane.limits.rate,
            )

    def _reason(self, lane: HandlerLimit) -> WaitReason:
        if lane.limits.rate is not None and lane.next_at > self._clock.now():
            return WaitReason.RATE
        if lane.limits.places is not None:
            return WaitReason.BUSY if lane.limits.places() else WaitReason.NO_WORKER
        is_usual = lane.limits.concurrency is DEFAULT or lane.busy < lane.width
        return WaitReason.BUSY if is_usual else WaitReason.CONCURRENCY

    def _has_share(self, lane: HandlerLimit) -> bool:
        if not lane.busy:
            group = "" if lane.is_moving else lane.target
            if self._has_room(group):
                return True
            self._idle.setdefault(group, {})[lane] = None
            return False
        if lane.limits.concurrency is DEFAULT:
            lanes = 1 if lane.is_moving else self._stalled[lane.target]
            has_share = lane.busy * lanes < 3 * (self._free - 1)
        else:
            has_share = self._free > 0
        if not has_share:
            self._short[lane] = None
        return has_share

    def _has_room(self, group: str) -> bool:
        """
        Return True if a lane without running attempts may take a place.

        *group* is empty for a moving lane (see the module). For a stalled lane, it is the lane's target.
        """
        room = self._free + self._loan
        return room > 0 and (not group or self._stalled.get(group, 0) < 3 * room)

    def _next_lane(self) -> HandlerLimit | None:
        if self._changed:
            return self._changed.popitem()[0]
        for group, lanes in self._idle.items():
            if self._has_room(group):
                lane = next(iter(lanes))
                del lanes[lane]
                if not lanes:
                    del self._idle[group]
                return lane
        return None

    def _enter(self, entry: StagedJob, lane: HandlerLimit) -> None:
        if entry.lane is None:  # otherwise admitted again, because its key was busy
            self._occupy(lane)
        entry.lane = lane

    def _occupy(self, lane: HandlerLimit) -> None:
        if not (lane.busy or lane.is_moving):
            self._stalled[lane.target] = self._stalled.get(lane.target, 0) + 1
        lane.busy += 1
        self._free -= 1

    def _vacate(self, lane: HandlerLimit, count: int = 1) -> None:
        lane.busy -= count
        self._free += count
        if not (lane.busy or lane.is_moving):
            self._stalled[lane.target] -= 1
        if lane.waiting:
            self._changed[lane] = None
        if self._short:
            for short in list(islice(self._short, 2 * count)):
                del self._short[short]
                self._changed[short] = None

    def _note_end(self, lane: HandlerLimit, *, was_quick: bool) -> None:
        members = self._names.members(lane.name)
        for member in members:
            self._look_at(self._moving.ended(member, was_quick=was_quick))
        self._look_at(members)

    def _look_at(self, names: Iterable[str]) -> None:
        for name in names:
            lane, is_moving = self._lanes.get(self._names.named.get(name, name)), self._moving.has(name)
            if lane is None or lane.is_moving is is_moving:
                continue
            lane.is_moving = is_moving
            if lane.busy:
                self._stalled[lane.target] = self._stalled.get(lane.target, 0) + (-1 if is_moving else 1)
            elif lane.waiting:
                group = lane.target if is_moving else ""
                waiting = self._idle.get(group, {})
                if lane in waiting:
                    del waiting[lane]
                    if not waiting:
                        del self._idle[group]
                self._changed[lane] = None

    def _sweep_later(self) -> None:
        with suppress(ClosedError):
            self._is_sweeping = True
            self._pacer.call_later(_SWEEP_S, self._sweep)

    def _reserves_later(self, entry: StagedJob, lane: HandlerLimit, rate: float, now: float) -> bool:
        start = max(entry.fire_at, now, lane.next_at)
        lane.next_at = start + 1000 / rate
        entry.rate_reserved, entry.fire_at = True, math.ceil(start)
        return entry.fire_at - self._window_ms > now

    def _add_lane(self, job: Job) -> HandlerLimit:
        if len(self._lanes) >= _LANES_MAX:
            self._forget_some()
        name = self._names.of(job.target, job.handler)
        lane = self._lanes[name] = HandlerLimit(name, job.target, self._limits_of(job) or _USUAL, self._usual_width)
        lane.is_moving = any(map(self._moving.has, self._names.members(name)))
        return lane

    def _forget_some(self) -> None:
        """
        Forget the two lanes that were checked longest ago if they are idle. This bounds the number of lanes.
        """
        now = self._clock.now()
        for name in list(islice(self._lanes, 2)):
            lane = self._lanes.pop(name)
            if not lane.is_forgettable(now):
                self._lanes[name] = lane


def _due_in(lane: HandlerLimit) -> list[int]:
    queues = chain(lane.waiting, lane.booked) if lane.booked else lane.waiting
    return [entry.job.due_at for entry in queues if entry.phase is Phase.STAGED]
