"""
Jobs fired in the thread that moves the clock: what a manual clock attaches instead of an owner with its threads.

Internal: other rooms use it, users do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from tickwheel.scheduler._hooks import Hooks
from tickwheel.scheduler._options import HistoryOptions
from tickwheel.scheduler._registry import Registry
from tickwheel.scheduler._runtime import Runtime
from tickwheel.scheduler.checks import FAR_MS, decode_payload
from tickwheel.scheduler.engine import _verdict
from tickwheel.scheduler.engine._recorder import Recorder
from tickwheel.scheduler.engine._settler import ended_event
from tickwheel.scheduler.engine._spans import fired_event
from tickwheel.scheduler.engine._staged_job import StagedJob
from tickwheel.scheduler.errors import UnsupportedError
from tickwheel.scheduler.model import Begin, Job, SetAside, State, scope_over
from tickwheel.scheduler.stores import Store
from tickwheel.scheduler.targets import Call, Firing

__all__ = ["Inline"]

_NS: Final = 1_000_000
"""Nanoseconds in a millisecond."""
_EVER: Final = 2**63 - 1


class Inline:
    """
    Fires the jobs of a store in memory, one at a time, in order of their instants.

    It keeps the rules of attempts, retries, recurrence and expiry. Limits and timeouts of handlers do not apply:
    nothing runs beside anything, and no time passes while a handler runs.

    Args:
        store: Open, and owned by nobody.
        registry: The targets.
        hooks: Hear of what happens, in the thread that moves the clock.
        runtime: Gives the clock, whose time of day the store reads, and chance.
        history: What is kept of attempts that ended.
    """

    def __init__(
        self, store: Store, registry: Registry, hooks: Hooks, runtime: Runtime, history: HistoryOptions
    ) -> None:
        self._store, self._registry, self._hooks = store, registry, hooks
        self._clock, self._random = runtime.clock, runtime.random
        self._recorder = Recorder(history, "inline", lambda: self._clock.wall_ns() / _NS)
        self._epoch = store.acquire("inline")[0].epoch
        self._paused: set[str] = set()

    def arm(self) -> int | None:
        """
        Return when the next job is due, on the clock's monotonic side; None if none is pending.
        """
        job = self._next(self._now_ms() + 2 * FAR_MS)
        return None if job is None else self._clock.monotonic_ns() + max(0, job.due_at * _NS - self._clock.wall_ns())

    def fire_due(self, limit: int | None = None) -> int:
        """
        Fire what is due, at most *limit* jobs; return how many these were.

        Raises:
            AssertionError: If an assertion of a handler failed, once the attempt is settled as failed.
            HandlerNotFoundError: If a job's handler is not registered.
            UnsupportedError: For a target that ends its firings in its own time, such as "pull".
        """
        count = 0
        while (limit is None or count < limit) and (job := self._next(self._now_ms())) is not None:
            count += 1
            self._fire(job)
        return count

    def close(self) -> None:
        """
        Give the store back. Twice is allowed.
        """
        self._store.release("inline")

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // _NS

    def _next(self, last: int) -> Job | None:
        paused = {pause.scope for pause in self._store.scopes()}
        if paused != self._paused:
            self._paused = paused
            self._store.take_up(0, self._epoch, [(each.target, each.handler) for each in self._store.aside()], _EVER)
        while jobs := self._store.due(0, last + 1, None, 1):
            if scope_over(jobs[0].target, jobs[0].handler, paused) is None:
                return jobs[0]
            self._store.apply([SetAside(jobs[0], self._epoch)])
        return None

    def _fire(self, job: Job) -> None:
        entry = StagedJob(job, self._epoch, job.due_at)
        call = self._registry.call_of(job)
        if call.is_held:
            what = f"{job.key!r} goes to {job.target!r}, which ends its firings in its own time"
            raise UnsupportedError(what, "test it with a started Scheduler")
        self._store.apply([Begin(job, self._epoch)])
        begun = replace(job, attempt=entry.attempt, state=State.RUNNING)
        self._store.report_started([begun])  # so that a handler that sets its own key gets its answer
        raised: BaseException | None = None
        verdict = _verdict.judge_expired(job, self._epoch, self._now_ms())
        if verdict is None:
            entry.begun_ms = self._now_ms()
            entry.fired_at = self._clock.wall_ns() / _NS
            self._hooks.emit(fired_event(entry))
            try:
                result = _run(call, job, entry)
                verdict = _verdict.judge_result(job, self._epoch, result, entry.ran(self._now_ms()), self._random)
            except BaseException as error:  # noqa: BLE001  it is this attempt's end; what is the test's own goes on below
                verdict = _verdict.judge_error(job, self._epoch, error, entry.ran(self._now_ms()), self._random)
                raised = error
        verdict = self._recorder.noted(entry, verdict)
        answer = self._store.apply([verdict.settle])[0]
        self._store.attempts([begun])  # nobody asks any more
        self._hooks.emit(ended_event(entry, verdict, answer))
        if isinstance(raised, AssertionError) or not isinstance(raised, Exception | None):
            raise raised


def _run(call: Call, job: Job, entry: StagedJob) -> object:
    arguments: list[Any] = [decode_payload(job.payload)] if call.wants_payload else []
    if call.wants_firing:
        arguments.append(Firing(job, entry.attempt, entry.fired_at))
    if not call.is_async:
        return call.function(*arguments)
    return _awaited(lambda: call.function(*arguments))


def _awaited(begin: Callable[[], Any]) -> object:
    """
    Await on an event loop of its own: in this thread, or in another one if a loop runs in this one.
    """

    async def run() -> object:
        return await begin()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()
