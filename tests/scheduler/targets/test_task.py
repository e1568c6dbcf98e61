"""
How a payload is read as a call, and how one line makes such a job.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from tickwheel.scheduler import AsyncScheduler, InvalidJobError
from tickwheel.targets import apply_at
from tickwheel.targets._task import Task, task_of
from tickwheel.targets.celery import CeleryTarget
from tickwheel.targets.dramatiq import DramatiqTarget
from tickwheel.targets.rq import RqTarget
from tickwheel.targets.taskiq import TaskiqTarget


@pytest.mark.parametrize(
    ("payload", "task"),
    [
        (b"null", Task([], {}, {})),
        (b'{"args": [1]}', Task([1], {}, {})),
        (b'{"args": [1], "kwargs": {"a": 2}, "options": {"queue": "q"}}', Task([1], {"a": 2}, {"queue": "q"})),
    ],
)
def test_calls(payload, task):
    """
    A payload has arguments, arguments by name and options, each of them if need be.
    """
    assert task_of(payload) == task


@pytest.mark.parametrize(
    "payload", [b"1", b'"text"', b"[1]", b'{"to": 1}', b'{"args": {}}', b'{"kwargs": []}', b'{"options": 1}']
)
def test_no_calls(payload):
    """
    Anything else is refused with the shape that is right.
    """
    with pytest.raises(InvalidJobError, match="pass "):
        task_of(payload)


class CeleryTask:
    """
    What is known by its `apply_async`.
    """

    name = "tasks.mail"

    def apply_async(self):
        """
        Nobody calls it.
        """


def function():
    """
    Play the part of a task of RQ.
    """


def test_the_target_is_known_by_the_task(make):
    """
    One line sets the job of a task, for the library that the task is of.
    """
    scheduler = make("memory://", targets={"celery": CeleryTarget(App()), "rq": RqTarget(Connection())})
    job = apply_at(scheduler, CeleryTask(), ["ada"], {"cc": 1}, countdown=60, key="mail/17", queue="slow").job
    assert (job.key, job.target, job.handler) == ("mail/17", "celery", "tasks.mail")
    assert task_of(job.payload) == Task(["ada"], {"cc": 1}, {"queue": "slow"})
    job = apply_at(scheduler, function, eta=time.time() + 60).job
    assert (job.target, job.handler) == ("rq", f"{function.__module__}.function")
    assert job.key.startswith(job.handler + "/")
    other = apply_at(scheduler, function, countdown=1).job
    assert other.key != job.key


def test_a_name_needs_its_target(make):
    """
    A task's name alone does not show which library it belongs to.
    """
    scheduler = make("memory://", targets={"celery": CeleryTarget(App())})
    with pytest.raises(InvalidJobError, match="pass target='celery'"):
        apply_at(scheduler, "tasks.mail", countdown=1)
    assert apply_at(scheduler, "tasks.mail", countdown=1, target="celery").outcome == "created"
    with pytest.raises(InvalidJobError, match="pass delay= or at=, not both"):
        apply_at(scheduler, "tasks.mail", countdown=1, eta=5, target="celery")


def test_with_asyncio():
    """
    Of an async scheduler, the line is awaited.
    """

    async def main():
        scheduler = AsyncScheduler("memory://", targets={"celery": CeleryTarget(App())})
        answer = await apply_at(scheduler, CeleryTask(), countdown=60)
        await scheduler.stop()
        return answer.outcome

    assert asyncio.run(main()) == "created"


class App:
    """
    What can send tasks.
    """

    def send_task(self):
        """
        Nobody calls it.
        """

    def close(self):
        """
        Nothing is open.
        """


class Connection:
    """
    What has a pool.
    """

    connection_pool = None


@pytest.mark.parametrize("target", [CeleryTarget, RqTarget, DramatiqTarget, TaskiqTarget])
def test_what_they_are_made_of(target):
    """
    A target is made of its library's object, and of nothing else.
    """
    with pytest.raises(InvalidJobError, match=r"pass (the|a) "):
        target("redis://localhost")
