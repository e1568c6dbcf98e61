"""
Hands due jobs to their targets, and judges the results.

A due job may wait for a worker. It is therefore checked once more when it starts, on the worker's thread or loop: its
lease must be valid, and it must not have been withdrawn.

Each run with overlap="cancel" has a timer, which asks it to stop when the next run of its job is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tickwheel.engine import _verdict
from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine._completion import Completer
from tickwheel.engine._coroutines import Blocking, Coroutines
from tickwheel.engine._spans import Spans, fired_event
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._timeouts import TaskTimeout, Timeouts, too_long
from tickwheel.engine._workers import Workers, WorkQueue
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError, MissingExtraError
from tickwheel.host.registry import Registry
from tickwheel.jobs.checks import decode_payload
from tickwheel.jobs.errors import JobStoppedError
from tickwheel.jobs.explanation import WaitReason
from tickwheel.jobs.model import Answer, Progress
from tickwheel.jobs.unreadable import is_readable
from tickwheel.observe.tracing import FIRING
from tickwheel.targets import Abandoned, Call, End, Firing, Retry, Snooze
from tickwheel.timers.contract import Timer

__all__ = ["Dispatcher", "HeldCompletion", "OverlapCanceller"]

_LOOK_S: Final = 3600.0
"""Maximum delay of one timer, in seconds. A longer wait is checked every hour, in case the clock has been set."""


class OverlapCanceller:
    def __init__(self, resources: Resources, stop: Callable[[StagedJob], object]) -> None:
        self._timers = resources.timers
        self._elapsed = resources.elapsed
        self._stop = stop
        self._lock = resources.runtime.lock()
        self._watched: dict[StagedJob, Timer] = {}

    def begin(self, entry: StagedJob, begun: int) -> None:
        limit = _verdict.overtaken_at(entry.job, begun)
        if limit is not None:
            self._watch(entry, limit)

    def end(self, entry: StagedJob) -> None:
        if self._watched:
            with self._lock:
                timer = self._watched.pop(entry, None)
            if timer is not None:
                timer.cancel()

    def _watch(self, entry: StagedJob, limit: int) -> None:
        left_s = (limit - self._elapsed.now_ms(entry.job)) / 1000
        with self._lock, suppress(ClosedError):  # the scheduler stops, or is inline and has no timers
            self._watched[entry] = self._timers.call_later(min(max(left_s, 0.0), _LOOK_S), self._look, entry, limit)

    def _look(self, entry: StagedJob, limit: int) -> None:
        with self._lock:
            is_watched = self._watched.pop(entry, None) is not None
        if not is_watched or entry.phase is not Phase.RUNNING:
            return
        if self._elapsed.now_ms(entry.job) < limit:
            self._watch(entry, limit)
            return
        entry.overlap_cancelled = True
        self._stop(entry)


class HeldCompletion:
    __slots__ = ("_dispatcher", "_entry")

    def __init__(self, dispatcher: Dispatcher, entry: StagedJob) -> None:
        self._dispatcher = dispatcher
        self._entry = entry

    def start(self) -> Callable[[], object] | None:
        return self._dispatcher.start_held(self._entry)

    def note(self, progress: Progress) -> None:
        self._entry.progress = progress

    def __call__(
        self,
        result: object = None,
        error: BaseException | None = None,
        on_answer: Callable[[Answer | Exception], object] | None = None,
    ) -> bool:
        return self._dispatcher.end_held(self._entry, result, error, on_answer)


_LEND_S: Final = 0.5
"""Seconds for which a lane (see `lane_of`) waits without running attempts before it gets an extra place."""


class Dispatcher:
    """
    Runs due jobs. `fire` may be called from any thread and does not wait for handlers.
    """

    def __init__(
        self,
        resources: Resources,
        staged: StagedJobs,
        completer: Completer,
        registry: Registry,
        loop: asyncio.AbstractEventLoop | None,
        *,
        callbacks: EngineCallbacks,
    ) -> None:
        self._staged = staged
        self._callbacks = callbacks
        self._clock = resources.clock
        self._elapsed = resources.elapsed
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._spans = None if resources.tracer is None else Spans(resources)
        self._completer = completer
        self._writer = resources.writer
        self._registry = registry
        self._held: dict[StagedJob, None] = {}
        self._lending: set[Workers | Coroutines] = set()
        options, runtime = resources.options, resources.runtime
        self._random = runtime.random
        threads, processes, tasks = (
            WorkQueue(size, options.leaked_max, runtime, registry.lanes)
            for size in (options.workers, options.processes, options.coroutines)
        )
        self._queues = {"thread": threads, "process": processes, "loop": tasks}
        new_workers = partial(Workers, write=completer.write, write_last=self._write_last)
        self.workers = new_workers(self.attempt, threads, runtime, resources.starter("a worker"))
        self.processes = new_workers(self.attempt, processes, runtime, resources.starter("a worker"))
        blocking = Blocking(resources.pacer, runtime)
        starter = resources.starter("the event loop")
        self.coroutines = Coroutines(self._run_async, tasks, loop, runtime, starter, blocking=blocking)
        self._of_threads = Timeouts(resources, self.workers, self._end_late)
        self._of_tasks = Timeouts(resources, self.coroutines, self._end_late)
        self._canceller = OverlapCanceller(resources, self._ask_to_stop)

    def fire(self, entries: list[StagedJob]) -> None:
        for_workers: list[StagedJob] = []
        for_processes: list[StagedJob] = []
        for_loop: list[StagedJob] = []
        to_hold: dict[Call, list[StagedJob]] = {}
        begun = Phase.BEGUN  # a local, because an enum look-up is slow
        if self._spans is not None:
            self._spans.draw(entries)
        now = self._clock.now()
        for entry in entries:
            if entry.phase is not begun:  # it was withdrawn, or a stop took it back
                continue
            entry.ready_at = now
            call = self._call_of(entry)
            if call is None:
                continue
            if call.is_held:
                to_hold.setdefault(call, []).append(entry)
            elif call.in_process:
                for_processes.append(entry)
            else:
                (for_loop if call.is_async else for_workers).append(entry)
        for runners, theirs in (
            (self.workers, for_workers),
            (self.processes, for_processes),
            (self.coroutines, for_loop),
        ):
            if theirs:
                runners.put(theirs)
                self._lend_soon(runners)
        for call, held in to_hold.items():
            self._hold(call, held)

    def _lend_soon(self, runners: Workers | Coroutines) -> None:
        if runners.queue.is_short and runners not in self._lending:
            for lane, due in runners.queue.waiting_by_lane().items() if self._hooks.waits.is_on else ():
                self._hooks.waits.tell(
                    lane, WaitReason.BUSY, f"{len(due)} wait for one of {runners.queue.places} places"
                )
            self._lending.add(runners)
            with suppress(ClosedError):  # a stop takes back the waiting entries
                self._pacer.call_later(_LEND_S, self._lend, runners)

    def _lend(self, runners: Workers | Coroutines) -> None:
        self._lending.discard(runners)
        runners.lend()
        self._lend_soon(runners)

    def _call_of(self, entry: StagedJob) -> Call | None:
        try:
            entry.call = self._registry.call_of(entry.job)
        except MissingExtraError:  # this node lacks a library: the job is left to a node that has it
            self._completer.add(entry, _verdict.given_back(entry.job, entry.epoch))
            return None
        except BaseException as error:  # noqa: BLE001  any error makes the job a dead letter
            self._completer.add(entry, _verdict.fatal(entry.job, entry.epoch, error))
            return None
        return entry.call

    def take_back(self) -> list[StagedJob]:
        return [entry for queue in self._queues.values() for entry in queue.take_back()]

    def is_inside(self) -> bool:
        return self.workers.runs_caller() or self.coroutines.runs_caller()

    def flush_spans(self) -> None:
        if self._spans is not None:
            self._spans.flush()

    def take_held(self) -> list[StagedJob]:
        return list(self._held)

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self._queues.values())

    def waiting_by_lane(self) -> dict[str, list[int]]:
        return {lane: due for queue in self._queues.values() for lane, due in queue.waiting_by_lane().items()}

    @property
    def leaked(self) -> list[dict[str, Any]]:
        return [
            {"target": target, "handler": handler, "executor": name, "count": count}
            for name, queue in self._queues.items()
            for (target, handler), count in queue.leaked.items()
        ]

    def _hold(self, call: Call, entries: list[StagedJob]) -> None:
        batch: list[tuple[Firing, End]] = []
        for entry in entries:
            verdict = self._not_worth_it(entry)
            if verdict is not None:
                self._completer.add(entry, verdict)
            else:
                firing = Firing(entry.job, entry.attempt, self._elapsed.now(entry.job), stopping=entry)
                batch.append((firing, HeldCompletion(self, entry)))
        if batch:
            try:
                call.function(batch)
            except BaseException as error:  # noqa: BLE001  any error concerns only this target
                for _, end in batch:
                    end(error=error)

    def start_held(self, entry: StagedJob) -> Callable[[], object] | None:
        if not self._may_start(entry):
            return None
        self._held[entry] = None
        entry.fired_at = self._elapsed.now(entry.job)
        if entry.job.recurrence is not None:
            self._watch_over(entry)
        entry.begun_at = self._clock.monotonic()
        return partial(self._announce, entry)  # `_announce` reports the start

    def end_held(
        self,
        entry: StagedJob,
        result: object,
        error: BaseException | None,
        on_answer: Callable[[Answer | Exception], object] | None,
    ) -> bool:
        self._held.pop(entry, None)
        entry.expire = None  # frees the target's object; the entry lives until its outcome is written
        return self._completer.add(entry, self._judge(entry, entry.begun_at, result, error), on_answer)

    def stop(self, entry: StagedJob) -> None:
        entry.overlap_cancelled = False
        self._ask_to_stop(entry)

    def _ask_to_stop(self, entry: StagedJob) -> None:
        entry.is_stopped = True
        call = entry.call
        assert call is not None  # the entry runs
        if call.is_async:
            self._of_tasks.stop(entry)
            return
        if (expire := entry.expire) is not None:
            expire()
        if call.is_held:  # its target has just released it
            self.end_held(entry, None, JobStoppedError(entry.job.key), None)

    def _may_start(self, entry: StagedJob) -> bool:
        """
        Make the last check before a start. A job that passes this check can no longer be moved or cancelled.
        """
        if self._callbacks.lease_is_valid(entry.epoch):
            return self._staged.start(entry)
        with suppress(ClosedError):  # the stop releases the job
            self._pacer.call_later(0, self._callbacks.dispatch, [entry])
        return False

    def run(self, entry: StagedJob) -> None:
        if self.attempt(entry):
            self._completer.write(entry)

    def attempt(self, entry: StagedJob, now: float | None = None) -> bool:
        """
        Run *entry* and record its outcome. Return True if the caller must write the outcome to the store.

        *now* is the last reading of the clock, if it is recent.
        """
        if not self._may_start(entry):
            return False
        verdict = self._not_worth_it(entry)
        if verdict is None:
            call = entry.call
            assert call is not None
            begun = self._begin(entry, now)
            self._of_threads.begin(entry)
            try:
                if call.wants_firing or entry.span is not None:
                    result = self._call(entry, call)
                else:
                    result = call.function(decode_payload(entry.job.payload))
            except Abandoned:
                self._end_span(entry, "interrupted")
                return False
            except BaseException as error:  # noqa: BLE001  even SystemExit ends only this attempt
                verdict = self._judge(entry, begun, error=error)
            else:
                is_watched = begun is not None or entry.span is not None
                if result is not None or is_watched or entry.job.recurrence is not None:  # else a plain success
                    verdict = self._judge(entry, begun, result)
        return self._completer.end(entry, verdict)

    def _call(self, entry: StagedJob, call: Call) -> object:
        arguments = self._arguments(entry, call, self._of_threads)
        if entry.span is None:
            return call.function(*arguments)
        with entry.span:
            return call.function(*arguments)

    def _write_last(self, entry: StagedJob) -> None:
        self._writer.post_and_write(partial(self._completer.write, entry))

    async def _run_async(self, entry: StagedJob) -> None:
        if not self._may_start(entry):
            return
        verdict = self._not_worth_it(entry)
        if verdict is None:
            call = entry.call
            assert call is not None
            begun = self._begin(entry)
            try:
                result = await self._await(entry, call)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    self._end_span(entry, "interrupted")
                    raise  # the scheduler stops: the next owner fires the job again
                verdict = self._judge(entry, begun, error=error)
            except BaseException as error:  # noqa: BLE001  even SystemExit ends only this attempt
                verdict = self._judge(entry, begun, error=error)
            else:
                verdict = self._judge(entry, begun, result)
        self._completer.add(entry, verdict)

    async def _await(self, entry: StagedJob, call: Call) -> object:
        limit = TaskTimeout(asyncio.current_task())
        entry.expire = partial(asyncio.get_running_loop().call_soon_threadsafe, limit.expire)
        self._of_tasks.begin(entry)
        if entry.is_stopped:
            self._of_tasks.stop(entry)
        try:
            arguments = self._arguments(entry, call, self._of_tasks)
            if entry.span is None:
                return await call.function(*arguments)
            with entry.span:
                return await call.function(*arguments)
        except (TimeoutError, asyncio.CancelledError) as error:
            if limit.end() or (limit.is_over and isinstance(error, TimeoutError)):
                raise too_long(entry) from None
            raise
        finally:
            limit.end()
            entry.expire = None  # frees the task; the entry lives until its outcome is written

    def _not_worth_it(self, entry: StagedJob) -> _verdict.Verdict | None:
        job, epoch = entry.job, entry.epoch
        if job.attempt >= job.retry.attempts:
            return _verdict.poison(job, epoch)
        if job.expires_at is None and job.recurrence is None:
            return None
        if job.recurrence is not None and not is_readable(
            job.recurrence
        ):  # the job is left to a node that can read its rule
            return _verdict.given_back(job, epoch)
        try:
            return _verdict.judge_ended(job, epoch) or _verdict.judge_expired(job, epoch, self._elapsed.now_ms(job))
        except Exception as error:  # noqa: BLE001  a readable rule may raise any error
            return _verdict.fatal(job, epoch, error)

    def _begin(self, entry: StagedJob, now: float | None = None) -> float | None:
        job = entry.job
        entry.fired_at = now if now is not None and self._clock.clock_step == 0 else self._elapsed.now(job)
        if job.recurrence is not None:
            self._watch_over(entry)
        FIRING.set((job.key, job.generation, job.attempt + 1))  # this thread or task runs only firings
        begun = None
        if self._hooks.is_curious:
            self._hooks.emit(fired_event(entry))
            begun = self._clock.monotonic()
        spans = self._spans  # `_announce`, inlined: a call would be a third of the observers' cost
        if spans is not None and (entry.is_sampled or job.trace is not None):
            entry.span = spans.begin(entry)
        return begun

    def _watch_over(self, entry: StagedJob) -> None:
        entry.begun_ms = self._elapsed.now_ms(entry.job)
        self._canceller.begin(entry, entry.begun_ms)

    def _announce(self, entry: StagedJob) -> None:
        if self._hooks.is_curious:
            self._hooks.emit(fired_event(entry))
        spans = self._spans
        if spans is not None and (entry.is_sampled or entry.job.trace is not None):
            entry.span = spans.begin(entry)

    def _arguments(self, entry: StagedJob, call: Call, timeouts: Timeouts) -> tuple[Any, ...]:
        job = entry.job
        if not call.wants_firing:
            return (decode_payload(job.payload),)
        trace = None if entry.span is None else entry.span.trace
        firing = Firing(job, entry.attempt, entry.fired_at, partial(timeouts.beat, entry), trace, entry)
        return (decode_payload(job.payload), firing) if call.wants_payload else (firing,)

    def _judge(
        self, entry: StagedJob, begun: float | None, result: object = None, error: BaseException | None = None
    ) -> _verdict.Verdict | None:
        if entry.begun_ms is not None:
            self._canceller.end(entry)
        verdict = self._verdict_of(entry, begun, result, error)
        if entry.span is not None:
            self._end_span_as(entry, verdict)
        return verdict

    def _verdict_of(
        self, entry: StagedJob, begun: float | None, result: object, error: BaseException | None
    ) -> _verdict.Verdict | None:
        job, epoch = entry.job, entry.epoch
        if begun is not None:
            entry.ran_ms = (self._clock.monotonic() - begun) * 1000
        if entry.is_stopped and (error is not None or issubclass(type(result), Retry | Snooze)):
            return _verdict.stopped(entry, entry.ran(*self._elapsed.end_of(job)))
        if result is None and error is None and job.recurrence is None:  # most attempts end here; no clock needed
            return None
        ran = entry.ran(*self._elapsed.end_of(job))
        try:
            if error is not None:
                return _verdict.judge_error(job, epoch, error, ran, self._random)
            try:
                return _verdict.judge_result(job, epoch, result, ran, self._random)
            except Exception as bad_result:  # noqa: BLE001  Snooze(nan), or a value whose repr raises
                return _verdict.judge_error(job, epoch, bad_result, ran, self._random)
        except Exception as unexpected:  # noqa: BLE001  an attempt has to end
            return _verdict.fatal(job, epoch, unexpected)

    def _end_span(self, entry: StagedJob, outcome: str, error: str | None = None) -> None:
        if entry.span is not None:
            assert self._spans is not None
            self._spans.end(entry.span, outcome, error)

    def _end_span_as(self, entry: StagedJob, verdict: _verdict.Verdict | None) -> None:
        if verdict is None:
            self._end_span(entry, _verdict.Ending.SUCCEEDED)
        else:
            self._end_span(entry, verdict.ending, verdict.settle.error)

    def _end_late(self, entry: StagedJob, verdict: _verdict.Verdict) -> None:
        self._canceller.end(entry)
        self._end_span_as(entry, verdict)
        self._completer.add(entry, verdict)
