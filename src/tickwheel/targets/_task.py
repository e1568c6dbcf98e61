"""
The call of a task that a job's payload describes, and its options.

    payload                                         call
    {"args": [1, 2], "kwargs": {"a": 3}}            task(1, 2, a=3)
    {"args": [1], "options": {"queue": "slow"}}     task(1), with options of the task library
    null                                            task()
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from tickwheel.errors import TickwheelError
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._broker_errors import judge_broker
from tickwheel.targets._declared import declared
from tickwheel.targets._destination import Destination
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets._threads import Threads
from tickwheel.targets.contract import DeadLetter, Firing, Snooze, Target
from tickwheel.typing import Duration

__all__ = ["BlockingTaskTarget", "Task", "TaskTarget", "apply_at", "task_of"]

_KINDS = (
    ("apply_async", "celery", "name"),
    ("send_with_options", "dramatiq", "actor_name"),
    ("kiq", "taskiq", "task_name"),
)
"""For each library, a method that only its tasks have. A callable without these methods is a function for RQ."""

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Task(NamedTuple):
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]


class TaskTarget(Linked, Target, Generic[_T]):
    """
    The common part of targets that send tasks to a broker. *shown* names the broker in messages, without secrets.

    *timeout_s* is the maximum wait of an attempt for the broker, and *rate* the maximum number of tasks per second, or
    None. *connect* and *disconnect* are as for `Link`.
    """

    _library: ClassVar[str]
    _example: ClassVar[str] = "tasks.send_mail"

    def __init__(
        self,
        shown: str,
        timeout_s: Duration,
        rate: float | None,
        connect: Callable[[], Awaitable[_T]],
        disconnect: Callable[[_T], Awaitable[object]],
    ) -> None:
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._rate = checks.limit_rate(rate)
        self._failed_at = 0.0
        self._link: Link[_T] = Link(shown, self._timeout_s, connect, disconnect)

    def check(self, handler: str) -> None:
        _check_name(handler, self._example)

    def require(self) -> None:
        library(self._library, self._library)

    def check_payload(self, payload: bytes) -> None:
        self._check_options(task_of(payload).options)

    @abstractmethod
    def _check_options(self, options: dict[str, Any]) -> None: ...

    async def _send(self, firing: Firing) -> DeadLetter | Snooze | None:
        try:
            task = task_of(firing.job.payload)
        except InvalidJobError as error:
            return DeadLetter(str(error))
        return await self._link.deliver(firing, partial(self._publish, firing, task))

    @abstractmethod
    async def _publish(self, firing: Firing, task: Task, held: _T) -> DeadLetter | None: ...

    def _check_link(self, begun: float) -> None:
        if self._failed_at > begun:
            reason = "others that were sent before could not reach it"
            raise NotTakenError(reason)

    def _judge(self, error: Exception) -> DeadLetter:
        """
        Return a dead letter for a permanent *error*, or raise any other error. Callable from any thread.
        """
        if isinstance(error, TickwheelError | NotTakenError):
            raise error
        verdict = judge_broker(error, self._destination())
        if isinstance(verdict, DeadLetter):
            return verdict
        if isinstance(verdict, NotTakenError) and verdict.is_up is False:
            self._failed_at = self._link.breakers.clock()
        raise verdict from None

    @abstractmethod
    def _destination(self) -> Destination: ...


class BlockingTaskTarget(TaskTarget[Threads]):
    """
    The common part of targets whose libraries block. Such a library runs on threads that belong to the target.
    """

    _close: Callable[[], object] | None = None

    def __init__(self, shown: str, timeout_s: Duration, rate: float | None) -> None:
        super().__init__(shown, timeout_s, rate, self._connect, Threads.close)

    async def close(self) -> None:
        await super().close()
        if self._close is not None:
            self._close()

    async def _publish(self, firing: Firing, task: Task, held: Threads) -> DeadLetter | None:
        begun = self._link.breakers.clock()

        def enqueue() -> DeadLetter | None:
            try:
                self._check_link(begun)
                self._enqueue(firing, task)
            except Exception as error:  # noqa: BLE001  every broker has its own errors
                return self._judge(error)
            return None

        found: DeadLetter | None = await held.run(enqueue)
        return found

    async def _connect(self) -> Threads:
        return Threads(f"tickwheel-{self._library}")

    @abstractmethod
    def _enqueue(self, firing: Firing, task: Task) -> None:
        """
        Enqueue the *task* of a *firing*. This runs on a thread of the target, so it may block.
        """


class _Sets(Protocol[_T_co]):
    def set(
        self,
        key: str,
        *,
        delay: float | None,
        at: datetime | float | None,
        target: str,
        handler: str | None,
        payload: Any,
    ) -> _T_co: ...


def apply_at(
    scheduler: _Sets[_T_co],
    task: Any,
    args: tuple[Any, ...] | list[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    eta: datetime | float | None = None,
    countdown: float | None = None,
    key: str | None = None,
    target: str | None = None,
    **options: Any,
) -> _T_co:
    """
    Enqueue a task of Celery, RQ, Dramatiq or taskiq at its due time, not earlier.

    The store keeps the task until its due time. The task can be moved and cancelled by its key, no worker keeps it in
    memory, and no visibility timeout runs while it waits.

    The options that the task declares, such as its queue, are read from its code here and stored in the job, so the
    process that fires need not have the code. Celery's `expires` counts from the due time, when the task is sent.

    Args:
        scheduler: A scheduler with the library's target, or a client of its store.
        task: A task of Celery, an actor of Dramatiq, a task of taskiq, a function for RQ, or the name of any of these.
        args: The task's positional arguments, as JSON values.
        kwargs: The task's keyword arguments, as JSON values.
        eta: An aware datetime, or seconds since the epoch.
        countdown: Seconds from now; pass either this or *eta*.
        key: The job's key; setting it again replaces the pending job. None for a unique key.
        target: The target's name; None for "celery", "rq", "dramatiq" or "taskiq", depending on *task*.
        **options: Options for the queue, such as `queue="slow"`.

    Returns:
        The answer of `set`; with an `AsyncScheduler`, an awaitable that returns this answer.

    Raises:
        InvalidJobError: If `set` refuses the job, or a name does not determine the target.
    """
    from uuid import uuid4  # noqa: PLC0415  slow to import

    kind, name = _known(task)
    target = target or kind
    if target is None:
        raise InvalidJobError("target", target, f"{name!r} may be anybody's: pass target='celery' or another")
    payload: dict[str, Any] = {"args": list(args), "kwargs": kwargs or {}}
    options = declared(task, options)
    if options:
        payload["options"] = options
    return scheduler.set(
        key or f"{name}/{uuid4()}", delay=countdown, at=eta, target=target, handler=name, payload=payload
    )


def _check_name(handler: str, example: str) -> None:
    if not handler or not handler.isprintable() or " " in handler:
        raise InvalidJobError("handler", handler, f"name the task, such as {example!r}")


def task_of(payload: bytes) -> Task:
    found = json.loads(payload)
    parts = {} if found is None else found
    if not isinstance(parts, dict) or not parts.keys() <= {"args", "kwargs", "options"}:
        raise InvalidJobError("payload", found, 'pass {"args": [...], "kwargs": {...}}, or use apply_at')
    task = Task(parts.get("args", []), parts.get("kwargs", {}), parts.get("options", {}))
    for name, value, kind in (
        ("args", task.args, list),
        ("kwargs", task.kwargs, dict),
        ("options", task.options, dict),
    ):
        if not isinstance(value, kind):
            raise InvalidJobError(name, value, f"pass a {'list' if kind is list else 'dict'}")
    return task


def _known(task: Any) -> tuple[str | None, str]:
    if isinstance(task, str):
        return None, task
    for method, target, name in _KINDS:
        if hasattr(task, method):
            return target, str(getattr(task, name))
    return "rq", f"{task.__module__}.{task.__qualname__}"
