"""
Schedulers for tests. They use a manual clock, and fire jobs in the thread that moves the clock.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Self

from tickwheel.engine.inline import InlineEngine
from tickwheel.jobs import checks
from tickwheel.scheduler import AsyncScheduler, Job, Scheduler, SchedulerOptions, Task, TaskCall
from tickwheel.scheduler.tasks import names_of
from tickwheel.stores import make_store
from tickwheel.targets import Target
from tickwheel.testing.manual_clock import ManualClock
from tickwheel.typing import Duration, Instant, Seconds, StartRole

__all__ = ["AsyncInlineScheduler", "InlineScheduler"]


class _Inline:
    clock: ManualClock
    _core: Any

    def _fire_by(self, clock: ManualClock) -> None:
        self.clock = clock
        self._core.make_engine = partial(InlineEngine, clock)

    def assert_scheduled(
        self,
        task: Task[..., ..., Any] | TaskCall,
        key: str,
        *,
        delay: Duration | None = None,
        at: Instant | None = None,
    ) -> Job:
        """
        Assert that the job of *key* is pending and calls *task*, and return the job.

        Args:
            task: A task, or a call of a task; the arguments of a call are compared, too.
            key: The job's key.
            delay: Expected delay from now, exact to the millisecond; None for any.
            at: Expected due time; None for any.

        Raises:
            AssertionError: If the job differs; the message shows the actual job.
        """
        names = (task.handler,) if isinstance(task, TaskCall) else names_of(task)
        job: Job | None = self._core.client.get(key)
        if job is None:
            others = ", ".join(repr(each.key) for each in self._core.client.page({"limit": 5}).jobs) or "none"
            message = f"no job is set under {key!r}: the first jobs are {others}"
            raise AssertionError(message)
        if job.handler not in names or job.target != "handler":
            message = f"the job of {key!r} calls {job.handler!r}, not {names[0]!r}"
            raise AssertionError(message)
        if job.state != "pending":
            message = f"the job of {key!r} is {job.state}, not pending: {job.error}"
            raise AssertionError(message)
        if isinstance(task, TaskCall) and (payload := checks.decode_payload(job.payload)) != task.payload:
            message = f"the job of {key!r} calls {names[0]!r} with {payload!r}, not with {task.payload!r}"
            raise AssertionError(message)
        now = self.clock.wall_ns() // 1_000_000
        if delay is not None and job.due_at - now != (wanted := checks.delay_ms(delay)):
            message = f"the job of {key!r} is due in {(job.due_at - now) / 1000:g} s, not in {wanted / 1000:g} s"
            raise AssertionError(message)
        if at is not None and job.due_at != checks.at_ms(at, now):
            message = f"the job of {key!r} is due at {job.due.isoformat()}, not at {at!r}"
            raise AssertionError(message)
        return job


class InlineScheduler(_Inline, Scheduler):
    """
    A `Scheduler` in memory whose jobs fire in the thread that moves the clock, one after the other.

    Jobs fire inside `clock.advance` and `clock.jump`; jobs that are due at the start fire at `clock.advance(0)`.

    Attempts, retries, recurrence, expiry, stops and counts work as in a `Scheduler`. Limits and timeouts of handlers do
    not apply. An async handler runs on a separate event loop. An error of a handler is a failed attempt; an
    AssertionError also propagates from the call that moves the time. If the clock reads whole milliseconds, `delay=60`
    fires after exactly 60 s.

    Args:
        options: Options of the scheduler; only the retry policy and the history have an effect.
        targets: Further targets.
    """

    def __init__(
        self, clock: ManualClock, *, options: SchedulerOptions | None = None, targets: dict[str, Target] | None = None
    ) -> None:
        super().__init__(make_store("memory://", clock), options=options, targets=targets, clock=_JustBefore(clock))
        self._fire_by(clock)


class AsyncInlineScheduler(_Inline, AsyncScheduler):
    """
    An `AsyncScheduler` in memory whose jobs fire when the clock moves, as in an `InlineScheduler`.

    `await scheduler.advance(60)` moves the clock, and runs async handlers on the running loop, which is the test's
    loop. If the test has no loop, as with the `TestClient` of FastAPI and Starlette, call `clock.advance(60)`. Then the
    handlers run on the application's loop, on which the scheduler was started. The arguments are those of
    `InlineScheduler`.
    """

    def __init__(
        self, clock: ManualClock, *, options: SchedulerOptions | None = None, targets: dict[str, Target] | None = None
    ) -> None:
        super().__init__(make_store("memory://", clock), options=options, targets=targets, clock=_JustBefore(clock))
        self._fire_by(clock)

    def __enter__(self) -> Self:
        self._core.handlers.prepare()
        self._core.start(None, "owner")
        return self

    def __exit__(self, *_: object) -> None:
        self._core.stop(10.0, is_inside=False)

    async def start(self, *, role: StartRole = "owner") -> Self:
        """
        Fire jobs when the clock moves. Async handlers run on the loop of the last `start` call.
        """
        self._core.handlers.prepare()
        loop = asyncio.get_running_loop()
        if self.is_started:
            self._core.engine.loop = loop
        else:
            self._core.start(loop, role)
        return self

    async def advance(self, delay: Seconds) -> None:
        """
        Move the clock by *delay* seconds, as `ManualClock.advance` does, and return when all due jobs have ended.

        Other tasks of the loop run between the jobs.
        """
        await self.start()
        await asyncio.to_thread(self.clock.advance, delay)


class _JustBefore:
    """
    The manual clock as the scheduler's callers read it: the wall time is one nanosecond behind.

    Due times are rounded up to whole milliseconds. Without this nanosecond, `advance(60)` might not fire a job with
    `delay=60`.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def wall_ns(self) -> int:
        return self._clock.wall_ns() - 1
