"""
Claims jobs just before they are due: counts their attempts in the store, and sets the timers that fire them.

Staged jobs (the jobs in memory) are grouped by due time into slots of 16 to 64 ms. The attempts of all jobs in a slot
are counted in one write, `ARMING_WINDOW_MS` before the slot begins, so that no write delays a job at its due time. On a
node that fires little, the commit of an acknowledgement also claims the next few jobs.

The store's clock is sampled just before jobs are due, in a separate thread. Between two samples, the clock of the store
or of this machine may be slewed (run up to a tenth faster or slower until it is right). A job therefore fires only when
the last sample proves that the job is due.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import chain, compress, count
from typing import Final, NamedTuple

from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine._lanes import HandlerLimit, Lanes
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.host.options import loan_of
from tickwheel.host.registry import Registry
from tickwheel.host.store_clock import StoreClock
from tickwheel.host.writer import FEW
from tickwheel.jobs.explanation import EVERY_LANE, LaneState, WaitReason
from tickwheel.jobs.model import Answer, Begin, Claim, Claimed, Job, Outcome, Set, State, Write
from tickwheel.jobs.record import replace
from tickwheel.jobs.rows import PLACE
from tickwheel.jobs.rules import is_plain_set
from tickwheel.timers.contract import Timer

__all__ = ["ARMING_WINDOW_MS", "ClaimBatcher", "Sampler"]

_FRESH_MS: Final = 2.0
"""Age in ms up to which a sample of the clock is used again: its error is then at most a fifth of a millisecond."""
_LEAD_MIN_S: Final = 0.002
_LEAD_MAX_S: Final = 0.04
"""Maximum time by which a clock sample precedes a due time."""
_RETRY_S: Final = 0.5


class Sampler:
    """
    Samples the store's own clock on demand, in a separate thread, and calls *on_sample*. `ask` is thread-safe.
    """

    def __init__(self, resources: Resources, on_sample: Callable[[], object]) -> None:
        self._store = resources.store
        self._clock: StoreClock = resources.clock
        self._hooks = resources.hooks
        self._on_sample = on_sample
        self._current_thread = resources.runtime.current_thread
        self._asked, self._stopped = resources.runtime.event(), resources.runtime.event()
        self.lead_s = _LEAD_MIN_S
        self._thread = resources.runtime.thread(target=self._run, name="tickwheel-clock", daemon=True)

    def start(self) -> None:
        if self._clock.is_sampled:
            self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        self._asked.set()
        if self._thread.is_alive() and self._thread is not self._current_thread():
            self._thread.join(timeout_s)

    def ask(self) -> None:
        if self._clock.is_sampled and self._clock.age_ms() > _FRESH_MS:
            self._asked.set()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._stopped.is_set():
                return
            try:
                before = self._clock.elapsed()
                self._clock.sample(self._store.now_ms(), before, after := self._clock.elapsed())
            except Exception as error:  # noqa: BLE001 - this thread must not end: jobs would fire late
                self._hooks.failed("reading the store's clock", error)
                if self._stopped.wait(_RETRY_S):
                    return
                continue
            self.lead_s = min(max(_LEAD_MIN_S, 2 * (after - before) / 1e3), _LEAD_MAX_S)
            self._on_sample()


ARMING_WINDOW_MS: Final = 50
"""Time in ms by which jobs are claimed before their slot of due times begins: enough for ten commits of a slow disk."""

_ALONG_MS: Final = 4 * ARMING_WINDOW_MS
_ALONG_MAX: Final = 4
"""The commit of an acknowledgement also claims the jobs due within `_ALONG_MS`, if there are at most this many."""

SLOT_BITS: Final = 4
"""Binary logarithm of a slot's length in ms (16 ms). Each slot needs one write, so a second has at most 64 writes."""

_WIDER_MAX: Final = 2
"""Maximum number added to `SLOT_BITS` if a store has partitions. Longer slots need fewer writes in each partition."""

_CHUNK: Final = 500
"""Maximum number of jobs claimed in one write, so that callers' writes need not wait long."""

_COUNTED: Final = (Outcome.BEGUN, Outcome.TOO_LATE)
_OUTSIDE: Final = (Phase.FAR, Phase.STAGED)

_STEP_MS: Final = 1_000
"""A timer that fires this many ms before its due time shows that the clock was set back."""


class Places(NamedTuple):
    """
    Reserved places, as parallel lists: the indexes of the callers' writes, the keys of the jobs, and the lanes.
    """

    indexes: Sequence[int]
    keys: Sequence[str]
    lanes: Sequence[HandlerLimit]


class Reservation:
    """
    Places that are reserved for the new jobs of one commit, so that the commit can claim them at once.

    *claim* is the write that claims the jobs. For each claimed job, *begun* has the index of the write that set it.
    Only the committing thread may use a reservation.
    """

    __slots__ = ("_claims", "_first", "_is_open", "begun", "claim", "places")

    def __init__(self, claims: ClaimBatcher, epoch: int, first: int, places: Places) -> None:
        self._claims = claims
        self._first = first
        self.places = places
        indexes = [first + index for index in places.indexes] if first else places.indexes
        self.claim = Claim(places.keys[0], epoch, indexes)
        self.begun: Sequence[int] = ()
        self._is_open = True

    def answered(self, answer: Answer) -> None:
        if isinstance(answer, Claimed):
            first = self._first
            self.begun = [index - first for index in answer.indexes] if first else answer.indexes

    def start(self, answers: Sequence[Answer]) -> None:
        jobs = [job for index in self.begun if (job := answers[index].job) is not None]
        entries = self._claims.claimed(self, self.begun, jobs)
        self._is_open = False
        self._claims.fire(entries)

    def cancel(self) -> None:
        self._is_open = False
        self._claims.cancel(self.places)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._claims.doubt(self)


class ClaimBatcher:
    """
    Claims staged jobs (jobs in memory) in batches, and passes them on when they are due, in order of generation.
    """

    def __init__(
        self, resources: Resources, staged: StagedJobs, registry: Registry, callbacks: EngineCallbacks
    ) -> None:
        self._staged = staged
        self._clock = resources.clock
        self._timers = resources.timers
        self._pacer = resources.pacer
        self._writer = resources.writer
        self._store = resources.store
        self._partitions = resources.store.abilities.partitions
        self._slot_bits = SLOT_BITS + min(_WIDER_MAX, (self._partitions - 1).bit_length())
        self._hooks = resources.hooks
        self._callbacks = callbacks
        self._running_max = resources.options.running_max + loan_of(resources.options.running_max)
        self._lanes = Lanes(
            resources,
            registry.limits_of,
            ARMING_WINDOW_MS,
            names=registry.lanes,
            begin=self._begin,
            sweep=self._sweep,
            on_moving=callbacks.on_lanes_moved,
        )
        self._sampler = Sampler(resources, self._sampled)
        self.start, self.join = self._sampler.start, self._sampler.stop
        self._lock = resources.runtime.lock()
        self._slots: dict[int, list[StagedJob]] = {}
        self._openings: dict[int, Timer] = {}
        self._held: deque[StagedJob] = deque()
        self._doubtful: deque[Reservation] = deque()
        self._bursts: Counter[str] = Counter()
        """Number of unfinished writes of bursts, per handler. Later claims of a handler must not overtake them."""
        self._armed: list[tuple[int, int, list[StagedJob]]] = []
        """Heap of claimed jobs, sorted by fire time, so that they fire in order even if a timer is late."""
        self._numbers = count()
        self._reached = 0.0
        self._is_handing_over = False
        self._is_stopped = False

    def reserve(
        self, writes: Sequence[Write], first: int, epoch: int, lacking: Callable[[Sequence[Job]], Sequence[Job]]
    ) -> Reservation | None:
        """
        Reserve places for due jobs of callers' *writes*, so that one commit can create and claim these jobs.

        A job gets no place if its lane is full or has a rate limit, or if other jobs of the lane wait for places. If
        this node cannot run one of the jobs, nothing is reserved; *lacking* returns the jobs that it cannot run. In the
        commit's batch, *writes* begin at the index *first*.
        """
        room = 0 if self._held else self._room()
        if room <= 0:
            return None
        soon = int(self._clock.now()) + ARMING_WINDOW_MS
        indexes: list[int] = []
        jobs: list[Job] = []
        for index, write in enumerate(writes):
            if type(write) is Set and write.job.due_at <= soon and write.counted_from is None and is_plain_set(write):
                indexes.append(index)
                jobs.append(write.job)
        if not jobs:
            return None
        del indexes[room:], jobs[room:]
        if lacking(jobs):
            return None
        keys = [job.key for job in jobs]
        are_free = self._staged.reserve(keys)
        if not all(are_free):
            indexes, keys = list(compress(indexes, are_free)), list(compress(keys, are_free))
            jobs = list(compress(jobs, are_free))
        lanes = self._lanes.reserve(jobs)
        have_room = [lane is not None for lane in lanes]
        if not all(have_room):
            self._staged.cancel([key for key, has_room in zip(keys, have_room, strict=True) if not has_room])
            indexes, keys = list(compress(indexes, have_room)), list(compress(keys, have_room))
        places = Places(indexes, keys, [lane for lane in lanes if lane is not None])
        return Reservation(self, epoch, first, places) if indexes else None

    def claimed(self, reservation: Reservation, indexes: Sequence[int], jobs: Sequence[Job]) -> list[StagedJob]:
        """
        Add the claimed *jobs* to memory; release the reserved places that were not used.

        For each job, *indexes* has the index of the write that set it.
        """
        places, epoch = reservation.places, reservation.claim.epoch
        if len(indexes) == len(places.indexes):
            return self._staged.claimed(jobs, places.lanes, epoch)
        lanes = dict(zip(places.indexes, places.lanes, strict=True))
        entries = self._staged.claimed(jobs, [lanes.pop(index) for index in indexes], epoch)
        are_left = [index in lanes for index in places.indexes]
        self.cancel(Places([*lanes], list(compress(places.keys, are_left)), [*lanes.values()]))
        return entries

    def cancel(self, places: Places) -> None:
        freed = self._staged.cancel(places.keys)
        self._lanes.cancel(places.lanes)
        self._begin(freed)

    def doubt(self, reservation: Reservation) -> None:
        self._doubtful.append(reservation)
        if self._is_stopped:
            self.stop()
        else:
            self._callbacks.rescan()

    def recover(self) -> None:
        """
        After commits with unknown outcomes, fire the jobs that the store lists as running.

        If the store cannot be read, the next call continues.
        """
        while self._doubtful:
            reservation = self._doubtful[0]
            indexes = dict(zip(reservation.places.keys, reservation.places.indexes, strict=True))
            stored = self._store.get_many(list(indexes))
            jobs = {
                indexes[job.key]: replace(job, state=State.PENDING, attempt=0)
                for job in sorted(stored, key=PLACE)
                if job.state is State.RUNNING
            }
            self._doubtful.popleft()
            self.fire(self.claimed(reservation, [*jobs], [*jobs.values()]))

    def add(self, entries: Iterable[StagedJob]) -> None:
        """
        File staged *entries* by due time, and at once claim entries that are due soon. Callable from any thread.
        """
        soon = int(self._clock.now()) + ARMING_WINDOW_MS + (1 << self._slot_bits)
        at_once: list[StagedJob] = []
        opened: list[int] = []
        with self._lock:
            for entry in entries:
                due_at = entry.fire_at
                if due_at < soon:
                    at_once.append(entry)
                    continue
                slot = due_at >> self._slot_bits
                filed = self._slots.get(slot)
                if filed is None:
                    self._slots[slot] = [entry]
                    opened.append(slot)
                else:
                    filed.append(entry)
        try:
            for slot in opened:
                when = self._clock.deadline((slot << self._slot_bits) - ARMING_WINDOW_MS)
                timer = self._timers.call_at(when, self._open_slot, slot)
                with self._lock:
                    if slot in self._slots:  # otherwise `begin_along` has claimed its jobs
                        self._openings[slot] = timer
        except ClosedError:  # the scheduler stops: all staged jobs stay in the store
            return
        if at_once:
            self._begin(at_once)

    def begin_along(self) -> None:
        """
        Claim the next few jobs a little early, in the same commit as the acknowledgements that are posted next.
        """
        now, bits = int(self._clock.now()), self._slot_bits
        with self._lock:
            slots = [slot for slot in range(now >> bits, (now + _ALONG_MS >> bits) + 1) if slot in self._slots]
            if not slots or sum(len(self._slots[slot]) for slot in slots) > _ALONG_MAX:
                return
            entries = [entry for slot in slots for entry in self._slots.pop(slot)]
            timers = [self._openings.pop(slot) for slot in slots if slot in self._openings]
        for timer in timers:
            timer.cancel()
        self._begin(entries)

    def ended(self, entries: Sequence[StagedJob], freed: list[StagedJob]) -> None:
        self._lanes.leave(entries)
        if freed:
            self._begin(freed)
        else:
            self.resume()

    def widen(self, target: str, handler: str) -> None:
        self._lanes.widen(target, handler)
        self.resume()

    def _sweep(self) -> None:
        self._lanes.sweep(self._staged.take(Phase.RUNNING))
        self.resume()

    def moving(self) -> tuple[frozenset[str], frozenset[str]]:
        return self._lanes.moving()

    def backlog(self) -> list[StagedJob]:
        return self._lanes.backlog()

    def reason(self, lane: str) -> WaitReason:
        return self._lanes.reason(lane)

    def waits(self) -> dict[str, tuple[int, int, int | None]]:
        return self._lanes.waits()

    def state(self, lane: str) -> LaneState | None:
        return self._lanes.state(lane)

    @property
    def held(self) -> int:
        """
        Number of entries that wait because `running_max` attempts are running, or because the lease is not trusted.
        """
        return len(self._held)

    def resume(self) -> None:
        while (self._held or self._lanes.has_changed) and (room := self._room()) > 0:
            if self._held:
                with self._lock:
                    held = [self._held.popleft() for _ in range(min(room, len(self._held)))]
                self._count(self._lanes.admit(held))
            elif not self._count(self._lanes.next(room)):
                return

    def forget(self) -> None:
        with self._lock:
            self._slots.clear()
            self._openings.clear()

    def stop(self) -> None:
        self._is_stopped = True
        with suppress(IndexError):  # the next owner reads the outcome from the store
            while True:
                self.cancel(self._doubtful.popleft().places)

    def _room(self) -> int:
        if self._is_stopped:
            return 0
        if not self._callbacks.can_claim():
            self._hooks.waits.tell(EVERY_LANE, WaitReason.LEASE_NOT_TRUSTED, "no attempt is counted")
            return 0
        return self._running_max - self._staged.busy

    def _open_slot(self, slot: int) -> None:
        with self._lock:
            entries = self._slots.pop(slot, None)
            self._openings.pop(slot, None)
        if entries is None:  # `begin_along` has claimed them
            return
        soon = self._clock.now() + ARMING_WINDOW_MS + (1 << self._slot_bits) + _STEP_MS
        if any(entry.fire_at > soon for entry in entries):  # the clock was set back: too early
            self.add(entries)
        else:
            self._begin(entries)

    def _begin(self, entries: list[StagedJob]) -> None:
        if not self._is_stopped:
            self._count(self._lanes.admit(entries))
            self.resume()

    def _count(self, admitted: list[StagedJob]) -> bool:
        if not admitted:
            return False
        begun, held = self._staged.begin(admitted, max(0, self._room()))
        if len(begun) < len(admitted):
            self._lanes.leave(entry for entry in admitted if entry.phase in _OUTSIDE)
            with self._lock:
                self._held.extend(held)
            if held:
                self._hooks.waits.tell(EVERY_LANE, WaitReason.BUSY, f"{self._staged.busy} attempts are under way")
        if len(begun) > _CHUNK:  # a handler with few entries does not wait for a burst
            counts = Counter(entry.job.handler for entry in begun)
            begun.sort(key=lambda entry: counts[entry.job.handler])
        for part in self._by_partition(begun):
            for start in range(0, len(part), _CHUNK):
                self._post(part[start : start + _CHUNK])
        self._callbacks.on_capacity()
        return True

    def _by_partition(self, entries: list[StagedJob]) -> Iterable[list[StagedJob]]:
        if self._partitions == 1:
            return [entries]
        parts: defaultdict[int, list[StagedJob]] = defaultdict(list)
        for entry in entries:
            parts[entry.epoch % self._partitions].append(entry)
        return parts.values()

    def _post(self, entries: list[StagedJob]) -> None:
        writes = [Begin(entry.job, entry.epoch) for entry in entries]
        burst = self._handlers_in_burst(entries)
        try:
            self._writer.post(writes, partial(self._begun, entries, burst), in_turn=bool(burst))
        except ClosedError:  # the scheduler stops
            self._staged.refuse(entries)

    def _handlers_in_burst(self, entries: list[StagedJob]) -> set[str]:
        """
        Return the handlers of *entries* if *entries* are part of a burst; if not, an empty set.
        """
        handlers = {entry.job.handler for entry in entries}
        with self._lock:
            # a few entries join a burst of their handlers that is still being written: they must not overtake it
            if len(entries) <= FEW and self._bursts.keys().isdisjoint(handlers):
                return set()
            self._bursts.update(handlers)
        return handlers

    def _begun(self, entries: list[StagedJob], burst: set[str], result: list[Answer] | Exception) -> None:
        """
        Fire the *entries* that the store reports as claimed, and drop the rest. Runs on the committing thread.
        """
        if burst:
            with self._lock:
                self._bursts -= Counter(burst)  # the subtraction also drops counts of zero
        if isinstance(result, Exception):
            self._ask_again(entries, result)
            return
        # TOO_LATE: an earlier try of this write, whose answer was lost, may have claimed the attempt
        begun = [entry for entry, answer in zip(entries, result, strict=True) if answer.outcome in _COUNTED]
        if len(begun) < len(entries):
            known = set(map(id, begun))
            refused = [entry for entry in entries if id(entry) not in known]
            self.ended(refused, self._staged.refuse(refused))
        self.fire(self._staged.begun(begun))

    def _ask_again(self, entries: list[StagedJob], error: Exception) -> None:
        self._hooks.failed("counting attempts", error)
        entries = self._staged.doubt(entries)  # they may have been claimed; the others were withdrawn
        if not entries:
            return
        try:
            self._pacer.call_later(_RETRY_S, self._post, entries)
        except ClosedError:
            self._staged.refuse(entries)

    def _sampled(self) -> None:
        self._hand_over(self._clock.earliest())

    def fire(self, entries: Sequence[StagedJob]) -> None:
        now = self._clock.earliest()
        if self._is_stopped:  # the stop releases all entries, even before they are due
            now = float("inf")
        elif self._clock.clock_step:
            entries = self._without_early(entries, now)
        due: list[StagedJob] = []
        later: defaultdict[int, list[StagedJob]] = defaultdict(list)
        for entry in entries:
            (due if entry.fire_at <= now else later[entry.fire_at]).append(entry)
        due.sort(key=_turn)
        with self._lock:
            for batch in (due, *later.values()) if due else later.values():
                heappush(self._armed, (batch[0].fire_at, next(self._numbers), batch))
        for fire_at, batch in later.items():
            self._set_timer(fire_at, batch)
        if due:
            self._hand_over(now)

    def _set_timer(self, fire_at: int, batch: list[StagedJob]) -> None:
        when = self._clock.deadline(fire_at)
        try:
            if self._clock.is_sampled:
                self._timers.call_at(when - self._sampler.lead_s, self._sampler.ask)
            self._timers.call_at(when, self._at_instant, fire_at, batch)
        except ClosedError:  # the stop releases claimed entries that have not fired
            return

    def _at_instant(self, fire_at: int, batch: list[StagedJob]) -> None:
        now = self._clock.earliest()
        if fire_at > now:
            if self._clock.clock_step:
                self._without_early(_begun_of(batch), now)
            if any(entry.phase is Phase.BEGUN for entry in batch):
                self._sampler.ask()
                with suppress(ClosedError):
                    self._timers.call_at(self._clock.least_deadline(fire_at), self._at_instant, fire_at, batch)
        self._hand_over(now)

    def _hand_over(self, until: float) -> None:
        """
        Pass on jobs that are due by *until*, in order. If two threads call this at once, one does all the work.
        """
        with self._lock:
            self._reached = max(self._reached, until)
            if self._is_handing_over:
                return
            self._is_handing_over = True
        try:
            while (batch := self._next_due()) is not None:
                if self._clock.clock_step:
                    batch = self._without_early(batch, self._clock.earliest())
                if batch:
                    self._callbacks.dispatch(batch)
        except BaseException:  # the next call passes on the jobs that other threads left to this one
            self._is_handing_over = False
            with suppress(ClosedError):
                self._pacer.call_later(0, self._hand_over, until)
            raise

    def _next_due(self) -> list[StagedJob] | None:
        batches: list[list[StagedJob]] = []
        with self._lock:
            while self._armed and self._armed[0][0] <= self._reached:
                batches.append(heappop(self._armed)[2])
            if not batches:
                self._reached, self._is_handing_over = 0.0, False
                return None
        if len(batches) > 1:
            return sorted(_begun_of(chain.from_iterable(batches)), key=_turn)
        return _begun_of(batches[0])

    def _without_early(self, entries: Sequence[StagedJob], now: float) -> list[StagedJob]:
        """
        Return the *entries* that are due. Release entries that were claimed too early because the clock was set back.
        """
        early = {
            entry for entry in entries if entry.job.due_at - now > _STEP_MS or self._callbacks.needs_redate(entry.job)
        }
        if early:
            self._callbacks.release_claims(list(early))
        return [entry for entry in entries if entry not in early]


def _begun_of(entries: Iterable[StagedJob]) -> list[StagedJob]:
    return [entry for entry in entries if entry.phase is Phase.BEGUN]


def _turn(entry: StagedJob) -> tuple[int, int, int]:
    return entry.fire_at, entry.job.due_at, entry.job.generation
