"""
The backend of a scheduler's faces: a core of this process, or one behind a service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from tickwheel.host.promise import Reply
from tickwheel.host.within import Within
from tickwheel.jobs.bulk import BulkAnswer, BulkFields, BulkProgress
from tickwheel.jobs.change import ChangeFields
from tickwheel.jobs.declaration import Declaration, Declared
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.jobs.incidents import Incidents
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Page, Pause, Progress
from tickwheel.jobs.requests import ListFields, SetRequest
from tickwheel.jobs.verbs import Verb
from tickwheel.observe.events import EventHook
from tickwheel.stores import Node, Shard
from tickwheel.targets import Firing
from tickwheel.targets.handler import HandlerTarget
from tickwheel.targets.pull import JobLease
from tickwheel.typing import Duration, Instant

if TYPE_CHECKING:
    import asyncio

__all__ = ["Backend", "Jobs"]


class Jobs(Protocol):
    """
    The verbs on jobs. All methods may be called from any thread; those that return no reply block.

    They raise what `Scheduler` says, bad values before anything is done.
    """

    @property
    def is_stale(self) -> bool:
        """
        True if the next write opens the store or reads its clock first, for which a loop should not wait.
        """

    def refresh(self) -> None:
        """
        Do that, if it is so.
        """

    def now_ms(self) -> int:
        """
        Return the store's time as it is known here, in ms since the epoch.
        """

    def set(self, request: SetRequest) -> Reply[Answer]:
        """
        Set one job.
        """

    def submit(self, verb: Verb) -> Reply[list[Answer]]:
        """
        Do *verb*; the answers are in order.
        """

    def within(self, connection: object) -> Within:
        """
        Return the verbs within the transaction of the caller's *connection*.
        """

    def get(self, key: str) -> Job | None:
        """
        Read one job.
        """

    def history(self, key: str, before: int | None, limit: int) -> Sequence[HistoryRecord]:
        """
        Read what happened to one job.
        """

    def page(self, fields: ListFields) -> Page:
        """
        Read a page of jobs.
        """

    def bulk(self, verb: str, prefix: str, fields: BulkFields, on_progress: BulkProgress | None) -> BulkAnswer:
        """
        Do the same to all jobs that a filter chooses.
        """

    def change(self, key: str, fields: ChangeFields, if_generation: int | None) -> Answer:
        """
        Change some of one job.
        """

    def declare(self, asked: Declaration) -> Declared:
        """
        Declare the jobs of a manifest.
        """

    def upcoming(self, due_from: Instant | None, due_until: Instant | None, limit: int) -> Sequence[Job]:
        """
        Read the next jobs.
        """

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        """
        Count the jobs that are due in each step.
        """

    def incidents(self, search: str, prefix: str) -> Incidents:
        """
        Read the dead letters, grouped by what went wrong.
        """

    def pause_scope(self, scope: str, note: str, by: str | None) -> Pause:
        """
        Pause the jobs of a handler, a queue, a target, or all.
        """

    def resume_scope(self, scope: str, by: str | None) -> bool:
        """
        Let them go on, and return whether they were paused.
        """

    def scopes(self) -> Sequence[Pause]:
        """
        Read what is paused as a whole.
        """

    def shards(self) -> Sequence[Shard]:
        """
        Read who owns what.
        """


class _Pulls(Protocol):
    def lease(self, queue: str, limit: int, wait: Duration, seconds: Duration) -> Future[list[JobLease]]: ...
    def abandon(self, found: Future[list[JobLease]]) -> None: ...
    def ack(self, fire_id: str) -> Future[None]: ...
    def nack(self, fire_id: str, delay: Duration | None, error: str | None, *, is_dead: bool) -> Future[None]: ...
    def release(self, fire_id: str, delay: Duration | None) -> Future[None]: ...
    def extend(self, fire_id: str, seconds: Duration, progress: Progress | None = None) -> Future[int]: ...


class Backend(Protocol):
    """
    A core: jobs, leases of pull workers, handlers and events, and the life of what fires.
    """

    @property
    def client(self) -> Jobs:
        """
        The verbs.
        """

    @property
    def pulls(self) -> _Pulls:
        """
        The verbs of pull workers: lease, acknowledge, refuse, extend.
        """

    @property
    def handlers(self) -> HandlerTarget:
        """
        The registry of handlers.
        """

    @property
    def is_firing(self) -> bool:
        """
        True while handlers run.
        """

    @property
    def is_in_use(self) -> bool:
        """
        True while this process has threads or connections for it.
        """

    @property
    def is_ready(self) -> bool:
        """
        True while they do and the store answers.
        """

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]:
        """
        Call *hook* with events, as `Scheduler.subscribe` says.
        """

    def start(self, loop: asyncio.AbstractEventLoop | None, role: str) -> None:
        """
        Fire as `Scheduler.start` says; async handlers run on *loop*, or on one of the core's own.
        """

    def is_inside(self) -> bool:
        """
        Return whether the caller is a handler, which a stop may not wait for.
        """

    def stop(self, timeout: float | None, *, is_inside: bool) -> list[Firing]:
        """
        Stop as `Scheduler.stop` says.
        """

    def stats(self, *, with_store: bool) -> dict[str, Any]:
        """
        Return the counters and figures; those of this process alone without *with_store*.
        """

    def advertise(self, url: str, secret: str) -> None:
        """
        Report, with each heartbeat, the *url* where other nodes reach this one's service, and the *secret* to send.
        """

    def nodes(self) -> Sequence[Node]:
        """
        Return who fires.
        """

    def recent(self, after: int) -> list[FiringRecord]:
        """
        Return what ended after that number, and what runs.
        """
