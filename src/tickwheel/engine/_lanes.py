"""
Limits the rate and the number of jobs under way of each handler, queue and receiver.

Every handler and every receiver has a lane, see `lane_of`. By default a lane may use three quarters of `running_max`:
three times as many places as are free. So hanging jobs of one lane leave room for others; if several lanes take all
places, a lane that has nothing under way is lent one.

A limit applies before an attempt is counted. So a waiting job stays staged: it can be moved and cancelled, and uses no
attempt. It counts towards `staged_max`. A lane whose workers come and go (a pull queue) may have no place for days, so
its surplus is unstaged, and read again from the store when the lane moves: a queue without workers holds up no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Final

from tickwheel.engine._staged_job import Phase, StagedJob, Waiting
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.host.lane_names import LaneNames
from tickwheel.host.options import loan_of, share_of
from tickwheel.jobs.explanation import LaneState, WaitReason
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job
from tickwheel.targets import USUAL, Limits

__all__ = ["Lane", "Lanes"]

_LANES_MAX: Final = 1_000
"""Maximum number of idle lanes that are remembered."""
_NARROW: Final = 64
"""A wider lane ends enough attempts at once to fill a commit, so that none of them is urgent."""
_USUAL: Final = Limits()


class Lane:
    """
    One handler, queue or receiver.

    Attributes:
        limits: The limits of the handler.
        width: Maximum number of attempts under way, or inf.
        name: See `lane_of`.
        busy: Number of attempts that are counted and not settled.
        waiting: Entries that wait for a place.
        booked: Entries that have a later slot of the rate.
        has_more: True if entries were unstaged for lack of room.
        next_at: The first free slot of the rate, in ms.
        is_urgent: True if one acknowledgement should not wait for a batch.
    """

    __slots__ = ("booked", "busy", "has_more", "is_urgent", "limits", "name", "next_at", "waiting", "width")

    def __init__(self, name: str, limits: Limits, usual_width: int) -> None:
        self.name = name
        self.limits = limits
        self.width = usual_width if limits.concurrency is USUAL else limits.concurrency or math.inf
        self.busy = 0
        self.has_more = False
        self.waiting = Waiting(Phase.STAGED)
        self.booked = Waiting(Phase.STAGED)
        self.next_at = 0.0
        self.is_urgent = False

    @property
    def is_free(self) -> bool:
        places = self.limits.places
        return self.busy < self.width and (places is None or self.busy < places())

    def is_forgettable(self, now: float) -> bool:
        return not (self.busy or self.waiting or self.has_more) and self.next_at <= now


class Lanes:
    """
    Admits jobs within their handlers' limits. From any thread.

    Args:
        limits_of: Returns the limits of a job's handler, or None.
        window_ms: Time between the begin of an entry and its instant.
        names: The lanes that registrations name.
        begin: Begins entries that are admitted later.
        turn_away: Unstages entries.
        on_more: Called when a lane has room again for unstaged entries.
    """

    def __init__(
        self,
        resources: Resources,
        limits_of: Callable[[Job], Limits | None],
        window_ms: int,
        *,
        names: LaneNames,
        begin: Callable[[list[StagedJob]], object],
        turn_away: Callable[[list[StagedJob]], object],
        on_more: Callable[[], object],
    ) -> None:
        self._clock = resources.clock
        self._waits = resources.hooks.waits
        self._timers = resources.timers
        self._limits_of = limits_of
        self._names = names
        self._window_ms: Final = window_ms
        self._begin = begin
        self._turn_away = turn_away
        self._on_more = on_more
        self._waiting_max = resources.options.staged_max // 2
        self._usual_width = share_of(resources.options.running_max)
        self._free = resources.options.running_max
        """Free places of all lanes; negative while places are lent to lanes that had none."""
        self._loan = loan_of(resources.options.running_max)
        self._lock = resources.runtime.lock()
        self._lanes: dict[str, Lane] = {}
        self._crowded: set[Lane] = set()
        """Lanes with waiting or unstaged entries."""
        self._changed: dict[Lane, None] = {}
        self._short: dict[Lane, None] = {}
        """Lanes whose entries wait only for a free place."""

    def admit(self, entries: list[StagedJob]) -> list[StagedJob]:
        """
        Return those of *entries* that may begin now; the others wait here, or are passed to `begin` later.
        """
        admitted: list[StagedJob] = []
        later: list[StagedJob] = []
        away: list[StagedJob] = []
        held: dict[Lane, WaitReason] | None = {} if self._waits.is_on else None
        now = self._clock.now()
        lanes, named = self._lanes, self._names.named
        with self._lock:
            for entry in entries:
                job = entry.job
                name = lane_of(job.target, job.handler)
                lane = lanes.get(named.get(name, name)) or self._add_lane(job)
                rate = lane.limits.rate
                if rate is not None and not entry.is_booked and self._books_later(entry, lane, rate, now):
                    later.append(entry)
                    lane.booked.put(entry)
                elif lane.busy < lane.width and (lane.limits.places is None or lane.is_free) and self._has_share(lane):
                    self._enter(entry, lane)
                    admitted.append(entry)
                    continue
                elif lane.limits.places is not None and (lane.has_more or len(lane.waiting) >= self._share):
                    lane.has_more = True
                    self._crowded.add(lane)
                    away.append(entry)
                else:
                    lane.waiting.put(entry)
                    self._crowded.add(lane)
                    lane.is_urgent = lane.width <= _NARROW or lane.limits.places is not None
                if held is not None:
                    held[lane] = self._reason(lane)
        for lane, reason in (held or {}).items():
            self._waits.tell(lane.name, reason, f"attempts under way: {lane.busy}")
        if away:
            self._turn_away(away)
        for entry in later:
            try:
                self._timers.call_at(self._clock.deadline(entry.fire_at - self._window_ms), self._begin, [entry])
            except ClosedError:  # a stop overtook us: it stays in the store
                break
        return admitted

    def leave(self, entries: Iterable[StagedJob]) -> None:
        with self._lock:
            for entry in entries:
                lane, entry.lane = entry.lane, None
                if lane is not None:
                    lane.busy -= 1
                    self._free += 1
                    if self._short:
                        self._changed.update(self._short)
                        self._short.clear()
                    if lane.waiting or lane.has_more:
                        self._changed[lane] = None

    def widen(self, target: str, handler: str) -> None:
        with self._lock:
            lane = self._lanes.get(lane_of(target, handler))
            if lane is not None:
                self._changed[lane] = None

    def next(self, count: int) -> list[StagedJob]:
        admitted: list[StagedJob] = []
        is_wanted = False
        if not self._changed:
            return admitted
        with self._lock:
            while self._changed and len(admitted) < count:
                lane, _ = self._changed.popitem()
                while lane.waiting and lane.is_free and len(admitted) < count and self._has_share(lane):
                    entry = lane.waiting.popleft()
                    if entry.phase is Phase.STAGED:  # and not moved or cancelled while it waited
                        self._enter(entry, lane)
                        admitted.append(entry)
                lane.is_urgent = lane.is_urgent and bool(lane.waiting)
                if lane.has_more and len(lane.waiting) <= self._share // 2:
                    lane.has_more, is_wanted = False, True
                if not (lane.waiting or lane.has_more):
                    self._crowded.discard(lane)
                if lane.waiting and len(admitted) == count:
                    self._changed[lane] = None
        if is_wanted:
            self._on_more()
        return admitted

    def backlog(self) -> list[StagedJob]:
        """
        Return entries that wait in lanes of pull queues; some of them may have been moved or cancelled.
        """
        with self._lock:
            lanes = [lane for lane in self._lanes.values() if lane.limits.places is not None]
            return [entry for lane in lanes for entry in lane.waiting]

    def reason(self, name: str) -> WaitReason:
        with self._lock:
            lane = self._lanes.get(name)
            return WaitReason.BUSY if lane is None else self._reason(lane)

    def states(self) -> dict[str, LaneState]:
        with self._lock:
            lanes = [each for each in self._lanes.values() if each.busy or each.waiting or each.booked or each.has_more]
            return {lane.name: self._state(lane) for lane in lanes}

    def _state(self, lane: Lane) -> LaneState:
        due = [entry.job.due_at for entry in chain(lane.waiting, lane.booked) if entry.phase is Phase.STAGED]
        limit = lane.limits.concurrency
        return LaneState(
            lane.name,
            self._reason(lane) if due or lane.has_more else None,
            waiting=len(due),
            running=lane.busy,
            oldest_due_at=min(due, default=None),
            concurrency=limit if isinstance(limit, int) else None,
            rate=lane.limits.rate,
        )

    def _reason(self, lane: Lane) -> WaitReason:
        if lane.limits.rate is not None and lane.next_at > self._clock.now():
            return WaitReason.RATE
        if lane.limits.places is not None:
            return WaitReason.BUSY if lane.limits.places() else WaitReason.NO_WORKER
        is_usual = lane.limits.concurrency is USUAL or lane.busy < lane.width
        return WaitReason.BUSY if is_usual else WaitReason.CONCURRENCY

    @property
    def _share(self) -> int:
        return max(1, self._waiting_max // max(1, len(self._crowded)))

    def _has_share(self, lane: Lane) -> bool:
        """
        Return whether *lane* may take one more place; if not, it is asked again when attempts end.
        """
        if not lane.busy:
            has_share = self._free > -self._loan
        elif lane.limits.concurrency is USUAL:
            has_share = lane.busy < 3 * (self._free - 1)
        else:
            has_share = self._free > 0
        if not has_share:
            self._short[lane] = None
        return has_share

    def _enter(self, entry: StagedJob, lane: Lane) -> None:
        if entry.lane is None:  # it comes twice where its key's last run ends meanwhile
            lane.busy += 1
            self._free -= 1
        entry.lane = lane

    def _books_later(self, entry: StagedJob, lane: Lane, rate: float, now: float) -> bool:
        """
        Reserve the next free slot of the *rate* for *entry*; return True if it is too early to begin it.
        """
        start = max(entry.fire_at, now, lane.next_at)
        lane.next_at = start + 1000 / rate
        entry.is_booked, entry.fire_at = True, math.ceil(start)
        return entry.fire_at - self._window_ms > now

    def _add_lane(self, job: Job) -> Lane:
        if len(self._lanes) >= _LANES_MAX:
            self._forget_some()
        name = self._names.of(job.target, job.handler)
        lane = self._lanes[name] = Lane(name, self._limits_of(job) or _USUAL, self._usual_width)
        return lane

    def _forget_some(self) -> None:
        """
        Check the two lanes that were checked longest ago, which bounds the number of idle lanes.
        """
        now = self._clock.now()
        for name in list(islice(self._lanes, 2)):
            lane = self._lanes.pop(name)
            if not lane.is_forgettable(now):
                self._lanes[name] = lane
