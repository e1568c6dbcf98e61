"""
The task that queues of tasks get: the payload of a job, read as the call that it describes, and how it is sent.

    payload                                         call
    {"args": [1, 2], "kwargs": {"a": 3}}            task(1, 2, a=3)
    {"args": [1], "options": {"queue": "slow"}}     task(1), with options of the queue's own
    null                                            task()
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from tickwheel.errors import TickwheelError
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._broker_errors import judge_broker
from tickwheel.targets._declared import declared
from tickwheel.targets._destination import Destination
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._threads import Threads
from tickwheel.targets.contract import Call, DeadLetter, Firing, Snooze, Target
from tickwheel.typing import Duration

__all__ = ["Task", "TaskTarget", "apply_at", "check_task_name", "task_of"]

_KINDS = (
    ("apply_async", "celery", "name"),
    ("send_with_options", "dramatiq", "actor_name"),
    ("kiq", "taskiq", "task_name"),
)
"""How the tasks of each library are known: by a method that only they have. What is left is a function, as RQ has."""

_T_co = TypeVar("_T_co", covariant=True)


class Task(NamedTuple):
    """
    A call, and what its queue is to know.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]


class TaskTarget(Linked, Target):
    """
    The common part of targets whose libraries send tasks and block meanwhile, on threads of the target's own.
    """

    _library: ClassVar[str]
    """The library, and the pip extra that brings it."""
    _example: ClassVar[str] = "tasks.send_mail"
    _close: Callable[[], object] | None = None

    def __init__(self, shown: str, timeout_s: Duration, rate: float | None) -> None:
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._rate = checks.limit_rate(rate)
        self._link: Link[Threads] = Link(shown, self._timeout_s, self._connect, Threads.close)

    def check(self, handler: str) -> None:
        """
        Refuse what is not the name of a task.
        """
        check_task_name(handler, self._example)

    def resolve(self, handler: str) -> Call:
        """
        Return the call that sends the task *handler*.
        """
        self.check(handler)
        self.require()
        return self._call(self._send)

    def require(self) -> None:
        """
        Import the library.
        """
        library(self._library, self._library)

    async def close(self) -> None:
        """
        End the threads, and close the connection, if it was made here; otherwise it belongs to its maker.
        """
        await super().close()
        if self._close is not None:
            self._close()

    def check_payload(self, payload: bytes) -> None:
        """
        Refuse what is not a call, and options that the library does not have.
        """
        self._check_options(task_of(payload).options)

    @abstractmethod
    def _check_options(self, options: dict[str, Any]) -> None: ...

    async def _send(self, firing: Firing) -> DeadLetter | Snooze | None:
        try:
            task = task_of(firing.job.payload)
        except InvalidJobError as error:
            return DeadLetter(str(error))
        return await self._link.deliver(firing, partial(self._publish, firing, task))

    async def _publish(self, firing: Firing, task: Task, threads: Threads) -> DeadLetter | None:
        try:
            await threads.run(partial(self._enqueue, firing, task))
        except TickwheelError:
            raise
        except Exception as error:  # noqa: BLE001  every broker has errors of its own
            verdict = judge_broker(error, self._destination())
            if isinstance(verdict, DeadLetter):
                return verdict
            raise verdict from None
        return None

    async def _connect(self) -> Threads:
        return Threads(f"tickwheel-{self._library}")

    @abstractmethod
    def _enqueue(self, firing: Firing, task: Task) -> None:
        """
        Put the *task* of a *firing* into its queue; on a thread that may block.
        """

    @abstractmethod
    def _destination(self) -> Destination: ...


class _Sets(Protocol[_T_co]):
    """
    A `Scheduler` or an `AsyncScheduler`.
    """

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
    Let a task of Celery, RQ, Dramatiq or taskiq be enqueued at its instant, and not before.

    The wheel holds it until then: it can be moved and cancelled by its key, no worker keeps it in memory, and no
    visibility timeout runs while it waits. The queue gets it once it is due.

    The options that the task declares, such as its queue, are put into the job here, where its code is: the process
    that fires need not have it. Celery's `expires` counts from the moment that the task is sent, so from the instant.

    Args:
        scheduler: One that has the library's target, or a client of the store that such a one fires.
        task: A task of Celery, an actor of Dramatiq, a task of taskiq, a function for RQ, or the name of one.
        args: Its arguments, as JSON has them.
        kwargs: Its arguments by name.
        eta: An aware datetime, or seconds since the epoch.
        countdown: Seconds from now; one of the two.
        key: The job's; setting it again replaces what is pending. None for one that nobody else has.
        target: What the target is called here; None for "celery", "rq", "dramatiq" or "taskiq", as *task* shows.
        **options: For the queue, such as `queue="slow"`.

    Returns:
        What `set` returns: the answer, or, of an `AsyncScheduler`, what is to be awaited for it.

    Raises:
        InvalidJobError: As `set` does, or where a name does not determine the target.
    """
    from uuid import uuid4  # noqa: PLC0415  it loads much

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


def check_task_name(handler: str, example: str) -> None:
    """
    Refuse what is not the name of a task.

    Raises:
        InvalidJobError: Showing the *example*.
    """
    if not handler or not handler.isprintable() or " " in handler:
        raise InvalidJobError("handler", handler, f"name the task, such as {example!r}")


def task_of(payload: bytes) -> Task:
    """
    Return the call that *payload* describes.

    Raises:
        InvalidJobError: If it is none.
    """
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
    """
    Return the usual name of a task's target, and the task's own.
    """
    if isinstance(task, str):
        return None, task
    for method, target, name in _KINDS:
        if hasattr(task, method):
            return target, str(getattr(task, name))
    return "rq", f"{task.__module__}.{task.__qualname__}"
