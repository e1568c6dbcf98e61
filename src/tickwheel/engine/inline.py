"""
The engine of an inline scheduler, whose jobs fire in the thread that moves the clock.

The thread that moves the clock reads due jobs from the store and claims them one by one, so there is no prefetcher and
no claim batcher. All other parts are the same as in `Engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from tickwheel.clock import Clock
from tickwheel.engine._clock_steps import ClockStepAdjuster
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine.elapsed import RelativeJobs
from tickwheel.engine.engine import Engine
from tickwheel.engine.figures import Figures
from tickwheel.engine.resources import Resources
from tickwheel.host.registry import Registry
from tickwheel.host.store_clock import StoreClock
from tickwheel.jobs.checks import FAR_MS
from tickwheel.jobs.errors import UnsupportedError
from tickwheel.jobs.model import Answer, Begin, Job, SetAside, Write, scope_over
from tickwheel.loops import new_pool, run_coroutine_threadsafe
from tickwheel.observe.tracing import FIRING
from tickwheel.stores import Store
from tickwheel.targets import Call, FinalError, Firing

__all__ = ["InlineEngine", "Moving"]

_NS: Final = 1_000_000
_EVER: Final = 2**63 - 1


class Moving(Clock, Protocol):
    def attach(self, attached: InlineEngine) -> None: ...

    def detach(self, attached: InlineEngine) -> None: ...


class InlineEngine(Engine):
    """
    Fires the jobs of a store in memory, one at a time, in order of their due times.

    Limits and timeouts of handlers do not apply, and `overlap="cancel"` stops nothing, because handlers run alone and
    no time passes while they run.

    *loop* runs async handlers. If there is no *loop*, or if the clock is moved in the thread of *loop*, each async
    handler gets a new event loop.
    """

    def __init__(
        self,
        clock: Moving,
        resources: Resources,
        registry: Registry,
        figures: Figures,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        for wheel in (resources.timers, resources.pacer):
            wheel.close()  # without timers, all parts act at once
        self.loop = loop
        self._clock, self._store = clock, resources.store
        runtime = replace(resources.runtime, clock=clock)
        self._store_clock = StoreClock(runtime)
        self._elapsed = RelativeJobs(self._store_clock, runtime)
        writer: Any = _AtOnce(resources.store)
        resources = replace(resources, runtime=runtime, writer=writer, clock=self._store_clock, elapsed=self._elapsed)
        super().__init__(resources, registry, figures, loop)
        self._adjuster = ClockStepAdjuster(resources, on_lives=self._elapsed.met)
        self._epoch = self._clock_step = 0
        self._paused: set[str] = set()
        self._raised: BaseException | None = None

    def start(self) -> None:
        self.leases.acquire()
        self._epoch = self.leases.held[0].epoch
        self._elapsed.met(self._pending())
        self._clock.attach(self)

    def stop(self, deadline: float | None, *, is_last: bool = True) -> list[Firing]:
        running = super().stop(deadline, is_last=is_last)
        self._clock.detach(self)  # last: it waits for the call that moves the clock
        return running

    def reserve(self, writes: Sequence[Write], first: int) -> None: ...

    def is_inside(self) -> bool:
        return self.staged.busy > 0  # handlers run one at a time, so a running handler is the caller

    def arm(self) -> int | None:
        job = self._next(self._now_ms() + 2 * FAR_MS)
        return None if job is None else self._clock.monotonic_ns() + max(0, job.due_at * _NS - self._clock.wall_ns())

    def fire_due(self, limit: int | None = None) -> int:
        """
        Fire due jobs, at most *limit*; return their number.

        If a handler sets a job to run now, that job fires in the next call, so this call ends even if each job sets
        another.

        Raises:
            AssertionError: If an assertion in a handler failed. The attempt is settled as failed first.
            HandlerNotFoundError: If a job's handler is not registered.
            UnsupportedError: If a target does not finish its firings at once, such as "pull".
        """
        count, due = 0, len(self._store.due(0, self._now_ms() + 1, None, _EVER))
        limit = due if limit is None else min(limit, due)
        while count < limit and (job := self._next(self._now_ms())) is not None:
            count += 1
            self._fire(job)
        return count

    def note_relative(self, jobs: Sequence[Job], clock_step: int) -> None:
        """
        Record *jobs* under the number of this engine's last clock step, and ignore *clock_step*.
        """
        # *clock_step* counts the steps of another clock
        super().note_relative(jobs, self._store_clock.reading()[1])

    def on_committed(self, jobs: Sequence[Job], cancelled: Sequence[str] = ()) -> None:
        self._notice_step()
        self._elapsed.met(jobs)
        self._adjuster.right(jobs, self._epoch, is_news=True)

    def _notice_step(self) -> None:
        clock_step = self._store_clock.reading()[1]
        if clock_step != self._clock_step:
            self._clock_step = clock_step
            self._adjuster.stepped()
            self._adjuster.right(self._pending(), self._epoch, is_news=True)

    def _pending(self) -> list[Job]:
        return self._store.due(0, _EVER, None, _EVER)

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // _NS

    def _next(self, last: int) -> Job | None:
        if self._is_stopping:
            return None
        self._notice_step()
        paused = {pause.scope for pause in self._store.scopes()}
        if paused != self._paused:
            self._paused = paused
            aside = [(each.target, each.handler) for each in self._store.aside()]
            self.on_committed(self._store.take_up(0, self._epoch, aside, _EVER))
        while jobs := self._store.due(0, last + 1, None, 1):
            misfit = self._registry.misfit(jobs[0])
            if misfit is None and scope_over(jobs[0].target, jobs[0].handler, paused) is None:
                return jobs[0]
            self._store.apply([SetAside(jobs[0], self._epoch, misfit)])
        return None

    def _fire(self, job: Job) -> None:
        call = self._registry.call_of(job)
        if call.is_held:
            what = f"{job.key!r} goes to {job.target!r}, which ends its firings in its own time"
            raise UnsupportedError(what, "test it with a started Scheduler")
        entries, _ = self.staged.stage([job], self._epoch, is_news=True)
        self.staged.begin(entries, 1)
        self._store.apply([Begin(job, self._epoch)])
        [entry] = self.staged.begun(entries)
        function = partial(self._called, entry, call)
        entry.call = replace(call, function=function, is_async=False, timeout_s=None)
        token = FIRING.set(None)
        try:
            self._dispatcher.run(entry)
        finally:
            FIRING.reset(token)  # the rest of the test is not part of the firing
        raised, self._raised = self._raised, None
        if isinstance(raised, AssertionError) or not isinstance(raised, Exception | asyncio.CancelledError | None):
            raise raised

    def _called(self, entry: StagedJob, call: Call, *arguments: Any) -> object:
        try:
            return _awaited(entry, call, arguments, self.loop) if call.is_async else call.function(*arguments)
        except BaseException as error:
            self._raised = (
                error.__cause__ if isinstance(error, FinalError) else error
            )  # ends the attempt; the cause is raised afterwards
            raise


class _AtOnce:
    def __init__(self, store: Store) -> None:
        self._store = store

    def post(self, writes: Sequence[Write], done: Callable[[list[Answer]], object]) -> None:
        done(self._store.apply(writes))


def _awaited(entry: StagedJob, call: Call, arguments: Sequence[Any], loop: asyncio.AbstractEventLoop | None) -> object:
    async def run() -> object:
        task = asyncio.current_task()
        assert task is not None
        entry.expire = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        try:
            return await call.function(*arguments)
        finally:
            entry.expire = None

    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        if loop is not None and loop.is_running():
            return run_coroutine_threadsafe(run(), loop).result()
        return asyncio.run(run())
    if here is not loop and loop is not None and loop.is_running():
        return run_coroutine_threadsafe(run(), loop).result()
    with new_pool(1, "tickwheel-inline") as pool:
        return pool.submit(copy_context().run, asyncio.run, run()).result()
