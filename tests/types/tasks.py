"""
Code with tasks that type checkers must accept, and over forty lines with `type: ignore` that they must refuse.

In both checkers, an ignore that is not needed is an error. So every line is checked. The code is never run.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, assert_type

from tickwheel.integrations import fastapi, flask
from tickwheel.integrations.django import jobs as django_jobs
from tickwheel.scheduler import (
    Answer,
    AsyncScheduler,
    Firing,
    Job,
    RetryPolicy,
    Scheduler,
    SetMode,
    SetRequest,
    Snooze,
    TaskCall,
    task,
)
from tickwheel.testing import AsyncInlineScheduler, InlineScheduler, ManualClock

scheduler = Scheduler("memory://")
async_scheduler = AsyncScheduler("memory://")
inline = InlineScheduler(ManualClock())
async_inline = AsyncInlineScheduler(ManualClock())
flask_jobs = flask.Jobs()
fastapi_jobs = fastapi.Jobs()


class Reason(Enum):
    """
    The reason for the end of an order.
    """

    UNPAID = "unpaid"
    RECALLED = "recalled"


@dataclass
class Item:
    """
    A part of an order.
    """

    name: str
    count: int


@scheduler.task
def cancel_order(number: int, reason: Reason = Reason.UNPAID) -> str:
    """
    Accept arguments by position or by name.
    """
    return f"{number} {reason}"


@scheduler.task(retry_on=(ConnectionError,), dead_on=ValueError, timeout="2m", retry=RetryPolicy(3))
def remind(firing: Firing, address: str, *, items: list[Item]) -> Snooze | None:
    """
    Take the firing as the first parameter.
    """
    return None if items else Snooze(firing.attempt + len(address))


@task(name="fetch", aliases=["load"], executor="thread", concurrency=3, rate=5.0)
async def fetch(url: str, since: datetime | None = None, firing: Firing | None = None) -> bytes:
    """
    Run as a coroutine.
    """
    return f"{url} {since} {firing}".encode()


@flask_jobs.task
def anything(data: Any) -> None:
    """
    Take one argument of type Any, in which a caller may pass anything.

    The type checkers must not take this parameter for the parameter of the firing.
    """


@fastapi_jobs.task(name="nothing")
async def nothing() -> None:
    """
    Take no argument.
    """


@django_jobs.task(timeout=timedelta(minutes=2))
def options(**rest: int) -> None: ...


@scheduler.middleware
@contextmanager
def logged(firing: Firing) -> Generator[None]:
    """
    Run around each attempt, as a middleware.
    """
    firing.heartbeat()
    yield


@async_scheduler.middleware
def kept(_firing: Firing) -> AbstractContextManager[None]:
    """
    Return any context manager.

    Middleware need not be a generator.
    """
    return nullcontext()


def calls() -> None:
    """
    `of` takes the parameters of the function except the firing.

    A task can also be called like the function.
    """
    assert_type(cancel_order.of(17), TaskCall)
    assert_type(cancel_order.of(number=17, reason=Reason.RECALLED), TaskCall)
    assert_type(remind.of("ada@example.org", items=[Item("pear", 2)]), TaskCall)
    assert_type(fetch.of(url="https://example.org", since=datetime.now(UTC)), TaskCall)
    assert_type(anything.of(data={"any": 1}), TaskCall)
    assert_type(nothing.of(), TaskCall)
    assert_type(options.of(a=1, b=2), TaskCall)
    assert_type(cancel_order(17), str)
    assert_type(cancel_order.name, str)

    cancel_order.of()  # type: ignore[call-arg]
    cancel_order.of("17")  # type: ignore[arg-type]
    cancel_order.of(numbr=17)  # type: ignore[call-arg]
    cancel_order.of(17, "unpaid")  # type: ignore[arg-type]
    cancel_order.of(17, Reason.UNPAID, 3)  # type: ignore[call-arg]
    cancel_order.of(number=17, number_=18)  # type: ignore[call-arg]
    cancel_order.of(17, reason=None)  # type: ignore[arg-type]
    cancel_order("17")  # type: ignore[arg-type]
    cancel_order()  # type: ignore[call-arg]
    cancel_order(17).fire()  # type: ignore[attr-defined]
    cancel_order.off(17)  # type: ignore[attr-defined]
    remind.of("ada@example.org")  # type: ignore[call-arg]
    remind.of("ada@example.org", items=[("pear", 2)])  # type: ignore[list-item]
    remind.of(17, items=[])  # type: ignore[arg-type]
    remind("ada@example.org", items=[])  # type: ignore[call-arg, arg-type]
    fetch.of(url=b"https://example.org")  # type: ignore[arg-type]
    fetch.of("https://example.org", since="2030-01-01")  # type: ignore[arg-type]
    nothing.of(1)  # type: ignore[call-arg]
    options.of(a="1")  # type: ignore[arg-type]


def sets(firing: Firing) -> None:
    """
    `set` accepts the call of a task.

    It does not accept a task, a task's result or a task's name.
    """
    answer = scheduler.set("order/17", cancel_order.of(number=17), delay="30m")
    assert_type(answer.job, Job)
    assert_type(answer.job.due, datetime)
    scheduler.set("order/17", cancel_order.of(17), cron="0 9 * * *", misfire="skip", overlap="cancel", mode="keep")
    scheduler.set("order/17", cancel_order.of(17), delay=5, mode=SetMode.EARLIEST)
    unsure = scheduler.set("order/17", cancel_order.of(17), delay=5, if_generation=3)
    assert_type(unsure, Answer)
    assert_type(scheduler.set_many([SetRequest("order/18", cancel_order.of(18), delay=5)]), list[Answer])
    assert_type(scheduler.jobs_of(cancel_order), list[Job])
    scheduler.register(fetch, cancel_order)
    inline.assert_scheduled(cancel_order, "order/17", delay="30m")
    async_inline.assert_scheduled(cancel_order.of(17), "order/17")

    scheduler.set("order/17", cancel_order, delay=5)  # type: ignore[call-overload]
    scheduler.set("order/17", cancel_order(17), delay=5)  # type: ignore[call-overload]
    scheduler.set("order/17", "cancel_order", delay=5)  # type: ignore[call-overload]
    scheduler.set(17, cancel_order.of(17), delay=5)  # type: ignore[call-overload]
    scheduler.set("order/17", cancel_order.of(17), dely=5)  # type: ignore[call-overload]
    scheduler.set("order/17", cancel_order.of(17), delay=[5])  # type: ignore[call-overload]
    scheduler.set("order/17", cancel_order.of(17), delay=5, misfire="skp")  # type: ignore[call-overload]
    scheduler.set("order/17", cancel_order.of(17), delay=5, mode="kep")  # type: ignore[call-overload]
    scheduler.set("order/17", cancel_order.of(17), every=5, overlap="cancl")  # type: ignore[call-overload]
    _ = answer.jobs  # type: ignore[attr-defined]
    _ = unsure.job.due  # type: ignore[union-attr]
    SetRequest("order/18", cancel_order, delay=5)  # type: ignore[arg-type]
    SetRequest("order/18", 5)  # type: ignore[arg-type]
    scheduler.jobs_of("cancel_order")  # type: ignore[arg-type]
    scheduler.register(print)  # type: ignore[arg-type]
    scheduler.start(role="ownr")  # type: ignore[arg-type]
    scheduler.list(state="pendng")  # type: ignore[arg-type]
    inline.assert_scheduled("cancel_order", "order/17")  # type: ignore[arg-type]
    inline.assert_scheduled(cancel_order)  # type: ignore[call-arg]
    firing.attempt = 2  # type: ignore[misc]


async def awaited() -> None:
    """
    The type checkers check the async verbs like the blocking ones.
    """
    assert_type((await async_scheduler.set("k", fetch.of("u"), delay=5)).job, Job)
    assert_type(await async_scheduler.jobs_of(fetch), list[Job])
    assert_type(await fetch("u"), bytes)
    await async_inline.advance(60)

    (await async_scheduler.set("k", fetch, delay=5))  # type: ignore[call-overload]
    (await async_scheduler.set("k", fetch.of("u"), dely=5))  # type: ignore[call-overload]
    (await async_scheduler.set("k", fetch.of("u"), delay=5, mode="kep"))  # type: ignore[call-overload]
    _ = async_scheduler.set("k", fetch.of("u"), delay=5).job  # type: ignore[attr-defined]


def options_of_tasks() -> None:
    """
    Only existing options of tasks are accepted.
    """

    def plain(number: int) -> None: ...

    scheduler.task(retry_on=("ConnectionError",))(plain)  # type: ignore[arg-type]
    scheduler.task(retry_on=ConnectionError())(plain)  # type: ignore[call-overload]
    scheduler.task(dead_on=[int])(plain)  # type: ignore[list-item]
    scheduler.task(retries=3)(plain)  # type: ignore[call-overload]
    scheduler.task("plain")(plain)  # type: ignore[call-overload]
    scheduler.task(executor="proces")(plain)  # type: ignore[call-overload]
    scheduler.task(timeout=[2])(plain)  # type: ignore[call-overload]
    scheduler.task(retry=3)(plain)  # type: ignore[call-overload]
    task(name=b"plain")(plain)  # type: ignore[call-overload]
    scheduler.middleware(plain)  # type: ignore[type-var]
