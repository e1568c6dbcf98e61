"""
Remembers which pending jobs have relative due times, and in which clock step each due time was computed.

A store holds due times on its own clock. After a clock step, a due time that means "in an hour" is no longer an hour
away. An owner therefore remembers, for each such job, the number of the last clock step (see `StoreClock`) before its
due time was written. The sum of all later steps is the error of the due time.

    origin of the due time                                 clock step that the owner remembers
    set or moved here with delay=, retried or snoozed      the last step before the write
    every=                                                 the last step before the last run or the first read
    at=, cron=                                             none, because the job follows the wall clock
    set by another process, or before this owner started   none, so the job is treated like at=

The jobs are remembered as ranges of generations. A million jobs with consecutive generations take one pair of numbers;
in the worst case, each job takes a pair.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.jobs.model import Job

__all__ = ["RelativeJobs"]

_RUNS_MAX: Final = 50_000
"""If a clock step has more ranges of generations than this, ranges whose jobs are all overdue are dropped."""


class _Runs:
    """
    Sorted ranges of generations: the jobs of one clock step. *until* has the latest due time of each range.
    """

    __slots__ = ("first", "last", "limit", "until")

    def __init__(self) -> None:
        self.first, self.last, self.until = array("q"), array("q"), array("q")
        self.limit = _RUNS_MAX

    def __contains__(self, generation: int) -> bool:
        index = bisect_right(self.first, generation) - 1
        return index >= 0 and generation <= self.last[index]

    def add(self, first: int, last: int, due_at: int) -> None:
        end = len(self.last) - 1
        if end >= 0 and first == self.last[end] + 1:
            self.last[end] = last
            self.until[end] = max(self.until[end], due_at)
        elif end < 0 or first > self.last[end]:
            self._insert(end + 1, first, last, due_at)
        else:
            for generation in range(first, last + 1):
                if generation not in self:
                    self._insert(bisect_right(self.first, generation), generation, generation, due_at)

    def _insert(self, index: int, first: int, last: int, due_at: int) -> None:
        self.first.insert(index, first)
        self.last.insert(index, last)
        self.until.insert(index, due_at)

    def forget(self, now: int) -> None:
        kept = [index for index, until in enumerate(self.until) if until >= now]
        self.first = array("q", (self.first[index] for index in kept))
        self.last = array("q", (self.last[index] for index in kept))
        self.until = array("q", (self.until[index] for index in kept))
        self.limit = max(_RUNS_MAX, 2 * len(kept))


class RelativeJobs:
    """
    Remembers the jobs of one owner that have relative due times. All methods may be called from any thread.
    """

    def __init__(self, clock: StoreClock, runtime: Runtime) -> None:
        self._clock = clock
        self._lock = runtime.lock()
        self._runs: list[_Runs] = [_Runs()]
        self._floors: list[int] = [0]
        self._highest = 0

    @property
    def is_steady(self) -> bool:
        return self._clock.clock_step == 0

    def note(self, jobs: Sequence[Job], clock_step: int) -> None:
        if not jobs:
            return
        first, last = jobs[0].generation, jobs[-1].generation
        with self._lock:
            runs = self._of(clock_step)
            if len(jobs) == 1:
                runs.add(first, first, jobs[0].due_at)
            elif [job.generation for job in jobs] == list(range(first, last + 1)):  # as one commit assigns them
                runs.add(first, last, max([job.due_at for job in jobs]))
            else:
                for job in jobs:
                    runs.add(job.generation, job.generation, job.due_at)
                first = max([job.generation for job in jobs])
            self._highest = max(self._highest, first, last)
            if len(runs.first) > runs.limit:
                runs.forget(self._clock.now_ms() - max(0, self._clock.moved_ms(clock_step, self._clock.clock_step)))

    def follow(self, lives: Iterable[tuple[Job, Job, int]]) -> None:
        """
        Record the clock step in which each settled job's next due time was computed.

        *lives* has three values for each job: its old state, its new state, and the number of that clock step.
        """
        for before, after, clock_step in lives:
            is_again = after.generation == before.generation
            if is_again or _is_interval(after):
                self.note((after,), self._clock_step_of(before, clock_step))

    def met(self, jobs: Iterable[Job]) -> None:
        highest = max([job.generation for job in jobs], default=0)
        with self._lock:
            self._highest = max(self._highest, highest)

    def base(self, job: Job) -> int | None:
        with self._lock:
            self._of(self._clock.clock_step)
            for clock_step in range(len(self._runs) - 1, -1, -1):
                if job.generation in self._runs[clock_step]:
                    return clock_step
            if not _is_interval(job):
                return None  # the due time follows the wall clock
            for clock_step in range(
                len(self._floors) - 1, 0, -1
            ):  # no note of the job: use the clock step in which its generation was assigned
                if job.generation > self._floors[clock_step]:
                    return clock_step
            return 0

    def is_old(self, job: Job) -> bool:
        with self._lock:
            self._of(self._clock.clock_step)
            return job.generation <= self._floors[-1]

    def now(self, job: Job) -> float:
        """
        Return the current time in ms, minus all clock steps since the due time of *job* was written.

        The lateness is computed from this time, so that a clock step does not make a job seem an hour late.
        """
        return self._clock.now() if self.is_steady else float(self.now_ms(job))

    def now_ms(self, job: Job) -> int:
        now, clock_step = self._clock.reading()
        return now if clock_step == 0 else now - self._clock.moved_ms(self._clock_step_of(job, clock_step), clock_step)

    def end_of(self, job: Job) -> tuple[int, int]:
        now, clock_step, latest = self._clock.reading_for_delay()
        doubt = latest + 1 - now
        return now if clock_step == 0 else now - self._clock.moved_ms(
            self._clock_step_of(job, clock_step), clock_step
        ), doubt

    def _clock_step_of(self, job: Job, clock_step: int) -> int:
        base = None if job.recurrence is not None and not _is_interval(job) else self.base(job)
        return clock_step if base is None else base

    def _of(self, clock_step: int) -> _Runs:
        while len(self._runs) <= clock_step:
            self._runs.append(_Runs())
            self._floors.append(self._highest)
        return self._runs[clock_step]


def _is_interval(job: Job) -> bool:
    return job.recurrence is not None and '"every_ms"' in job.recurrence
