"""
The durable scheduler as a caller sees it, for threads and for asyncio: the same verbs, with and without `await`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from tickwheel.clock import Clock
from tickwheel.observe._events import EventHook
from tickwheel.scheduler._core import Core
from tickwheel.scheduler._model import Answer, Job, Page, RetryPolicy
from tickwheel.scheduler._options import SchedulerOptions
from tickwheel.scheduler._requests import ListRest, SetFields, SetRequest, When
from tickwheel.scheduler._retry import check_policy
from tickwheel.scheduler.stores import Store
from tickwheel.scheduler.targets import Firing, Target

__all__ = ["AsyncScheduler", "Scheduler"]

_NOW = When(delay=0)

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class _Common:
    """
    What needs no waiting, and is the same for both.

    Args:
        store: A URL ("sqlite:///file.db", "memory://", ...) or a store that nobody else uses.
        options: The knobs.
        targets: Further targets, or other settings of the built-in ones, by the name that jobs give as `target`.
        clock: Where time comes from; for tests.

    Raises:
        StoreError: If the URL names no store that can be had; the store itself is opened on first use.
        MissingExtraError: If it needs a library that is not installed.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///tickwheel.db",
        *,
        options: SchedulerOptions | None = None,
        targets: Mapping[str, Target] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._core = Core(store, options or SchedulerOptions(), targets or {}, clock)

    def handler(
        self, name: str | None = None, *, retry: RetryPolicy | None = None, timeout: float | None = None
    ) -> Callable[[_Handler], _Handler]:
        """
        Register the decorated function as the handler of jobs with `handler=name`.

        It is called with the payload, or, if it takes two arguments, with the payload and the `Firing`.
        A `def` runs in a worker thread, an `async def` on the scheduler's event loop. What it returns means done,
        unless it is a `Cancel`, `Snooze` or `Retry`; what it raises is a failed attempt.

        Args:
            name: None for the function's own.
            retry: The policy of jobs that are set here without one.
            timeout: Seconds after which an attempt counts as failed. A thread cannot be stopped: a `def` runs on, and
                what it answers is ignored.

        Raises:
            InvalidJobError: If the name is taken or cannot be one.
            TypeError: If the function takes neither one nor two arguments.
        """

        def register(function: _Handler) -> _Handler:
            policy = None if retry is None else check_policy(retry)
            self._core.handlers.register(name or function.__name__, function, policy, timeout)
            return function

        return register

    def has_handler(self, name: str) -> bool:
        """
        Return whether a handler of that *name* is registered here.

        A job may name one that is not: others may register it. Who knows that nobody will can refuse it early.
        """
        return self._core.handlers.has(name)

    def stats(self) -> dict[str, Any]:
        """
        Return the counters and figures; stops nobody.

        Counts of this process: fired, succeeded, failed, retried, snoozed, expired, dead_total, refused. Of the
        store: pending, running, dead. In memory: near, staged, in_flight. `lateness` and `commit` are their
        distributions; owner, epoch, store, offset_ms tell who fires what by which clock.
        """
        return self._core.stats()

    def subscribe(self, hook: EventHook) -> Callable[[], None]:
        """
        Tell *hook* of every event from now on (`tickwheel.observe._events`); return what ends that.

        It is called on the scheduler's threads, must not block, and what it raises is logged.
        """
        return self._core.hooks.subscribe(hook)

    @property
    def is_started(self) -> bool:
        """
        Whether this scheduler fires jobs now.
        """
        return self._core.is_firing


class Scheduler(_Common):
    """
    Jobs by key that survive a crash, fired to the millisecond.

    Without `start` it is a client: it may set, move, cancel, get and list in a store that another process fires.
    All methods may be called from any thread, also from inside a handler.
    """

    def start(self) -> Self:
        """
        Become the store's owner, take up what a crash left, and fire.

        Started already, it does nothing.

        Raises:
            StoreInUseError: If another process owns the store; this one stays a client.
            StoreError: If the store cannot be had.
            ClosedError: After `stop`.
        """
        self._core.start(None)
        return self

    def stop(self, timeout: float | None = 10.0) -> list[Firing]:
        """
        Fire no more, let handlers finish, write their ends, give the store back, and close.

        What was pending stays in the store. What was begun and not yet handed over does not count as an attempt.
        Before `start` it closes the client; a second call returns []. From inside a handler it returns [] at once and
        the stop goes on without it.

        Args:
            timeout: How many seconds it may take; None for as long as the handlers do.

        Returns:
            What still runs; the next owner takes it up again.
        """
        return self._core.stop(timeout, is_inside=self._core.is_inside())

    close = stop

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def set(self, key: str, **fields: Unpack[SetFields]) -> Answer:
        """
        Set the job of *key*; a pending one of that key is replaced, unless `mode` says otherwise.

        The job is durable when this returns.

        Args:
            key: 1 to 512 bytes of UTF-8.
            **fields: Those of `SetRequest`: delay or at, payload, handler, every, cron, ...

        Returns:
            CREATED, REPLACED, KEPT or WRONG_GENERATION, and the job as it now is.

        Raises:
            InvalidJobError: A value that no job can have; its message names value and remedy. Nothing was stored.
            InvalidDelayError: For NaN.
            TypeError: For a time that is no number.
            StoreError: If the store does not answer.
            ClosedError: After `stop`.
        """
        return self._core.set(SetRequest(key, **fields)).result()

    def set_many(self, requests: Iterable[SetRequest]) -> list[Answer]:
        """
        Set many jobs in as few commits as there can be; the answers are in order.

        Errors are those of `set`; one bad request refuses all, before any is set.
        """
        return self._core.set_many(requests).result()

    def move(
        self,
        key: str,
        *,
        delay: float | None = None,
        at: datetime | float | None = None,
        if_generation: int | None = None,
    ) -> Answer:
        """
        Give the pending job of *key* another instant.

        Returns:
            MOVED, TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION, and the job as it now is.
        """
        return self._core.move((key,), When(delay, at), if_generation).result()[0]

    def run_now(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Move the pending job of *key* to now.

        Returns:
            As `move`.
        """
        return self._core.move((key,), _NOW, if_generation).result()[0]

    def cancel(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Remove the pending or dead job of *key*; one that recurs also while it runs.

        Returns:
            CANCELLED (it will not fire any more), TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION.
        """
        return self._core.cancel((key,), if_generation).result()[0]

    def replay(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Make the dead job of *key* pending again, due now, with all its attempts.

        Returns:
            REPLAYED, NOT_FOUND or WRONG_GENERATION.
        """
        return self._core.replay((key,), if_generation).result()[0]

    def move_many(
        self, keys: Iterable[str], *, delay: float | None = None, at: datetime | float | None = None
    ) -> list[Answer]:
        """
        Give all pending jobs of *keys* one instant; answers are in order, as `move` has them.
        """
        return self._core.move(keys, When(delay, at)).result()

    def cancel_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        Remove the jobs of *keys*; answers are in order, as `cancel` has them.
        """
        return self._core.cancel(keys).result()

    def replay_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        Make the dead jobs of *keys* pending again; answers are in order, as `replay` has them.
        """
        return self._core.replay(keys).result()

    def drain(self, prefix: str = "") -> list[Job]:
        """
        Cancel every pending job whose key begins with *prefix*, and return them in the order of their keys.

        What is set meanwhile may be left, what runs is. Costs time and memory for all that it returns.
        """
        return self._core.drain(prefix)

    def get(self, key: str) -> Job | None:
        """
        Return the live job of *key*, or else its dead one, or None.
        """
        return self._core.get(key)

    def list(self, prefix: str = "", **fields: Unpack[ListRest]) -> Page:
        """
        Return a page of jobs in the order of their keys; go on with `cursor=page.cursor` until that is None.

        A page may hold fewer jobs than asked for and still not be the last.

        Args:
            prefix: Of the key.
            **fields: state, due_from, due_until, handler, cursor, limit: see `ListFields`.
        """
        return self._core.page({"prefix": prefix, **fields})

    def upcoming(
        self,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
        limit: int = 100,
    ) -> Sequence[Job]:
        """
        Return the next pending jobs in the order of their instants, at most *limit* (1 to 1000).

        Args:
            due_from: From this instant on; overdue ones are left out by it.
            due_until: Before this instant.
            limit: How many.
        """
        return self._core.upcoming(due_from, due_until, limit)

    def forecast(self, since: datetime | float, step: float, steps: int) -> Sequence[int]:
        """
        Return how many pending jobs fall due in each of *steps* (1 to 1000) steps of *step* seconds from *since* on.

        Costs by how many these are.
        """
        return self._core.forecast(since, step, steps)


class AsyncScheduler(_Common):
    """
    `Scheduler` for asyncio: the same names and answers, awaited.

    Async handlers run on the loop that awaited `start`. A cancelled `await` does not take the write back.
    """

    async def start(self) -> Self:
        """
        Become the owner and fire: see `Scheduler.start`.
        """
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._core.start, loop)
        return self

    async def stop(self, timeout: float | None = 10.0) -> list[Firing]:  # noqa: ASYNC109  the same name as in Scheduler
        """
        Stop and close: see `Scheduler.stop`.
        """
        is_inside = self._core.is_inside()
        return await asyncio.to_thread(self._core.stop, timeout, is_inside=is_inside)

    close = stop

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def set(self, key: str, **fields: Unpack[SetFields]) -> Answer:
        """
        Set the job of *key*: see `Scheduler.set`.
        """
        return await asyncio.wrap_future(self._core.set(SetRequest(key, **fields)))

    async def set_many(self, requests: Iterable[SetRequest]) -> list[Answer]:
        """
        Set many jobs: see `Scheduler.set_many`.
        """
        return await asyncio.wrap_future(self._core.set_many(requests))

    async def move(
        self,
        key: str,
        *,
        delay: float | None = None,
        at: datetime | float | None = None,
        if_generation: int | None = None,
    ) -> Answer:
        """
        Give a pending job another instant: see `Scheduler.move`.
        """
        return (await asyncio.wrap_future(self._core.move((key,), When(delay, at), if_generation)))[0]

    async def run_now(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Move a pending job to now: see `Scheduler.run_now`.
        """
        return (await asyncio.wrap_future(self._core.move((key,), _NOW, if_generation)))[0]

    async def cancel(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Remove a job: see `Scheduler.cancel`.
        """
        return (await asyncio.wrap_future(self._core.cancel((key,), if_generation)))[0]

    async def replay(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Make a dead job pending again: see `Scheduler.replay`.
        """
        return (await asyncio.wrap_future(self._core.replay((key,), if_generation)))[0]

    async def move_many(
        self, keys: Iterable[str], *, delay: float | None = None, at: datetime | float | None = None
    ) -> list[Answer]:
        """
        Give many pending jobs one instant: see `Scheduler.move_many`.
        """
        return await asyncio.wrap_future(self._core.move(keys, When(delay, at)))

    async def cancel_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        Remove many jobs: see `Scheduler.cancel_many`.
        """
        return await asyncio.wrap_future(self._core.cancel(keys))

    async def replay_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        Make many dead jobs pending again: see `Scheduler.replay_many`.
        """
        return await asyncio.wrap_future(self._core.replay(keys))

    async def drain(self, prefix: str = "") -> list[Job]:
        """
        Cancel and return every pending job under a prefix: see `Scheduler.drain`.
        """
        return await asyncio.to_thread(self._core.drain, prefix)

    async def get(self, key: str) -> Job | None:
        """
        Return the job of *key*: see `Scheduler.get`.
        """
        return await asyncio.to_thread(self._core.get, key)

    async def list(self, prefix: str = "", **fields: Unpack[ListRest]) -> Page:
        """
        Return a page of jobs: see `Scheduler.list`.
        """
        return await asyncio.to_thread(self._core.page, {"prefix": prefix, **fields})

    async def upcoming(
        self,
        due_from: datetime | float | None = None,
        due_until: datetime | float | None = None,
        limit: int = 100,
    ) -> Sequence[Job]:
        """
        Return the next pending jobs: see `Scheduler.upcoming`.
        """
        return await asyncio.to_thread(self._core.upcoming, due_from, due_until, limit)

    async def forecast(self, since: datetime | float, step: float, steps: int) -> Sequence[int]:
        """
        Count what falls due: see `Scheduler.forecast`.
        """
        return await asyncio.to_thread(self._core.forecast, since, step, steps)
