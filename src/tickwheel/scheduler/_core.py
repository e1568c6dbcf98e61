"""
The core under both faces of the scheduler: it opens the store, writes, reads, and owns if asked to.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.drivers import SteppedClock, TimerWheel
from tickwheel.errors import ClosedError, ReentrantError
from tickwheel.scheduler import _checks
from tickwheel.scheduler._commits import events_of, lives_of
from tickwheel.scheduler._ground import Ground
from tickwheel.scheduler._hooks import Hooks
from tickwheel.scheduler._lifecycle import Lifecycle
from tickwheel.scheduler._model import (
    Answer,
    Cancel,
    Job,
    Move,
    Outcome,
    Page,
    Replay,
    RetryPolicy,
    Set,
    State,
    Write,
)
from tickwheel.scheduler._options import SchedulerOptions
from tickwheel.scheduler._owner import Owner
from tickwheel.scheduler._requests import PAGE_MAX, ListFields, SetRequest, When, due_at, job_query, set_write
from tickwheel.scheduler._storeclock import StoreClock
from tickwheel.scheduler._writer import Writer
from tickwheel.scheduler.errors import InvalidJobError
from tickwheel.scheduler.stores import Store, make_store
from tickwheel.scheduler.targets import Firing, Limits, Target
from tickwheel.scheduler.targets.handler import HandlerTarget
from tickwheel.scheduler.targets.log import LogTarget
from tickwheel.scheduler.targets.webhook import WebhookTarget

__all__ = ["Core"]

STEPS_MAX = 1000
"""Into how many steps a forecast is divided at most."""


class Core:
    """
    What `Scheduler` and `AsyncScheduler` share; writes answer with futures, reads block.
    """

    def __init__(
        self, store: str | Store, options: SchedulerOptions, targets: Mapping[str, Target], clock: Clock | None
    ) -> None:
        self._clock = clock or MonotonicClock()
        self._store = make_store(store, self._clock) if isinstance(store, str) else store
        self._options = options
        self.hooks = Hooks()
        self.handlers = HandlerTarget()
        self._targets: dict[str, Target] = {
            "handler": self.handlers,
            "log": LogTarget(),
            "webhook": WebhookTarget(),
            **targets,
        }
        self._storeclock = StoreClock(self._clock)
        self._lifecycle = Lifecycle()
        self._opening = threading.Lock()
        self._writer: Writer | None = None
        self._owner: Owner | None = None

    # ---- start and stop --------------------------------------------------------------------------------------------

    @property
    def is_firing(self) -> bool:
        """
        Whether the background roles run.
        """
        return self._lifecycle.is_started

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """
        Become the owner; async handlers run on *loop*, or on one of their own.
        """
        self._lifecycle.start(lambda: self._start(loop))

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        writer = self._opened()
        timers = TimerWheel(clock=self._clock)
        pacer = TimerWheel() if isinstance(self._clock, SteppedClock) else timers
        ground = Ground(self._store, writer, self._storeclock, timers, pacer, self.hooks, self._options)
        owner = Owner(ground, self._targets, self._limits_of, loop)
        self._owner = owner  # commits of others' sets may come from here on
        try:
            owner.start()
        except BaseException:
            self._owner = None
            timers.close()
            pacer.close()
            raise

    def is_inside(self) -> bool:
        """
        Return whether the caller is a handler, which a stop may not wait for.
        """
        return self._owner is not None and self._owner.is_inside()

    def stop(self, timeout: float | None, *, is_inside: bool) -> list[Firing]:
        """
        Stop as `Scheduler.stop` says.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._lifecycle.stop(lambda: self._stop(deadline), timeout, is_inside=is_inside)

    def _stop(self, deadline: float | None) -> list[Firing]:
        running: list[Firing] = []
        try:
            if self._owner is not None:
                running = self._owner.stop(deadline)
        finally:
            with self._opening:
                writer, self._writer = self._writer, None
                if writer is not None:
                    writer.close(None if deadline is None else max(0.05, deadline - time.monotonic()))
                    if self._owner is not None:
                        self._owner.leases.release()
                    self._store.close()
        return running

    def _opened(self) -> Writer:
        """
        Return the writer of the open store; the first use opens it.
        """
        writer = self._writer
        if writer is not None:
            return writer
        with self._opening:
            if not self._lifecycle.is_open:
                raise ClosedError("scheduler")
            if self._writer is None:
                self._store.open()
                if self._store.abilities.has_many_owners:  # it may have a clock of its own
                    before = self._storeclock.local()
                    self._storeclock.sample(self._store.now_ms(), before, self._storeclock.local())
                self._writer = Writer(
                    self._store,
                    batch_max=self._options.batch_max,
                    waiting_max=self._options.waiting_max,
                    on_commit=self._committed,
                    on_unknown=self._lost_sight,
                )
            return self._writer

    # ---- writes ----------------------------------------------------------------------------------------------------

    def set(self, request: SetRequest) -> Future[Answer]:
        """
        Set one job.
        """
        writer = self._writing("set")
        return writer.submit(self._set_write(request, self._storeclock.now_ms()))

    def set_many(self, requests: Iterable[SetRequest]) -> Future[list[Answer]]:
        """
        Set many jobs; all are checked before any is queued.
        """
        writer = self._writing("set_many")
        now = self._storeclock.now_ms()
        return writer.submit_many([self._set_write(request, now) for request in requests])

    def move(self, keys: Iterable[str], when: When, if_generation: int | None = None) -> Future[list[Answer]]:
        """
        Move jobs to one instant.
        """
        writer = self._writing("move")
        due = due_at(when.delay, when.at, self._storeclock.now_ms())
        generation = _checks.check_generation(if_generation)
        return writer.submit_many([Move(key, due, generation) for key in _checks.check_keys(keys)])

    def cancel(self, keys: Iterable[str], if_generation: int | None = None) -> Future[list[Answer]]:
        """
        Cancel jobs.
        """
        writer = self._writing("cancel")
        generation = _checks.check_generation(if_generation)
        return writer.submit_many([Cancel(key, generation) for key in _checks.check_keys(keys)])

    def replay(self, keys: Iterable[str], if_generation: int | None = None) -> Future[list[Answer]]:
        """
        Replay dead jobs.
        """
        writer = self._writing("replay")
        now, generation = self._storeclock.now_ms(), _checks.check_generation(if_generation)
        return writer.submit_many([Replay(key, now, generation) for key in _checks.check_keys(keys)])

    def drain(self, prefix: str) -> list[Job]:
        """
        Cancel everything pending under *prefix* and return it; blocks.
        """
        drained: list[Job] = []
        cursor: str | None = None
        while True:
            page = self.page({"prefix": prefix, "state": State.PENDING, "cursor": cursor, "limit": PAGE_MAX})
            answers = self.cancel([job.key for job in page.jobs]).result()
            drained += [answer.job for answer in answers if answer.outcome is Outcome.CANCELLED and answer.job]
            cursor = page.cursor
            if cursor is None:
                return drained

    def _writing(self, verb: str) -> Writer:
        """
        Return the writer, unless its own thread asks: it would wait for itself.
        """
        writer = self._opened()
        if writer.is_inside():
            raise ReentrantError(f"{verb} in a hook")  # noqa: EM102  the verb is known here alone
        return writer

    def _set_write(self, request: SetRequest, now: int) -> Set:
        target = self._targets.get(request.target)
        if target is None:
            raise InvalidJobError("target", request.target, f"the targets here are {', '.join(self._targets)}")
        target.check(_checks.check_handler(request.handler or ""))
        return set_write(request, now, self._retry_of)

    def _retry_of(self, target: str, handler: str) -> RetryPolicy:
        policy = self.handlers.policy(handler) if target == "handler" else None
        return policy or self._options.retry

    def _limits_of(self, job: Job) -> Limits | None:
        return self.handlers.limits(job.handler) if job.target == "handler" else None

    def _committed(self, writes: Sequence[Write], answers: list[Answer]) -> None:
        """
        Pass on what was committed for callers, before they hear of it; on the writer's thread.
        """
        owner = self._owner
        if owner is not None:
            owner.written(*lives_of(writes, answers))
        if self.hooks.is_active:
            for event in events_of(writes, answers):
                self.hooks.tell(event)

    def _lost_sight(self) -> None:
        """
        Look at everything anew: what a commit of unknown end has written was not told to the stager.
        """
        owner = self._owner
        if owner is not None:
            owner.lost_sight()

    # ---- reads -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Job | None:
        """
        Read one job.
        """
        self._opened()
        return self._store.get(_checks.check_key(key))

    def page(self, fields: ListFields) -> Page:
        """
        Read a page of jobs.
        """
        self._opened()
        return self._store.page(job_query(fields, self._storeclock.now_ms()))

    def upcoming(
        self, due_from: datetime | float | None, due_until: datetime | float | None, limit: int
    ) -> Sequence[Job]:
        """
        Read the next jobs.
        """
        self._opened()
        now = self._storeclock.now_ms()
        query = job_query({"due_from": due_from or 0, "due_until": due_until, "limit": limit}, now)
        until = now + 2 * _checks.FAR_MS if query.due_until is None else query.due_until
        return self._store.upcoming(query.due_from or 0, until, limit)

    def forecast(self, since: datetime | float, step: float, steps: int) -> Sequence[int]:
        """
        Count the jobs that are due in each step.
        """
        self._opened()
        if type(steps) is not int or not 1 <= steps <= STEPS_MAX:
            raise InvalidJobError("steps", steps, f"pass an integer in 1..{STEPS_MAX}")
        since_ms = _checks.at_ms(since, self._storeclock.now_ms())
        return self._store.count_due(since_ms, _checks.span_ms("step", step), steps)

    def stats(self) -> dict[str, Any]:
        """
        Return counters, sizes and who fires by which clock.
        """
        writer = self._opened()
        commits, owner = writer.stats(), self._owner
        leases = owner.leases.held if owner is not None else ()
        return {
            **self._store.count(),
            **(owner.figures_now() if owner is not None else {}),
            "commits": commits.commits,
            "commit": {
                "writes": commits.writes,
                "mean_size": commits.writes / commits.commits if commits.commits else 0.0,
                "mean_ms": commits.seconds * 1000 / commits.commits if commits.commits else math.nan,
                "largest": commits.largest,
                "last_size": commits.last_size,
                "last_ms": commits.last_seconds * 1000,
                "retries": commits.retries,
                "failures": commits.failures,
                "waiting": writer.waiting,
            },
            "owner": self._options.owner if leases else None,
            "epoch": max((lease.epoch for lease in leases), default=None),
            "shards": [lease.shard for lease in leases],
            "store": self._store.url,
            "loss_window": self._store.abilities.loss_window,
            "offset_ms": self._storeclock.offset_ms,
        }
