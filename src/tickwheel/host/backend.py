"""
The interface between a scheduler's API and its core, which is in this process or behind a service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from tickwheel.host.promise import Reply
from tickwheel.host.within import TransactionClient
from tickwheel.jobs.bulk import BulkAnswer, BulkFields, BulkProgress
from tickwheel.jobs.change import ChangeFields
from tickwheel.jobs.declaration import Declaration, Declared
from tickwheel.jobs.explanation import Explanation
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.jobs.incidents import Incidents
from tickwheel.jobs.minutes import Minute
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
    The operations on jobs, for any thread, with the errors that `Scheduler` documents. All values are checked first.

    A method blocks unless it returns a `Reply`.
    """

    @property
    def is_stale(self) -> bool:
        """
        True if the next write first opens the store or reads its clock, which would block an event loop.
        """

    def refresh(self) -> None: ...

    def now_ms(self) -> int: ...

    def set(self, request: SetRequest, *, waits: bool = False) -> Reply[Answer]: ...

    def submit(self, verb: Verb, *, waits: bool = False) -> Reply[list[Answer]]:
        """
        Run *verb*, and reply with its answers in order. If *waits* is True, the caller waits, so its thread may write.
        """

    def within(self, connection: object) -> TransactionClient: ...

    def get(self, key: str) -> Job | None: ...

    def history(self, key: str, before: int | None, limit: int) -> Sequence[HistoryRecord]: ...

    def page(self, fields: ListFields) -> Page: ...

    def bulk(self, verb: str, prefix: str, fields: BulkFields, on_progress: BulkProgress | None) -> BulkAnswer: ...

    def change(self, key: str, fields: ChangeFields, if_generation: int | None) -> Answer: ...

    def declare(self, asked: Declaration) -> Declared: ...

    def upcoming(self, due_from: Instant | None, due_until: Instant | None, limit: int) -> Sequence[Job]: ...

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]: ...

    def incidents(self, search: str, prefix: str) -> Incidents: ...

    def latest_dead(self, limit: int, prefix: str) -> Sequence[Job]: ...

    def acts(self, since: Instant, until: Instant | None, limit: int) -> Sequence[HistoryRecord]: ...

    def minutes(self, since: Instant, until: Instant | None) -> Sequence[Minute]: ...

    def pause_scope(self, scope: str, note: str, by: str | None) -> Pause: ...

    def resume_scope(self, scope: str, by: str | None) -> bool: ...

    def scopes(self) -> Sequence[Pause]: ...

    def shards(self) -> Sequence[Shard]: ...


class _Pulls(Protocol):
    def lease(self, queue: str, limit: int, wait: Duration, seconds: Duration) -> Future[list[JobLease]]: ...
    def abandon(self, found: Future[list[JobLease]]) -> None: ...
    def ack(self, fire_id: str) -> Future[None]: ...
    def nack(self, fire_id: str, delay: Duration | None, error: str | None, *, is_dead: bool) -> Future[None]: ...
    def release(self, fire_id: str, delay: Duration | None) -> Future[None]: ...
    def extend(self, fire_id: str, seconds: Duration, progress: Progress | None = None) -> Future[int]: ...


class Backend(Protocol):
    @property
    def client(self) -> Jobs: ...

    @property
    def pulls(self) -> _Pulls: ...

    @property
    def handlers(self) -> HandlerTarget: ...

    @property
    def is_firing(self) -> bool: ...

    @property
    def is_in_use(self) -> bool:
        """
        True while this process has threads of the scheduler, or connections to its store or service.
        """

    @property
    def is_ready(self) -> bool: ...

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]: ...

    def start(self, loop: asyncio.AbstractEventLoop | None, role: str) -> None:
        """
        Begin to fire; see `Scheduler.start`. Async handlers run on *loop*. If it is None, they get a loop of their own.
        """

    def is_inside(self) -> bool:
        """
        Return True if a handler calls this. A stop must not wait for that handler.
        """

    def stop(self, timeout: float | None, *, is_inside: bool) -> list[Firing]: ...

    def stats(self, *, with_store: bool) -> dict[str, Any]: ...

    def advertise(self, url: str, secret: str) -> None: ...

    def explain(self, key: str) -> Explanation | None: ...

    def nodes(self) -> Sequence[Node]: ...

    def recent(self, after: int) -> list[FiringRecord]: ...
