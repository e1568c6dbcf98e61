from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, overload

from tickwheel.client.pages import drained, jobs_with
from tickwheel.jobs import checks
from tickwheel.jobs.bulk import BulkAnswer, BulkFields, BulkProgress
from tickwheel.jobs.change import ChangeFields
from tickwheel.jobs.declaration import Declared, Schedule, checked_declaration
from tickwheel.jobs.errors import UnsupportedError
from tickwheel.jobs.explanation import Explanation
from tickwheel.jobs.incidents import Incidents
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Page, Pause, Progress, SetAnswer
from tickwheel.jobs.requests import (
    ListRest,
    SetFields,
    SetRequest,
    When,
    answered,
    check_names,
    check_requests,
    set_request,
)
from tickwheel.jobs.task_call import TaskCall
from tickwheel.jobs.verbs import CancelJobs, MoveJobs, PauseJobs, ReplayJobs, ResumeJobs, SetJobs, Verb
from tickwheel.scheduler._common import Common
from tickwheel.scheduler._fleet import progress_of
from tickwheel.scheduler._replies import Replies
from tickwheel.scheduler._skip import skipped
from tickwheel.scheduler.backfill import Backfill, BackfillRange, backfilled
from tickwheel.scheduler.tasks import Task, names_of
from tickwheel.stores import Node, Shard
from tickwheel.targets import Firing
from tickwheel.targets.pull import JobLease
from tickwheel.typing import Duration, Instant, StartRole

__all__ = ["AsyncScheduler"]

_NOW = When(delay=0)
_T = TypeVar("_T")


class AsyncScheduler(Common):
    """
    `Scheduler` for asyncio. Its methods are those of `Scheduler`, and are awaited.

    Async handlers run on the loop that awaited `start`, so stop the scheduler before you close that loop. If an `await`
    is cancelled, the write still takes effect.
    """

    _loop: asyncio.AbstractEventLoop | None = None

    @cached_property
    def _replies(self) -> Replies:
        return Replies()

    async def start(self, *, role: StartRole = "owner") -> Self:
        """
        Become the owner and fire jobs; see `Scheduler.start`.

        If the `await` is cancelled, the scheduler is stopped and closed. An UnsupportedError means that the scheduler
        was started earlier, on a loop that is now closed.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop.is_closed():
            what = "this scheduler was started on an event loop that is closed, and its async handlers run no more"
            raise UnsupportedError(what, "stop it before its loop ends, and make another one for the next loop")
        self._core.handlers.prepare()
        try:
            await asyncio.to_thread(self._core.start, loop, role)
        except asyncio.CancelledError:  # the thread continues: stop the scheduler that it starts
            if self._loop is None:
                await asyncio.shield(self.stop())
            raise
        self._loop = loop
        return self

    async def stop(self, timeout: Duration | None = 10.0) -> list[Firing]:  # noqa: ASYNC109  the same name as in Scheduler
        """
        Stop and close; see `Scheduler.stop`.
        """
        self._loop, is_inside = None, self._core.is_inside()
        return await asyncio.to_thread(self._core.stop, checks.limit_s("timeout", timeout), is_inside=is_inside)

    close = stop

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:  # after an error, __aexit__ is not called
            await self.stop()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    if not TYPE_CHECKING:  # for type checkers, `with` must stay an error

        def __enter__(self) -> NoReturn:
            message = f"a `with` enters {type(self).__name__}: write `async with`, or use Scheduler"
            raise TypeError(message)

        def __exit__(self, *_: object) -> None: ...

    async def _do(self, verb: Verb, conn: object = None) -> list[Answer]:
        client = self._core.client
        if client.is_stale:
            await asyncio.to_thread(client.refresh)
        if conn is None:
            return await self._replies.awaitable(client.submit(verb))
        return await client.within(conn).submit(verb).awaited()

    @overload
    async def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: None = None,
        **fields: Unpack[SetFields],
    ) -> SetAnswer: ...

    @overload
    async def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: int | None,
        **fields: Unpack[SetFields],
    ) -> Answer: ...

    async def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: int | None = None,
        **fields: Unpack[SetFields],
    ) -> Answer:
        """
        Set the job of *key*; see `Scheduler.set`.
        """
        request = set_request(key, call, fields, if_generation)
        if conn is not None:
            return answered((await self._do(SetJobs((request,)), conn))[0], request)
        client = self._core.client
        if client.is_stale:
            await asyncio.to_thread(client.refresh)
        return answered(await self._replies.awaitable(client.set(request)), request)

    async def set_many(self, requests: Iterable[SetRequest], *, conn: object = None) -> list[Answer]:
        """
        Set many jobs; see `Scheduler.set_many`.
        """
        return await self._do(SetJobs(check_requests(requests)), conn)

    async def declare(
        self,
        schedules: Iterable[Schedule],
        manifest: str,
        *,
        revision: int | None = None,
        rollback: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
    ) -> Declared:
        """
        Make the recurring jobs of a manifest match *schedules*; see `Scheduler.declare`.
        """
        asked = checked_declaration(
            schedules, manifest, revision=revision, rollback=rollback, allow_empty=allow_empty, dry_run=dry_run
        )
        return await asyncio.to_thread(self._core.client.declare, asked)

    async def move(
        self,
        key: str,
        *,
        delay: Duration | None = None,
        at: Instant | None = None,
        if_generation: int | None = None,
        conn: object = None,
    ) -> Answer:
        """
        Move a pending job to another instant; see `Scheduler.move`.
        """
        return (await self._do(MoveJobs((key,), When(delay, at), if_generation), conn))[0]

    async def run_now(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Run a pending job now; see `Scheduler.run_now`.
        """
        return (await self._do(MoveJobs((key,), _NOW, if_generation, runs_now=True)))[0]

    async def cancel(
        self, key: str, *, running: bool = False, if_generation: int | None = None, conn: object = None
    ) -> Answer:
        """
        Remove a job; see `Scheduler.cancel`.
        """
        return (await self._do(CancelJobs((key,), if_generation, running), conn))[0]

    async def pause(
        self, key: str, *, note: str = "", by: str | None = None, if_generation: int | None = None
    ) -> Answer:
        """
        Pause a pending job; see `Scheduler.pause`.
        """
        return (await self._do(PauseJobs((key,), note, by, if_generation)))[0]

    async def resume(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        End the pause of a job; see `Scheduler.resume`.
        """
        return (await self._do(ResumeJobs((key,), if_generation)))[0]

    async def pause_scope(self, scope: str, *, note: str = "", by: str | None = None) -> Pause:
        """
        Pause all jobs of a handler, a queue or a target; see `Scheduler.pause_scope`.
        """
        return await asyncio.to_thread(self._core.client.pause_scope, scope, note, by)

    async def resume_scope(self, scope: str, *, by: str | None = None) -> bool:
        """
        Resume the jobs of a scope; see `Scheduler.resume_scope`.
        """
        return await asyncio.to_thread(self._core.client.resume_scope, scope, by)

    async def paused_scopes(self) -> Sequence[Pause]:
        """
        List the paused scopes; see `Scheduler.paused_scopes`.
        """
        return await asyncio.to_thread(self._core.client.scopes)

    async def skip(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Skip the next run of a recurring job; see `Scheduler.skip`.
        """
        return await asyncio.to_thread(skipped, self._core.client, key, if_generation)

    async def backfill(
        self,
        key: str,
        since: Instant,
        until: Instant,
        *,
        rate: float | None = None,
        limit: int = 1_000,
        dry_run: bool = False,
    ) -> Backfill:
        """
        Run a recurring job once more for each instant in a range of the past; see `Scheduler.backfill`.
        """
        asked = BackfillRange(since, until, rate, limit, dry_run)
        return await asyncio.to_thread(backfilled, self._core.client, key, asked)

    async def change(self, key: str, *, if_generation: int | None = None, **fields: Unpack[ChangeFields]) -> Answer:
        """
        Change some fields of a pending job; see `Scheduler.change`.
        """
        return await asyncio.to_thread(self._core.client.change, key, fields, if_generation)

    async def replay(self, key: str, *, delay: Duration = 0, if_generation: int | None = None) -> Answer:
        """
        Make a dead job pending again; see `Scheduler.replay`.
        """
        return (await self._do(ReplayJobs((key,), if_generation, delay)))[0]

    async def move_many(
        self, keys: Iterable[str], *, delay: Duration | None = None, at: Instant | None = None, conn: object = None
    ) -> list[Answer]:
        """
        Move many pending jobs to one instant; see `Scheduler.move_many`.
        """
        return await self._do(MoveJobs(keys, When(delay, at)), conn)

    async def cancel_many(self, keys: Iterable[str], *, running: bool = False, conn: object = None) -> list[Answer]:
        """
        Remove many jobs; see `Scheduler.cancel_many`.
        """
        return await self._do(CancelJobs(keys, running=running), conn)

    async def replay_many(self, keys: Iterable[str], *, rate: float | None = None) -> list[Answer]:
        """
        Make many dead jobs pending again; see `Scheduler.replay_many`.
        """
        return await self._do(ReplayJobs(keys, rate=rate))

    async def pause_many(self, keys: Iterable[str], *, note: str = "", by: str | None = None) -> list[Answer]:
        """
        Pause the jobs of *keys*; see `Scheduler.pause_many`.
        """
        return await self._do(PauseJobs(keys, note, by))

    async def resume_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        End the pauses of the jobs of *keys*; see `Scheduler.resume_many`.
        """
        return await self._do(ResumeJobs(keys))

    async def bulk(
        self, verb: str, prefix: str = "", *, on_progress: BulkProgress | None = None, **fields: Unpack[BulkFields]
    ) -> BulkAnswer:
        """
        Change all jobs that match a filter; see `Scheduler.bulk`. *on_progress* is called on the event loop.
        """
        check_names("bulk", fields, BulkFields.__annotations__)
        return await asyncio.to_thread(self._core.client.bulk, verb, prefix, fields, _on_loop(on_progress))

    async def drain(self, prefix: str = "", on_progress: Callable[[int], object] | None = None) -> list[Job]:
        """
        Cancel and return all pending jobs under a prefix; see `Scheduler.drain`. *on_progress* runs on the event loop.
        """
        return await asyncio.to_thread(drained, self._core.client, prefix, _on_loop(on_progress))

    async def get(self, key: str) -> Job | None:
        """
        Return the job of *key*; see `Scheduler.get`.
        """
        return await asyncio.to_thread(self._core.client.get, key)

    async def explain(self, key: str) -> Explanation | None:
        """
        Return the reason why the job of *key* has not run yet; see `Scheduler.explain`.
        """
        return await asyncio.to_thread(self._core.explain, key)

    async def history(self, key: str, *, before: int | None = None, limit: int = 100) -> Sequence[HistoryRecord]:
        """
        Return the history records of the jobs of *key*, the newest first; see `Scheduler.history`.
        """
        return await asyncio.to_thread(self._core.client.history, key, before, limit)

    async def jobs_of(self, task: Task[..., ..., Any]) -> list[Job]:
        """
        Return the jobs of a task; see `Scheduler.jobs_of`.
        """
        return await asyncio.to_thread(jobs_with, self._core.client, names_of(task))

    async def list(self, prefix: str = "", **fields: Unpack[ListRest]) -> Page:
        """
        Return a page of jobs; see `Scheduler.list`.
        """
        check_names("list", fields, ListRest.__annotations__)
        return await asyncio.to_thread(self._core.client.page, {"prefix": prefix, **fields})

    async def upcoming(
        self, due_from: Instant | None = None, due_until: Instant | None = None, limit: int = 100
    ) -> Sequence[Job]:
        """
        Return the next pending jobs; see `Scheduler.upcoming`.
        """
        return await asyncio.to_thread(self._core.client.upcoming, due_from, due_until, limit)

    async def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        """
        Count the jobs that fall due in each interval; see `Scheduler.forecast`.
        """
        return await asyncio.to_thread(self._core.client.forecast, since, step, steps)

    async def shards(self) -> Sequence[Shard]:
        """
        Return all shards with their owners; see `Scheduler.shards`.
        """
        return await asyncio.to_thread(self._core.client.shards)

    async def nodes(self) -> Sequence[Node]:
        """
        Return the processes that fire jobs, each with its last report; see `Scheduler.nodes`.
        """
        return await asyncio.to_thread(self._core.nodes)

    async def progress(self, key: str) -> Progress | None:
        """
        Return the last progress of the running job of *key*; see `Scheduler.progress`.
        """
        return progress_of(key, await self.nodes())

    async def incidents(self, search: str = "", *, prefix: str = "") -> Incidents:
        """
        Return the dead letters grouped by error; see `Scheduler.incidents`.
        """
        return await asyncio.to_thread(self._core.client.incidents, search, prefix)

    async def acts(self, since: Instant, until: Instant | None = None, limit: int = 100) -> Sequence[HistoryRecord]:
        """
        Return the acts of callers and the events of nodes; see `Scheduler.acts`.
        """
        return await asyncio.to_thread(self._core.client.acts, since, until, limit)

    async def latest_dead(self, limit: int = 100, prefix: str = "") -> Sequence[Job]:
        """
        Return the latest dead letters; see `Scheduler.latest_dead`.
        """
        return await asyncio.to_thread(self._core.client.latest_dead, limit, prefix)

    async def minutes(self, since: Instant, until: Instant | None = None) -> Sequence[Minute]:
        """
        Return the figures of all nodes by minute; see `Scheduler.minutes`.
        """
        return await asyncio.to_thread(self._core.client.minutes, since, until)

    async def lease(
        self, queue: str, *, limit: int = 1, wait: Duration = 20.0, seconds: Duration = 60.0
    ) -> Sequence[JobLease]:
        """
        Lease due firings; see `Scheduler.lease`. If the `await` is cancelled, other callers get the firings.
        """
        found = self._core.pulls.lease(queue, limit, wait, seconds)
        try:
            return await asyncio.wrap_future(found)
        except asyncio.CancelledError:  # the lease may just have got firings
            self._core.pulls.abandon(found)
            raise

    async def ack(self, fire_id: str) -> None:
        """
        End a leased firing as done; see `Scheduler.ack`.
        """
        await self._replies.awaitable(self._core.pulls.ack(fire_id))

    async def nack(
        self, fire_id: str, *, delay: Duration | None = None, error: str | None = None, is_dead: bool = False
    ) -> None:
        """
        End a leased firing as failed; see `Scheduler.nack`.
        """
        await self._replies.awaitable(self._core.pulls.nack(fire_id, delay, error, is_dead=is_dead))

    async def release(self, fire_id: str, *, delay: Duration | None = None) -> None:
        """
        Give a leased firing back without counting an attempt; see `Scheduler.release`.
        """
        await self._replies.awaitable(self._core.pulls.release(fire_id, delay))

    async def extend(
        self, fire_id: str, seconds: Duration = 60.0, *, progress: float | None = None, note: str = ""
    ) -> int:
        """
        Extend a lease; see `Scheduler.extend`.
        """
        return await self._replies.awaitable(self._core.pulls.extend(fire_id, seconds, checks.noted(progress, note)))


def _on_loop(call: Callable[[_T], object] | None) -> Callable[[_T], object] | None:
    if call is None:
        return None
    loop = asyncio.get_running_loop()
    return lambda value: loop.call_soon_threadsafe(call, value)
