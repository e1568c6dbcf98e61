"""
Acknowledges finished attempts, in batches.

The store refuses an acknowledgement if the job was set again or its shard has another owner. Refusals are counted, and
not retried. If the store cannot write a batch, each acknowledgement is written alone, so that a bad one does not delay
the good ones. If a single acknowledgement also fails, its text is written in ASCII, which every database accepts.

A single acknowledgement is written at once. Further acknowledgements gather during that commit, for at least 5 ms from
its start, and share the next commit. With n partitions, this pause is n times as long, so that the total number of
commits stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine._records import Recorder
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Ending, Verdict, given_back, is_refused, verdict_of
from tickwheel.engine.figures import Figures
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.errors import StoreError, ascii_text
from tickwheel.jobs.model import Answer, Outcome, Settle, Settled, State
from tickwheel.jobs.record import replace
from tickwheel.observe.events import (
    Event,
    JobDied,
    JobExpired,
    JobFailed,
    JobSnoozed,
    JobStopped,
    JobSucceeded,
    SettleRefused,
)
from tickwheel.timers.contract import Timer

__all__ = ["AckBatcher", "Completer", "ended_event"]

_CHUNK: Final = 500
"""Maximum number of acknowledgements in one write, so that claims and callers need not wait long."""

_PAUSE_S: Final = 0.005
"""Minimum seconds between the starts of two commits of acknowledgements."""

_MANY: Final = 64
"""If this many acknowledgements wait, they are committed without a pause."""


class AckBatcher:
    """
    Posts acknowledgements, one batch after the other. Thread-safe. Call `go_on` after the answer to a batch.
    """

    def __init__(self, resources: Resources, post: Callable[[list[StagedJob]], object]) -> None:
        self._pause_s = _PAUSE_S * resources.store.abilities.partitions
        self._pacer = resources.pacer
        self._post = post
        self._monotonic = resources.runtime.monotonic
        self._lock = resources.runtime.lock()
        self._ended: list[StagedJob] = []
        self._is_posting = False
        self._posted_at = -math.inf
        self._pause: Timer | None = None

    def add(self, entry: StagedJob) -> None:
        lane = entry.lane
        is_urgent = lane is not None and lane.is_urgent
        self._ended.append(entry)
        if self._is_coming(is_urgent=is_urgent):
            return
        with self._lock:
            if self._is_coming(is_urgent=is_urgent):
                return
            pause, self._pause = self._pause, None
            if not self._is_posting:
                self._is_posting = True
                if not is_urgent and self._pauses():
                    return
        if pause is not None:
            pause.cancel()
        self._post_next()

    def flush(self) -> None:
        with self._lock:
            is_pausing, self._pause = self._pause is not None, None
        if is_pausing:
            self._post_next()

    def go_on(self) -> None:
        with self._lock:
            if self._ended and self._pauses():
                return
        self._post_next()

    def end(self) -> None:
        self._is_posting = False  # no answer to the last batch will come

    def _is_coming(self, *, is_urgent: bool) -> bool:
        """
        Return True if the next batch, posted by another thread or a timer, will include all entries added until now.
        """
        return self._is_posting and (self._pause is None or not (is_urgent or self._is_full()))

    def _is_full(self) -> bool:
        return len(self._ended) >= _MANY

    def _pauses(self) -> bool:
        """
        Set a timer for the end of the pause between commits. The caller holds the lock.

        Returns False if the pause is over.
        """
        left = self._posted_at + self._pause_s - self._monotonic()
        if left <= 0 or self._is_full():
            return False
        try:
            self._pause = self._pacer.call_later(left, self._end_pause)
        except ClosedError:  # the scheduler stops
            return False
        return True

    def _post_next(self) -> None:
        with self._lock:
            while not (batch := self._ended[:_CHUNK]):
                self._is_posting = False
                if not self._ended:  # a later `add` sees that no thread posts, and posts
                    return
                self._is_posting = True
            del self._ended[: len(batch)]
            self._posted_at = self._monotonic()
        self._post(batch)

    def _end_pause(self) -> None:
        with self._lock:
            if self._pause is None:  # another thread has ended the pause
                return
            self._pause = None
        self._post_next()


_RETRY_S: Final = 0.5
"""Retry delay, in seconds, for an acknowledgement that the store did not answer."""
_LATER_S: Final = 5.0
"""Retry delay, in seconds, for an acknowledgement that the store cannot write even in ASCII."""


class Completer:
    """
    Acknowledges finished attempts. `add` may be called from any thread; answers arrive in the committing thread.
    """

    def __init__(
        self, resources: Resources, staged: StagedJobs, figures: Figures, recorder: Recorder, callbacks: EngineCallbacks
    ) -> None:
        self._staged = staged
        self._recorder = recorder
        self._callbacks = callbacks
        self._clock = resources.clock
        self._pacer = resources.pacer
        self._writer = resources.writer
        self._hooks = resources.hooks
        self._figures = figures
        self._elapsed = resources.elapsed
        self._batchers = [AckBatcher(resources, self._post) for _ in range(resources.store.abilities.partitions)]
        self._on_answer: dict[StagedJob, Callable[[Answer | Exception], object]] = {}

    def add(
        self,
        entry: StagedJob,
        verdict: Verdict | None,
        on_answer: Callable[[Answer | Exception], object] | None = None,
    ) -> bool:
        """
        Write that *entry* ended with *verdict* (None: plain success). Return False if *entry* had already ended.

        The committing thread calls *on_answer* with the store's answer.
        """
        if not self.end(entry, verdict):
            return False
        self.write(entry, on_answer)
        return True

    def end(self, entry: StagedJob, verdict: Verdict | None) -> bool:
        """
        Record that *entry* ended with *verdict*; call `write` next. Return False if *entry* had already ended.
        """
        if not self._staged.end(entry):
            return False
        if verdict is None and entry.progress is None and not self._recorder.has_all:
            return True
        if verdict is not None:
            if entry.fired_at and not entry.ran_ms:
                entry.ran_ms = max(0.0, self._clock.now() - entry.fired_at)
            if verdict.settle.due_at is not None:
                entry.clock_step = self._clock.clock_step
        entry.verdict = self._recorder.noted(entry, verdict)
        return True

    def write(self, entry: StagedJob, on_answer: Callable[[Answer | Exception], object] | None = None) -> float:
        """
        Write the outcome of *entry*; return the current time in ms, so that the worker need not read the clock again.
        """
        now = self._clock.now()
        if entry.fired_at and not entry.ran_ms:
            entry.ran_ms = max(0.0, now - entry.fired_at)
        if on_answer is not None:
            self._on_answer[entry] = on_answer
        self._batcher_of(entry).add(entry)
        return now

    def give_back(
        self,
        entry: StagedJob,
        on_answer: Callable[[Answer | Exception], object] | None = None,
        *,
        rests: bool = False,
        is_doubtful: bool = False,
    ) -> None:
        """
        Release in the store the attempt of *entry*, which this caller has withdrawn. See `given_back`.
        """
        entry.verdict = given_back(entry.job, entry.epoch, rests=rests, is_doubtful=is_doubtful)
        self.write(entry, on_answer)

    def flush(self) -> None:
        for batcher in self._batchers:
            batcher.flush()

    def close(self) -> None:
        """
        Report a `ClosedError` to callers whose acknowledgements are unwritten. Called after a stop closes the writer.
        """
        while self._on_answer:
            _, on_answer = self._on_answer.popitem()
            on_answer(ClosedError("scheduler"))

    def _batcher_of(self, entry: StagedJob) -> AckBatcher:
        return self._batchers[entry.epoch % len(self._batchers)]

    def _post(self, batch: list[StagedJob], *, is_again: bool = False, is_alone: bool = False) -> None:
        try:
            writes = [_settle_of(entry) for entry in batch]
            if is_again:
                writes = [replace(settle, is_first=False) for settle in writes]
            else:
                self._callbacks.on_completing()
            self._writer.post(writes, partial(self._settled, batch, is_again=is_again, is_alone=is_alone))
        except ClosedError as error:  # the stop has timed out: the next owner fires these jobs
            self._staged.settle(batch)
            self._batcher_of(batch[0]).end()
            self._pass_on(batch, [error] * len(batch))

    def _settled(
        self, batch: list[StagedJob], result: list[Answer] | Exception, *, is_again: bool, is_alone: bool
    ) -> None:
        if isinstance(result, Exception):
            self._write_again(batch, result, is_alone=is_alone)
            return
        freed = self._staged.settle(batch)
        if not is_alone:
            self._batcher_of(batch[0]).go_on()
        if any(answer.job is not None for answer in result):
            self._follow(batch, result)
        if is_again and any(answer.outcome is not Outcome.SETTLED for answer in result):
            self._callbacks.rescan()
        settled = Outcome.SETTLED
        refused = {
            entry
            for entry, answer in zip(batch, result, strict=True)
            if answer.outcome is not settled and is_refused(entry, answer)
        }
        has_trouble = self._figures.settled(batch, refused)
        if self._on_answer:
            self._pass_on(batch, result)
        if self._hooks.is_curious or (has_trouble and self._hooks.is_active):
            for entry, answer in zip(batch, result, strict=True):
                self._hooks.emit(ended_event(entry, answer))
        self._callbacks.on_completed(batch, freed)

    def _follow(self, batch: list[StagedJob], answers: list[Answer]) -> None:
        following = [
            (entry, answer.job, verdict_of(entry))
            for entry, answer in zip(batch, answers, strict=True)
            if answer.job is not None
        ]
        lives = [job for _, job, verdict in following if job.state is State.PENDING and not verdict.rests]
        if lives:
            self._elapsed.follow(
                (entry.job, job, entry.clock_step)
                for entry, job, verdict in following
                if verdict.ending is not Ending.GIVEN_BACK or verdict.settle.how is Settled.DONE
            )
            self._callbacks.on_committed(lives)

    def _write_again(self, batch: list[StagedJob], error: Exception, *, is_alone: bool) -> None:
        """
        Write *batch* again. If an earlier try has succeeded, the store refuses this one.
        """
        self._hooks.failed("settling firings", error)
        for entry in batch:
            verdict = entry.verdict
            if verdict is not None and verdict.ending is Ending.GIVEN_BACK and verdict.settle.how is Settled.AGAIN:
                entry.verdict = given_back(entry.job, entry.epoch, rests=verdict.rests, is_doubtful=True)
        pause_s = _RETRY_S
        if not (isinstance(error, StoreError) and (error.is_transient or error.is_unknown)):
            if not is_alone:
                self._part(batch)
                return
            are_changed = [_put_in_ascii(entry) for entry in batch]
            if not any(are_changed):
                pause_s = _LATER_S
        try:
            self._pacer.call_later(pause_s, partial(self._post, batch, is_again=True, is_alone=is_alone))
        except ClosedError:
            self._staged.settle(batch)
            self._pass_on(batch, [error] * len(batch))

    def _part(self, batch: list[StagedJob]) -> None:
        """
        Write each acknowledgement of *batch* alone, because one of them may be impossible to write.
        """
        for entry in batch:
            self._post([entry], is_again=True, is_alone=True)
        self._batcher_of(batch[0]).go_on()

    def _pass_on(self, batch: list[StagedJob], answers: Sequence[Answer | Exception]) -> None:
        for entry, answer in zip(batch, answers, strict=True):
            on_answer = self._on_answer.pop(entry, None)
            if on_answer is not None:
                on_answer(answer)


def _settle_of(entry: StagedJob) -> Settle:
    return Settle(entry.job, entry.epoch) if entry.verdict is None else entry.verdict.settle


def _put_in_ascii(entry: StagedJob) -> bool:
    """
    Convert the texts in the outcome of *entry*, such as its error, to ASCII. Return False if nothing changed.
    """
    verdict = entry.verdict
    if verdict is None:
        return False
    settle, record = verdict.settle, verdict.settle.record
    if record is not None:
        error, where, trace, note = map(ascii_text, (record.error, record.traceback, record.trace, record.note))
        record = record._replace(error=error, traceback=where, trace=trace, note=note)
    entry.verdict = replace(verdict, settle=replace(settle, error=ascii_text(settle.error), record=record))
    return entry.verdict != verdict


def ended_event(entry: StagedJob, answer: Answer) -> Event:  # noqa: PLR0911 - one return for each ending
    job, verdict = entry.job, verdict_of(entry)
    settle = verdict.settle
    common = (job.key, job.generation, entry.attempt, job.target, job.handler)
    if is_refused(entry, answer):
        return SettleRefused(*common, answer.outcome)
    error, due_at = settle.error or "", settle.due_at
    match verdict.ending:
        case Ending.SUCCEEDED:
            return JobSucceeded(*common, entry.ran_ms, due_at)
        case Ending.RETRIED:
            return JobFailed(*common, error, due_at or 0)
        case Ending.SNOOZED:
            return JobSnoozed(*common, due_at or 0, verdict.reason)
        case Ending.GIVEN_BACK:
            return JobSnoozed(*common, due_at or 0)
        case Ending.STOPPED:
            return JobStopped(*common, entry.ran_ms)
        case Ending.EXPIRED:
            return JobExpired(*common, job.due_at, due_at)
        case Ending.DIED:
            return JobDied(*common, error, due_at)
