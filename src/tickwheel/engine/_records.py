"""
Records of the past: the history of attempts, the figures of each minute, and the pruning of both.

    history.keep    recorded attempts
    "none"          none
    "failures"      attempts that failed, died, expired or were stopped
    "usual"         as "failures", and each run of a recurring job, and each success with a note
    "all"           all attempts, including snoozes and plain successes

A record is written in the commit that settles the attempt. The figures of a minute are stored once a minute; an idle
minute has no row. The owner of the first shard deletes old records (prunes), in small steps in a short-lived thread:
within a minute of a new record, because their number is limited, and at least once an hour, because their age is
limited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final

from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Ending, Verdict, verdict_of
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.host.distribution import tallied
from tickwheel.host.options import HistoryOptions
from tickwheel.jobs.checks import seconds
from tickwheel.jobs.explanation import LaneState
from tickwheel.jobs.minutes import (
    BUCKETS,
    MINUTE_MS,
    QUARTER_MS,
    LaneMinute,
    Minute,
    bucket_of,
    busiest,
    kept_from,
    merged,
    merged_lanes,
)
from tickwheel.jobs.model import HistoryRecord
from tickwheel.jobs.record import replace
from tickwheel.jobs.recurrence import nominal_of

if TYPE_CHECKING:
    import threading

__all__ = ["LaneCounts", "MinuteKeeper", "Pruner", "Recorder"]

_OUTCOMES: Final = {ending: ending.value for ending in Ending} | {Ending.RETRIED: "failed"}
"""The user-visible outcome of each ending."""

_SUCCEEDED: Final = Ending.SUCCEEDED  # constants, as an enum look-up is slow
_FAILURES: Final = (Ending.RETRIED, Ending.DIED, Ending.EXPIRED, Ending.STOPPED)
_KEPT: Final = {
    "none": (),
    "failures": _FAILURES,
    "usual": (Ending.SUCCEEDED, *_FAILURES),
    "all": (Ending.SUCCEEDED, Ending.SNOOZED, *_FAILURES),
}
"""The endings that are recorded, for each value of `HistoryOptions.keep`."""


class Recorder:
    def __init__(self, options: HistoryOptions, by: str, now: Callable[[], float]) -> None:
        self._kept: tuple[Ending, ...] = _KEPT[options.keep]
        self.has_all = options.keep == "all"
        self._by = by
        self._now = now
        self.count = 0

    def noted(self, entry: StagedJob, verdict: Verdict | None) -> Verdict | None:
        ending, job, progress = _SUCCEEDED if verdict is None else verdict.ending, entry.job, entry.progress
        is_plain = ending is _SUCCEEDED and job.recurrence is None and (progress is None or not progress.note)
        if is_plain and not self.has_all:
            return verdict  # most attempts end in this way, so it must be cheap
        if ending not in self._kept:
            return verdict
        if verdict is None:
            verdict = verdict_of(entry)
        now = self._now()
        begun_at = float(entry.fired_at) or None
        took_ms = None
        if begun_at is not None:
            entry.ran_ms = took_ms = entry.ran_ms or max(0.0, now - begun_at)
        record = HistoryRecord(
            0,
            int(now),
            job.key,
            job.generation,
            entry.attempt,
            _OUTCOMES[ending],
            self._by,
            job.target,
            job.handler,
            job.due_at,
            begun_at,
            took_ms,
            verdict.settle.error,
            verdict.traceback,
            _trace_of(entry),
            None if progress is None else progress.note or None,
            nominal_of(job.key, job.due_at, job.recurrence),
        )
        self.count += 1
        return replace(verdict, settle=replace(verdict.settle, record=record, is_first=True))


def _trace_of(entry: StagedJob) -> str | None:
    if entry.span is not None:
        with suppress(Exception):  # an error of a tracer must not stop a firing
            return entry.span.trace
    return entry.job.trace


_NAMES_MAX: Final = 1_000
"""Maximum number of targets and handlers that are counted separately."""
_UNKEPT_MAX: Final = 240
"""Maximum number of rows kept in memory while the store does not answer. These rows cover more than three hours."""
_RETRIED, _DIED = Ending.RETRIED, Ending.DIED  # constants, as an enum look-up is slow
_FIRED, _FAILED, _DEAD, _WAIT, _TOOK, _LATE_MAX, _FIRST = range(7)


class LaneCounts:
    """
    The counts of the current minute, for each target and handler. All methods may be called from any thread.
    """

    def __init__(self, lock: AbstractContextManager[object], lane_of: Callable[[str, str], str]) -> None:
        self._lock = lock
        self._lane_of = lane_of
        self._counts: dict[tuple[str, str], list[Any]] = {}
        self._folded: tuple[LaneMinute, ...] = ()

    def add(self, ending: Ending, entries: Sequence[StagedJob], late_ms: Sequence[float]) -> None:
        """
        Count *entries*, all of one target and handler and with one *ending*. *late_ms* has their lateness, sorted.
        """
        job = entries[0].job
        took_ms = sum([entry.ran_ms for entry in entries if entry.fired_at])
        wait_ms = sum([entry.fired_at - entry.ready_at for entry in entries if entry.fired_at > entry.ready_at > 0])
        with self._lock:
            row = self._row_of(job.target, job.handler)
            if late_ms:
                row[_FIRED] += len(late_ms)
                row[_TOOK] += took_ms
                row[_WAIT] += wait_ms
                row[_LATE_MAX] = max(row[_LATE_MAX], late_ms[-1])
                for bucket, count in tallied(late_ms, bucket_of):
                    row[_FIRST + bucket] += count
            if ending is _RETRIED:
                row[_FAILED] += len(entries)
            elif ending is _DIED:
                row[_FAILED] += len(late_ms)
                row[_DEAD] += len(entries)

    def _row_of(self, target: str, handler: str) -> list[Any]:
        name, counts = (target, handler), self._counts
        row = counts.get(name)
        if row is None:
            if len(counts) >= _NAMES_MAX:
                self._fold()
            row = counts[name] = [0, 0, 0, 0.0, 0.0, 0.0, *(0,) * BUCKETS]
        return row

    def take(self) -> tuple[LaneMinute, ...]:
        with self._lock:
            self._fold()
            taken, self._folded = self._folded, ()
            return taken

    def _fold(self) -> None:
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
        with suppress(ClosedError):  # the scheduler stops
            self._pacer.call_later(delay_ms / 1000, self._begin)

    def stop(self, timeout_s: float | None) -> None:
        self._is_stopped = True
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self._is_started:
            self._try_to_keep()

    def _begin(self) -> None:
        if self._is_stopped:
            return
        # In a new thread, because a write in this thread would delay other timers.
        thread = self._runtime.thread(target=self._run, name="tickwheel-minutes", daemon=True)
        if self._starter.start(thread.start, self._begin):
            self._thread = thread

    def _run(self) -> None:
        self._try_to_keep()
        self._wait()

    def _try_to_keep(self) -> None:
        try:
            self.keep()
        except Exception as error:  # noqa: BLE001 - only figures may be lost
            self._hooks.failed("keeping the figures of a minute", error)

    def keep(self) -> None:
        """
        Store the figures since the previous call, in the row of the minute of the previous call.
        """
        now = self._now_ms() // MINUTE_MS * MINUTE_MS
        at, self._at = self._at, now
        minute = self._closed(at)
        if minute.commits or minute.lanes:
            # after a small step back of the clock, a minute has figures twice: its row gets the sum
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


_EVERY_S: Final = 60.0
_HOUR: Final = 60
"""Maximum number of minutes between two deletions of old records, even if there is no new record."""
_STEP: Final = 500
"""Maximum number of records that one commit deletes. Such a commit takes some milliseconds."""
_REST_S: Final = 0.05
"""Pause in seconds between two commits that delete old records, so that other commits can run."""


class Pruner:
    def __init__(self, resources: Resources, recorder: Recorder, is_responsible: Callable[[], bool]) -> None:
        self._store = resources.store
        self._options = resources.options.history
        self._now_ms = resources.clock.now_ms
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._runtime = resources.runtime
        self._starter = resources.starter("the pruner")
        self._recorder = recorder
        self._is_responsible = is_responsible
        self._stopped = resources.runtime.event()
        self._thread: threading.Thread | None = None
        self._turns = 0
        self._seen = 0

    def start(self) -> None:
        with suppress(ClosedError):  # the scheduler stops
            self._pacer.call_later(_EVERY_S, self._begin)

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _begin(self) -> None:
        if self._stopped.is_set():
            return
        self._turns += 1
        has_news = self._recorder.count != self._seen or self._store.abilities.has_many_owners  # other nodes record
        if self._is_responsible() and (has_news or self._turns % _HOUR == 1):
            self._seen = self._recorder.count
            thread = self._runtime.thread(target=self._run, name="tickwheel-pruner", daemon=True)
            if self._starter.start(thread.start, self._begin):
                self._thread = thread
        else:
            self.start()

    def _run(self) -> None:
        try:
            self.prune()
        except Exception as error:  # noqa: BLE001 - this thread must not end: the history would grow without bounds
            self._hooks.failed("pruning the history", error)
        self.start()

    def prune(self) -> int:
        options, gone = self._options, 0
        since = self._now_ms() - round(seconds("age_s", options.age_s) * 1000)
        self._store.forget_minutes(*kept_from(self._now_ms()))
        while not self._stopped.is_set():
            count = self._store.prune(since, options.per_key, options.total, _STEP)
            gone += count
            if not count or self._stopped.wait(_REST_S):
                break
        return gone
