"""
The figures of this node by minute: counted with every settled batch, and kept in the store once a minute.

A minute in which nothing ended and nothing was committed has no row, so an idle node writes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Ending
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.explanation import LaneState
from tickwheel.jobs.minutes import (
    BUCKETS,
    MINUTE_MS,
    QUARTER_MS,
    LaneMinute,
    Minute,
    bucket_of,
    busiest,
    merged,
    merged_lanes,
)

if TYPE_CHECKING:
    import threading

__all__ = ["LaneCounts", "MinuteKeeper"]

_NAMES_MAX: Final = 1_000
"""Maximum number of targets and handlers that are counted apart: addresses of one receiver may be many more."""
_UNKEPT_MAX: Final = 240
"""Maximum number of rows that wait in memory while the store does not answer: those of more than three hours."""
_RETRIED, _DIED = Ending.RETRIED, Ending.DIED  # an enum is slow to look into
_FIRED, _FAILED, _DEAD, _WAIT, _TOOK, _LATE_MAX, _FIRST = range(7)


class LaneCounts:
    """
    The counts of the open minute by target and handler, under a *lock*. Callable from any thread.

    Args:
        lock: A lock that nothing else uses.
        lane_of: Returns the lane of a target and handler.
    """

    def __init__(self, lock: AbstractContextManager[object], lane_of: Callable[[str, str], str]) -> None:
        self._lock = lock
        self._lane_of = lane_of
        self._counts: dict[tuple[str, str], list[Any]] = {}
        self._folded: tuple[LaneMinute, ...] = ()

    def add(self, ended: Sequence[tuple[StagedJob, Ending]]) -> None:
        with self._lock:
            target, handler, row = None, None, list[Any]()
            for entry, ending in ended:
                job = entry.job
                if job.handler != handler or job.target != target:  # jobs of one handler mostly end together
                    target, handler = job.target, job.handler
                    row = self._row_of(target, handler)
                if fired_at := entry.fired_at:
                    late_ms = fired_at - job.due_at
                    row[_FIRED] += 1
                    row[_FIRST + bucket_of(late_ms)] += 1
                    row[_TOOK] += entry.ran_ms
                    if late_ms > row[_LATE_MAX]:  # noqa: PLR1730  max() is a call, and this runs for each firing
                        row[_LATE_MAX] = late_ms
                    if fired_at > entry.ready_at > 0:
                        row[_WAIT] += fired_at - entry.ready_at
                if ending is _RETRIED or ending is _DIED:
                    row[_FAILED] += ending is _RETRIED or bool(fired_at)
                    row[_DEAD] += ending is _DIED

    def _row_of(self, target: str, handler: str) -> list[Any]:
        name, counts = (target, handler), self._counts
        row = counts.get(name)
        if row is None:
            if len(counts) >= _NAMES_MAX:
                self._fold()
            row = counts[name] = [0, 0, 0, 0.0, 0.0, 0.0, *(0,) * BUCKETS]
        return row

    def take(self) -> tuple[LaneMinute, ...]:
        """
        Return and reset the counts by lane.
        """
        with self._lock:
            self._fold()
            taken, self._folded = self._folded, ()
            return taken

    def _fold(self) -> None:
        """
        Add the open counts to the counts of their lanes; lanes beyond the busiest ones are counted together as others.
        """
        lanes = (
            LaneMinute(
                self._lane_of(*name),
                row[_FIRED],
                row[_FAILED],
                row[_DEAD],
                0,
                row[_WAIT],
                row[_TOOK],
                row[_LATE_MAX],
                tuple(row[_FIRST:]),
            )
            for name, row in self._counts.items()
        )
        self._folded = busiest(merged_lanes((*self._folded, *lanes), {}), _NAMES_MAX)
        self._counts.clear()


class MinuteKeeper:
    """
    Keeps a row for each minute, and one for the open quarter of an hour, by one statement.

    Args:
        resources: The resources of all roles.
        counts: The counts of this node.
        lanes: Returns the figures of the lanes whose jobs wait.
    """

    def __init__(
        self,
        resources: Resources,
        counts: LaneCounts,
        lanes: Callable[[], Sequence[LaneState]],
    ) -> None:
        self._store = resources.store
        self._owner = resources.owner
        self._now_ms = resources.clock.now_ms
        self._writer = resources.writer
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._runtime = resources.runtime
        self._starter = resources.starter("the keeper of minutes")
        self._counts = counts
        self._lanes = lanes
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._at = self._now_ms() // MINUTE_MS * MINUTE_MS
        self._quarter = Minute(self._owner, self._at // QUARTER_MS * QUARTER_MS, QUARTER_MS)
        self._minute = Minute(self._owner, self._at)
        self._unkept: dict[tuple[int, int], Minute] = {}
        self._is_started = False

    def start(self) -> None:
        self._stats, self._times = self._writer.stats(), self._writer.times.snapshot()
        self._is_started = True
        self._wait()

    def _wait(self) -> None:
        delay_ms = MINUTE_MS - self._now_ms() % MINUTE_MS
        with suppress(ClosedError):  # a stop
            self._pacer.call_later(delay_ms / 1000, self._begin)

    def stop(self, timeout_s: float | None) -> None:
        """
        Store the open minute, and no later one.
        """
        self._is_stopped = True
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self._is_started:
            self._try_to_keep()

    def _begin(self) -> None:
        """
        Start a thread for the write, since the pacer's thread has others to call.
        """
        if self._is_stopped:
            return
        thread = self._runtime.thread(target=self._run, name="tickwheel-minutes", daemon=True)
        if self._starter.start(thread.start, self._begin):
            self._thread = thread

    def _run(self) -> None:
        self._try_to_keep()
        self._wait()

    def _try_to_keep(self) -> None:
        try:
            self.keep()
        except Exception as error:  # noqa: BLE001 - figures may be lost, and nothing else
            self._hooks.failed("keeping the figures of a minute", error)

    def keep(self) -> None:
        """
        Store the figures since the last call, if there are any, as those of the minute of that call.

        A second call in the same minute adds to its row; a clock that is set back a little causes one.

        Raises:
            StoreError: If the store does not answer; up to 240 rows wait for the next call.
        """
        now = self._now_ms() // MINUTE_MS * MINUTE_MS
        at, self._at = self._at, now
        minute = self._closed(at)
        if minute.commits or minute.lanes:
            self._minute = self._with(self._minute, minute, at, MINUTE_MS)
            self._quarter = self._with(self._quarter, minute, at // QUARTER_MS * QUARTER_MS, QUARTER_MS)
            self._unkept |= {(each.span_ms, each.at): each for each in (self._minute, self._quarter)}
            for place in list(self._unkept)[:-_UNKEPT_MAX]:
                del self._unkept[place]
        if self._unkept:
            self._store.keep_minutes(tuple(self._unkept.values()))
            self._unkept.clear()

    def _with(self, before: Minute, minute: Minute, at: int, span_ms: int) -> Minute:
        return merged([before, minute] if before.at == at else [minute], at, span_ms, self._owner)

    def _closed(self, at: int) -> Minute:
        stats, before, times = self._writer.stats(), self._stats, self._writer.times
        slowest_ms = times.since(self._times)["max_ms"]
        self._stats, self._times = stats, times.snapshot()
        lanes = {lane.lane: lane for lane in self._counts.take()}
        for state in self._lanes():
            if state.waiting:
                lanes[state.lane] = replace(lanes.get(state.lane) or LaneMinute(state.lane), overdue=state.waiting)
        commits, seconds = stats.commits - before.commits, stats.seconds - before.seconds
        return Minute(self._owner, at, MINUTE_MS, commits, seconds * 1000, slowest_ms, tuple(lanes.values()))
