"""
Rewrites due times after a step of the clock, and after a change of the time zone data.

A due time that depends on elapsed time (see `elapsed`), such as "in an hour", moves with the clock. The start of an
interval moves in the same way. If the clock is set back, a cron job moves to the first of its instants that are in the
future again. A due time that was set with `at=` never moves. Every job is checked before it is staged. A wrong due time
is rewritten in the store, and the job is staged after that commit.

Two releases of the time zone data may give different due times for a recurring job. A node that takes shards therefore
reads the recurring jobs of these shards once, in the background, and corrects due times by its own data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tickwheel.engine._staged import Position, position_of
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.explanation import WaitReason
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Answer, Job, Redate, State
from tickwheel.jobs.query import JobQuery
from tickwheel.jobs.recurrence import Recurrence, renamed
from tickwheel.stores import Lease

if TYPE_CHECKING:
    import threading

__all__ = ["ClockStepAdjuster", "Zones"]

_RETRY_S: Final = 0.5
"""Seconds before a failed write of due times is repeated."""
_UNSURE_S: Final = 60.0
"""Seconds after a clock step during which commits may still write due times that were computed before the step."""


class ClockStepAdjuster:
    """
    Rewrites relative due times after a clock step, then calls *on_lives* with the changed jobs, on the writer's thread.
    """

    def __init__(self, resources: Resources, on_lives: Callable[[Sequence[Job]], object]) -> None:
        self._clock = resources.clock
        self._writer = resources.writer
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._elapsed = resources.elapsed
        self._on_lives = on_lives
        self._sure_at = 0.0
        self._on_way: set[int] = set()
        self._outdated: set[Position] = set()

    @property
    def under_way(self) -> int:
        return len(self._on_way)

    def begin_scan(self) -> None:
        """
        Forget which due times were rewritten. Call this before each scan, which will read the new due times.
        """
        self._outdated.clear()

    def stepped(self) -> None:
        self._sure_at = self._clock.monotonic() + _UNSURE_S

    def right(self, jobs: Sequence[Job], epoch: int, *, is_news: bool) -> Sequence[Job]:
        """
        Return the *jobs* whose due times are right, and rewrite the wrong due times in the store.

        If *is_news* is True, this process has just committed *jobs*. If False, *jobs* were read from the store, and
        jobs that were rewritten after the read are left out, because `on_lives` gets their new states.
        """
        if self._elapsed.is_steady or not jobs:
            return jobs
        if not is_news:
            jobs = [job for job in jobs if self._is_fresh(job)]
        else:
            self._outdated.difference_update(map(position_of, jobs))
        clock_step = self._clock.clock_step
        right: list[Job] = []
        elapsed: list[Redate] = []
        calendar: list[Redate] = []
        for job in jobs:
            base = self._elapsed.base(job)
            if base is None:
                if (write := self._by_calendar(job, epoch)) is None:
                    right.append(job)
                else:
                    calendar.append(write)
            elif step := self._clock.moved_ms(base, clock_step):
                elapsed.append(Redate(job, epoch, job.due_at + step, _moved(job.recurrence, step)))
            else:
                right.append(job)
        for writes, counted_in in ((elapsed, clock_step), (calendar, None)):
            if writes:
                self._on_way.update(write.job.generation for write in writes)
                for lane in {lane_of(write.job.target, write.job.handler) for write in writes}:
                    self._hooks.waits.tell(lane, WaitReason.CLOCK_SET, "instants are written again")
                self._post(writes, counted_in)
        return right

    def rename(self, jobs: Sequence[Job], epoch: int) -> None:
        writes: list[Redate] = []
        now = self._clock.now_ms()
        for job in jobs:
            if job.recurrence is None or job.attempt or job.is_paused or job.due_at <= now:
                continue
            with suppress(Exception):  # an unreadable rule is reported when the job fires
                if (due_at := renamed(job.key, job.due_at, job.recurrence)) is not None:
                    writes.append(Redate(job, epoch, due_at, job.recurrence))
        if writes:
            self._on_way.update(write.job.generation for write in writes)
            self._post(writes, None)

    def needs_redate(self, job: Job) -> bool:
        if self._elapsed.is_steady or (base := self._elapsed.base(job)) is None:
            return False
        return self._clock.moved_ms(base, self._clock.clock_step) != 0

    def is_on_way(self, job: Job) -> bool:
        return job.generation in self._on_way

    def _is_fresh(self, job: Job) -> bool:
        return job.generation not in self._on_way and position_of(job) not in self._outdated

    def _by_calendar(self, job: Job, epoch: int) -> Redate | None:
        if job.recurrence is None:
            return None
        if not self._elapsed.is_old(job) and self._clock.monotonic() > self._sure_at:
            return None
        try:
            recurrence = replace(Recurrence.from_text(job.recurrence), next_at=None, nominal_at=None)
            due_at = recurrence.next(job.key, self._clock.now_ms())
        except Exception:  # noqa: BLE001  the firing reports the error, or the job is left to another node
            return None
        if due_at is None or due_at >= job.due_at or due_at > self._clock.shown_ms:
            return None
        return Redate(job, epoch, due_at, recurrence.to_text())

    def _post(self, writes: list[Redate], clock_step: int | None) -> None:
        with suppress(ClosedError):  # the scheduler stops
            self._writer.post(writes, partial(self._written, writes, clock_step))

    def _written(self, writes: list[Redate], clock_step: int | None, result: list[Answer] | Exception) -> None:
        if isinstance(result, Exception):
            self._hooks.failed("redating jobs", result)
            with suppress(ClosedError):
                self._pacer.call_later(_RETRY_S, self._post, writes, clock_step)
            return
        lives = [
            job
            for write, answer in zip(writes, result, strict=True)
            if (job := answer.job) is not None and _is_done(write, job)
        ]
        if clock_step is not None:
            self._elapsed.note(lives, clock_step)
        self._outdated.update(position_of(write.job) for write in writes)
        self._outdated.difference_update(map(position_of, lives))
        self._on_way.difference_update(write.job.generation for write in writes)
        self._on_lives(lives)


def _is_done(write: Redate, job: Job) -> bool:
    return job.state is State.PENDING and position_of(job) == (write.due_at, write.job.generation)


def _moved(text: str | None, step_ms: int) -> str | None:
    if text is None:
        return None
    try:
        return Recurrence.from_text(text).moved(step_ms).to_text()
    except Exception:  # noqa: BLE001  a rule of another version, for example, stays as it is
        return text


_WAIT_S: Final = 1.0
"""Seconds between the takeover of a shard and the check of its jobs."""
_PAGE: Final = 500
_REST_S: Final = 0.02
"""Seconds between the reads of two pages of jobs, so that other reads and writes need not wait."""


class Zones:
    """
    Passes the recurring jobs of newly taken shards to the function *right*, which corrects due times.
    """

    def __init__(self, resources: Resources, right: Callable[[Sequence[Job], int], object]) -> None:
        self._store = resources.store
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._runtime = resources.runtime
        self._starter = resources.starter("the check of zones")
        self._right = right
        self._lock = resources.runtime.lock()
        self._stopped = resources.runtime.event()
        self._epochs: dict[int, int] = {}
        self._unchecked: set[int] = set()
        self._thread: threading.Thread | None = None

    def own(self, leases: Sequence[Lease]) -> None:
        if self._store.abilities.is_private:  # no other process writes jobs to a private store
            return
        epochs = {lease.shard: lease.epoch for lease in leases}
        with self._lock:
            taken = {shard for shard, epoch in epochs.items() if self._epochs.get(shard) != epoch}
            is_planned = bool(self._unchecked)
            self._unchecked = (self._unchecked | taken) & epochs.keys()
            self._epochs = epochs
        if taken and not is_planned:
            self._plan()

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        if self._thread is not None and self._thread is not self._runtime.current_thread():
            self._thread.join(timeout_s)

    def _plan(self) -> None:
        with suppress(ClosedError):  # the scheduler stops
            self._pacer.call_later(_WAIT_S, self._begin)

    def _begin(self) -> None:
        thread = self._runtime.thread(target=self._run, name="tickwheel-zones", daemon=True)
        if not self._stopped.is_set() and self._starter.start(thread.start, self._begin):
            self._thread = thread

    def _run(self) -> None:
        with self._lock:
            shards, self._unchecked = self._unchecked, set()
        try:
            self._check(shards)
        except Exception as error:  # noqa: BLE001  the instants stay as they are until the check is repeated
            self._hooks.failed("checking instants by the data of zones", error)
            with self._lock:
                self._unchecked |= shards & self._epochs.keys()
            self._plan()

    def _check(self, shards: set[int]) -> None:
        cursor: str | None = None
        while shards:
            page = self._store.page(JobQuery(recurring=True, cursor=cursor, limit=_PAGE))
            by_shard: dict[int, list[Job]] = {}
            for job in page.jobs:
                if job.state is State.PENDING and (shard := self._store.shard_of(job.key)) in shards:
                    by_shard.setdefault(shard, []).append(job)
            for shard, jobs in by_shard.items():
                if (epoch := self._epochs.get(shard)) is not None:
                    self._right(jobs, epoch)
            cursor = page.cursor
            if cursor is None or self._stopped.wait(_REST_S):
                return
