"""
The worker threads of sync handlers, and the queue that holds a pool's due jobs and gives places to lanes.

A place is a thread, a task or a process. A lane is a handler or a receiver; see `lane_of`. A lane gets at most three
quarters of the places, so that hanging jobs of one lane leave room for all other lanes (a bulkhead). Lanes with waiting
jobs take turns, and lanes without running jobs come first. The jobs of one lane start in order.

Several hanging lanes can hold all places. A lane without running jobs that has waited for half a second therefore gets
an extra place (a loan), up to a bound. The loan ends when another place is free. A lane without visible progress is
called stalled (see `_lanes`). All stalled lanes of one target together take at most three quarters of places and loans.

An attempt has leaked if its thread or task continues after its timeout. The attempt still occupies its place, so one
place is added for it, up to `leaked_max` in all. All lanes with leaked attempts together run at most `leaked_max`
attempts, including the leaked ones; each of these lanes runs at most three quarters of that number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from tickwheel.engine._staged_job import LazyDeque, Phase, StagedJob
from tickwheel.engine.resources import ThreadStarter
from tickwheel.host.lane_names import LaneNames
from tickwheel.host.options import loan_of, share_of
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.lane import lane_of
from tickwheel.targets import DEFAULT

if TYPE_CHECKING:
    import threading

    from tickwheel.engine._lanes import HandlerLimit

__all__ = ["WorkQueue", "Workers"]

_LINES_MAX: Final = 1_000
"""Maximum number of idle handlers that are remembered."""


class _HandlerQueue:
    """
    The jobs of one lane. *busy* counts its running attempts, except leaked attempts, which *leaked* counts.

    *counted* is the lane's target if the lane counts as a stalled lane (see `_lanes`) of that target; if not, None.
    """

    __slots__ = ("busy", "counted", "lane", "leaked", "name", "waiting", "width")

    def __init__(self, name: tuple[str, str], width: int) -> None:
        self.name = name
        self.width = width
        self.busy = 0
        self.lane: HandlerLimit | None = None
        self.counted: str | None = None
        self.leaked = 0
        self.waiting = LazyDeque(Phase.BEGUN)

    @property
    def group(self) -> str | None:
        return None if self.lane is None or self.lane.is_moving else self.lane.target


class WorkQueue:
    """
    Gives places to entries, in order within each lane. All methods may be called from any thread.
    """

    def __init__(self, size: int, leaked_max: int, runtime: Runtime, names: LaneNames | None = None) -> None:
        self._names = names or LaneNames()
        self._size = size
        self._leaked_max = leaked_max
        self._lock = runtime.lock()
        self._lines: dict[str, _HandlerQueue] = {}
        self._idle: dict[_HandlerQueue, None] = {}
        """Lanes that have waiting entries and nothing running, in the order of their turns."""
        self._open: dict[_HandlerQueue, None] = {}
        """Lanes that have running entries, and waiting entries that may start, in the order of their turns."""
        self._stalled: dict[str, int] = {}
        """For each target, the number of its stalled lanes (see the module) that have running attempts."""
        self._held: dict[str, dict[_HandlerQueue, None]] = {}
        """For each target, its stalled lanes (see the module) that run nothing and wait until the target has room."""
        self._base = size
        """
        Number of places without loans: `size`, plus one for each leaked entry up to `leaked_max`, because a leaked
        entry still occupies a place.
        """
        self._lent = 0
        self._starved: set[_HandlerQueue] = set()
        """The idle lanes found by the last call of `lend`."""
        self.places: int = size
        """Number of places, including loans."""
        self._running: dict[StagedJob, _HandlerQueue] = {}  # in the order of their starts
        self._leaked: set[StagedJob] = set()
        self._suspects = 0
        """Number of running attempts of handlers that have leaked, including the leaked attempts."""

    def put(self, entries: Sequence[StagedJob]) -> None:
        with self._lock:
            lines, named, touched = self._lines, self._names.named, dict[_HandlerQueue, None]()
            for entry in entries:
                lane = lane_of(entry.job.target, entry.job.handler)
                line = lines.get(named.get(lane, lane)) or self._add_line(entry)
                line.waiting.put(entry)
                line.lane = entry.lane
                touched[line] = None
            for line in touched:
                self._let_on(line)

    def take(self, ended: StagedJob | None = None) -> StagedJob | None:
        with self._lock:
            running = self._running
            if ended is not None:
                line = running.get(ended)
                if line is not None and line.waiting and self._is_only(line):  # the lane keeps the place
                    del running[ended]
                    entry = line.waiting.popleft()
                    running[entry] = line
                    return entry
                self._leave(ended)
            count = len(running)
            while (self._idle and count < self.places) or (self._open and count < self._base):
                lines = self._idle or self._open
                line = next(iter(lines))
                del lines[line]
                if not line.waiting or not (self._has_place(line) if line.leaked else line.busy < line.width):
                    continue
                group = line.group if lines is self._idle else None
                if group is not None:
                    if not self._has_room(group):
                        self._held.setdefault(group, {})[line] = None
                        continue
                    self._stalled[group] = self._stalled.get(group, 0) + 1
                    line.counted = group
                entry = line.waiting.popleft()
                running[entry] = line
                if line.leaked:
                    self._count(line, 1, 0)
                else:
                    line.busy += 1
                if line.waiting:
                    self._let_on(line)
                return entry
        return None

    def leak(self, entry: StagedJob) -> bool:
        with self._lock:
            line = self._running.get(entry)
            if line is None or entry in self._leaked:
                return False
            self._leaked.add(entry)
            self._count(line, -1, 1)
            self._let_on(line)
            return True

    def lend(self) -> bool:
        """
        Lend a place to each lane that has had waiting jobs and no running job since the last call.

        Returns False if nothing more may start.
        """
        with self._lock:
            moving = [line for held in self._held.values() for line in held if line.group is None]
            self._let_on_held(moving)
            starved = sum(line in self._starved for line in self._idle)
            self._starved = set(self._idle)
            running = len(self._running)
            if not starved or running < self._base:
                return bool(moving)
            self._lent = max(self._lent, min(loan_of(self._size), running + starved - self._base))
            self.places = self._base + self._lent
            return True

    @property
    def is_short(self) -> bool:
        return bool(self._held) or (bool(self._idle) and len(self._running) + len(self._idle) > self.places)

    def take_back(self) -> list[StagedJob]:
        with self._lock:
            waiting = [*chain.from_iterable(line.waiting for line in self._lines.values())]
            for line in self._lines.values():
                line.waiting.clear()
            self._open.clear()
            self._idle.clear()
            self._held.clear()
        return waiting

    def running(self) -> list[StagedJob]:
        with self._lock:
            return list(self._running)

    @property
    def has_next(self) -> bool:
        return self._has_next()

    @property
    def waiting(self) -> int:
        with self._lock:
            return sum(len(line.waiting) for line in self._lines.values())

    def waiting_by_lane(self) -> dict[str, list[int]]:
        with self._lock:
            found = {
                lane: [entry.job.due_at for entry in line.waiting if entry.phase is Phase.BEGUN]
                for lane, line in self._lines.items()
                if line.waiting
            }
        return {lane: instants for lane, instants in found.items() if instants}

    @property
    def leaked(self) -> dict[tuple[str, str], int]:
        if not self._leaked:
            return {}
        with self._lock:
            return {line.name: line.leaked for line in self._lines.values() if line.leaked}

    # ---- under the lock --------------------------------------------------------------------------------------------

    def _has_next(self) -> bool:
        running = len(self._running)
        return (bool(self._idle) and running < self.places) or (bool(self._open) and running < self._base)

    def _is_only(self, line: _HandlerQueue) -> bool:
        if self._idle or self._held or self._lent or self._leaked or line.busy > line.width:
            return False
        return len(self._open) == (line in self._open)

    def _leave(self, entry: StagedJob) -> None:
        line = self._running.pop(entry, None)
        if line is None:
            return
        if self._lent and len(self._running) < self._base:
            self._lent, self.places = 0, self._base
        if line.leaked:
            has_leaked = entry in self._leaked
            self._leaked.discard(entry)
            self._count(line, has_leaked - 1, -has_leaked)
            for each in self._lines.values():
                self._let_on(each)
        else:
            line.busy -= 1
            if line.waiting:
                self._let_on(line)
        if line.counted is not None and not (line.busy or line.leaked):
            self._stalled[line.counted] -= 1
            line.counted = None
        if self._held:
            self._let_on_held(next(iter(held)) for held in self._held.values())
        if len(self._lines) > _LINES_MAX and not (line.busy or line.leaked or line.waiting):
            del self._lines[":".join(line.name)]

    def _add_line(self, entry: StagedJob) -> _HandlerQueue:
        lane = self._names.of(entry.job.target, entry.job.handler)
        assert entry.call is not None
        width = entry.call.width
        prefix = entry.job.target if lane.startswith(f"{entry.job.target}:") else "lane"
        name = (prefix, lane.removeprefix(f"{prefix}:"))
        line = self._lines[lane] = _HandlerQueue(
            name, share_of(self._size) if width is DEFAULT else width or self._size
        )
        return line

    def _count(self, line: _HandlerQueue, busy: int, leaked: int) -> None:
        if line.leaked:
            self._suspects -= line.busy + line.leaked
        line.busy += busy
        line.leaked += leaked
        if line.leaked:
            self._suspects += line.busy + line.leaked
        self._base = self._size + min(len(self._leaked), self._leaked_max)
        self.places = self._base + self._lent

    def _has_room(self, group: str) -> bool:
        return self._stalled.get(group, 0) < 3 * (self._base + loan_of(self._size) - len(self._running))

    def _let_on_held(self, lines: Iterable[_HandlerQueue]) -> None:
        for line in [*lines]:
            group = line.lane.target if line.lane is not None else ""
            if line.group is None or self._has_room(group):
                del self._held[group][line]
                if not self._held[group]:
                    del self._held[group]
                self._let_on(line)

    def _has_place(self, line: _HandlerQueue) -> bool:
        if line.leaked and (
            self._suspects >= self._leaked_max or line.busy + line.leaked >= share_of(self._leaked_max)
        ):
            return False
        return line.busy < line.width

    def _let_on(self, line: _HandlerQueue) -> None:
        if line.waiting and (self._has_place(line) if line.leaked else line.busy < line.width):
            if line.busy or line.leaked:
                self._open[line] = None
            else:
                self._open.pop(line, None)
                self._idle[line] = None


class Workers:
    """
    Daemon threads that run the entries of a queue, at most one per place (see the module), started on demand.

    Waking a thread costs more than a short handler takes. A batch of entries therefore wakes one worker. If a worker
    takes an entry while other entries wait, it wakes the next worker, unless one is being woken already.

    A worker frees an entry's place before the entry's outcome is written to the store. If no other entry waits, the
    worker writes the outcome itself; during this write, another worker may take the place.

    Args:
        run: Runs an entry until it ends, and returns True if its outcome is to be written. Its second argument is the
            time that *write* has just returned, or None.
        queue: Gives places to entries.
        write: Writes the outcome of an entry, and returns the time.
        write_last: Writes the outcome for a worker that has no other entry to run.
    """

    def __init__(
        self,
        run: Callable[[StagedJob, float | None], bool],
        queue: WorkQueue,
        runtime: Runtime,
        starter: ThreadStarter,
        *,
        write: Callable[[StagedJob], float],
        write_last: Callable[[StagedJob], object],
    ) -> None:
        self._run = run
        self._write = write
        self._write_last = write_last
        self.queue = queue
        self._runtime = runtime
        self._starter = starter
        self._lock = runtime.lock()
        self._resting: list[threading.Lock] = []
        """A held lock for each resting worker; its release wakes the worker. The last one to rest is woken first."""
        self.count = 0
        self._is_waking = False
        self._is_closed = False
        self._threads: dict[threading.Thread, None] = {}  # in the order of their starts, as they are joined

    def put(self, entries: Sequence[StagedJob]) -> None:
        self.queue.put(entries)
        self._wake_one()

    def lend(self) -> None:
        if self.queue.lend():
            self._wake_one()

    def leak(self, entry: StagedJob) -> None:
        if self.queue.leak(entry):
            self._wake_one()

    def close(self, timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else self._runtime.monotonic() + timeout_s
        with self._lock:
            self._is_closed = True
            while self._resting:
                self._resting.pop().release()
            inside = self._runtime.current_thread()
            threads = [each for each in self._threads if each is not inside]
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - self._runtime.monotonic()))

    def runs_caller(self) -> bool:
        return self._runtime.current_thread() in self._threads

    def _wake_one(self) -> None:
        with self._lock:
            if self._is_waking or self._is_closed:
                return
            if self._resting:
                self._is_waking = True
                self._resting.pop().release()
            elif self.count < self.queue.places:
                name = f"tickwheel-worker-{self.count + 1}"
                thread = self._runtime.thread(target=self._work, name=name, daemon=True)
                self.count += 1
                self._is_waking = True
                self._threads[thread] = None
                if not self._starter.start(thread.start, self._wake_one):
                    self.count -= 1
                    self._is_waking = False
                    self._threads.pop(thread, None)

    def _work(self) -> None:
        queue, run = self.queue, self._run
        bell = self._runtime.lock()
        bell.acquire()
        self._is_waking = False
        entry: StagedJob | None = None
        is_over = False
        try:
            while True:
                following, now = queue.take(entry), None
                if following is None:
                    if entry is not None and is_over:
                        self._rest(entry)
                    entry, is_over = None, False
                    if not self._wait(bell):
                        return
                    continue
                # No lock is needed: a worker checks the queue before it rests, and a later `put` wakes a resting
                # worker.
                if not self._is_waking and (self._resting or self.count < queue.places) and queue.has_next:
                    self._wake_one()
                if entry is not None and is_over:
                    now = self._write(entry)
                entry = following
                is_over = run(entry, now)
        finally:
            self._threads.pop(self._runtime.current_thread(), None)

    def _rest(self, entry: StagedJob) -> None:
        with self._lock:
            self.count -= 1  # so that another thread can be started for a new job
        try:
            self._write_last(entry)
        finally:
            with self._lock:
                self.count += 1

    def _wait(self, bell: threading.Lock) -> bool:
        with self._lock:
            if self.queue.has_next:
                return True
            if self._is_closed or self.count > self.queue.places:
                self.count -= 1
                return False
            self._resting.append(bell)
        bell.acquire()
        self._is_waking = False
        return True
