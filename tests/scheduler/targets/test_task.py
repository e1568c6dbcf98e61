"""
Payloads that describe the call of a task, and the function `apply_at`, which sets a job for a task.
"""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

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
    A payload has arguments, keyword arguments and options, all of them optional.
    """
    assert task_of(payload) == task


@pytest.mark.parametrize(
    "payload", [b"1", b'"text"', b"[1]", b'{"to": 1}', b'{"args": {}}', b'{"kwargs": []}', b'{"options": 1}']
)
def test_payloads_that_are_not_calls(payload):
    """
    A payload of another form is refused.

    The error shows the correct form.
    """
    with pytest.raises(InvalidJobError, match="pass "):
        task_of(payload)


class CeleryTask:
    """
    A fake Celery task, which is recognised by its method `apply_async`.
    """

    name = "tasks.mail"

    def apply_async(self):
        pass


def function():
    """
    A task of RQ, which is never called.
    """


def test_the_task_selects_the_target(make):
    """
    `apply_at` sets a job for a task. The library of the task selects the target.
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


@pytest.fixture
def four(make):
    """
    Return a scheduler with the targets of all four libraries, without brokers.
    """
    targets = {
        "celery": CeleryTarget(App()),
        "rq": RqTarget(Connection()),
        "dramatiq": DramatiqTarget(Broker()),
        "taskiq": TaskiqTarget(Broker()),
    }
    return make("memory://", targets=targets)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("celery", {"queue": "slow", "expires": 60, "priority": 0, "headers": {"x": "1"}, "ignore_result": True}),
        ("celery", {"link": {"task": "t.other"}, "retry": False, "time_limit": 1.5, "task_id": "mine"}),
        ("celery", {"expires": "2030-01-01T00:00:00+00:00", "soft_time_limit": None}),
        ("celery", {"link": [{"task": "t.a"}, {"task": "t.b"}], "chord": {"task": "t.c"}, "priority": 255}),
        ("rq", {"queue": "slow", "job_timeout": 77, "result_ttl": -1, "ttl": "1h", "at_front": True}),
        ("rq", {"meta": {"a": 1}, "retry": 3, "job_id": "mine", "depends_on": ["a", "b"]}),
        ("rq", {"retry": {"max": 3, "interval": [1, 2]}, "timeout": "10m", "unique": True}),
        ("rq", {"timeout": -1, "result_ttl": "0", "failure_ttl": "-1", "ttl": "2D", "depends_on": "a", "unique": None}),
        ("dramatiq", {"queue_name": "slow", "max_retries": 0, "time_limit": 1000, "on_failure": "other"}),
        ("dramatiq", {"of_its_own": [1]}),
        (
            "dramatiq",
            {"pipe_target": {"queue_name": "q", "actor_name": "a", "args": [], "kwargs": {}, "options": {}}},
        ),
        ("taskiq", {"anything": 1, "f": 0.5, "b": True, "s": "x"}),
    ],
)
def test_options(four, target, options):
    """
    Options that a library supports are passed on unchanged.
    """
    payload = {"args": [1], "options": options}
    job = four.set("one", delay=60, target=target, handler="tasks.mail", payload=payload).job
    assert task_of(job.payload).options == options


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("celery", {"bogus": 1}, "option is 'bogus': the options of Celery are argsrepr, .*time_limit"),
        ("celery", {"countdown": 5}, r"options\['countdown'\] is 5: leave it out, and set the job for that instant"),
        ("celery", {"eta": "2030-01-01"}, "leave it out, and set the job for that instant"),
        ("celery", {"queue": 5}, r"options\['queue'\] is 5: pass a text"),
        ("celery", {"headers": {"Tickwheel-Key": "x"}}, "headers.* is 'Tickwheel-Key': choose another name"),
        ("celery", {"headers": [1]}, "pass an object"),
        ("celery", {"headers": {"id": "x"}}, "headers.* is 'id': choose another name: Celery sets this one"),
        ("celery", {"headers": {"eta": "2030-01-01"}}, "choose another name: Celery sets this one"),
        ("celery", {"retry": "yes"}, "pass true or false"),
        ("celery", {"Queue": "slow"}, "option is 'Queue': the options of Celery are "),
        ("celery", {"content_type": "a/b"}, "option is 'content_type'"),
        ("celery", {"stamps": {"a": 1}}, "option is 'stamps'"),
        ("celery", {"expires": "tomorrow"}, "pass seconds, which count from the instant"),
        ("celery", {"expires": -5}, "pass seconds, which count from the instant"),
        ("celery", {"expires": 1e300}, "pass seconds, which count from the instant"),
        ("celery", {"time_limit": 1e300}, "pass seconds, more than 0"),
        ("celery", {"priority": 256}, "pass a whole number from 0 to 255"),
        ("celery", {"delivery_mode": 0}, "pass a whole number from 1 to 2"),
        ("celery", {"link": {"a": 1}}, "pass a signature"),
        ("celery", {"chain": [{"task": "t.a"}, 1]}, "pass a signature"),
        ("celery", {"chord": [{"task": "t.a"}]}, "pass a signature"),
        ("rq", {"bogus": 1}, "option is 'bogus': the options of RQ are "),
        ("rq", {"timeout": 1, "job_timeout": 1}, "it is the same as timeout: pass one"),
        ("rq", {"retry": "3"}, "pass how often"),
        ("rq", {"retry": {"max": 0}}, "pass how often"),
        ("rq", {"retry": {"max": 3, "interval": "x"}}, "pass how often"),
        ("rq", {"retry": {"max": 3, "interval": [1, -1]}}, "pass how often"),
        ("rq", {"timeout": "1x"}, "pass whole seconds, or text such as '1h', more than 0, or -1"),
        ("rq", {"job_timeout": 0}, "more than 0, or -1"),
        ("rq", {"timeout": -2}, "more than 0, or -1"),
        ("rq", {"timeout": "h"}, "pass whole seconds"),
        ("rq", {"ttl": -1}, "more than 0"),
        ("rq", {"ttl": "\u0661h"}, "pass whole seconds"),
        ("rq", {"result_ttl": 1.5}, "pass whole seconds"),
        ("rq", {"failure_ttl": 10**12}, "pass whole seconds"),
        ("rq", {"depends_on": [1]}, "pass the id of a job"),
        ("rq", {"depends_on": []}, "pass the id of a job"),
        ("rq", {"depends_on": "a", "unique": True}, "pass one of unique and depends_on"),
        ("rq", {"retry": {"max": 3, "interval": [10**400]}}, "pass how often"),
        ("rq", {"retry": {"max": 3, "interval": []}}, "pass how often"),
        ("rq", {"ttl": "9" * 5_000}, "pass whole seconds"),
        ("rq", {"job_id": "a b"}, "write it with letters, digits"),
        ("rq", {"meta": {"tickwheel-fire-id": 1}}, "choose another name"),
        ("dramatiq", {"bogus": 1}, "option is 'bogus': the options of Dramatiq are "),
        ("dramatiq", {"delay": 5000}, "leave it out, and set the job for that instant"),
        ("dramatiq", {"max_retries": -1}, "pass a whole number, 0 or more"),
        ("dramatiq", {"max_retries": True}, "pass a whole number, 0 or more"),
        ("dramatiq", {"queue_name": "a b"}, "begin with a letter or _"),
        ("dramatiq", {"queue_name": "1st"}, "begin with a letter or _"),
        ("dramatiq", {"on_failure": {"a": 1}}, "pass a text"),
        ("dramatiq", {"pipe_target": {"actor_name": "a"}}, "pass a message"),
        ("dramatiq", {"tickwheel": {}}, "choose another name"),
        ("taskiq", {"x": [1]}, "pass a text, a number"),
        ("taskiq", {"delay": 5}, "leave it out"),
        ("taskiq", {"tickwheel-attempt": "9"}, "choose another name"),
    ],
)
def test_options_that_are_refused(four, target, options, message):
    """
    An option that the library does not support, or that contradicts the job, is refused when the job is set.

    The error names the option.
    """
    payload = {"args": [1], "options": options}
    with pytest.raises(InvalidJobError, match=message):
        four.set("one", delay=60, target=target, handler="tasks.mail", payload=payload)
    four.set("one", delay=60, target=target, handler="tasks.mail")
    with pytest.raises(InvalidJobError, match=message):
        four.change("one", payload=payload)
    assert four.get("one").payload == b"null"


@pytest.mark.parametrize("target", ["celery", "rq", "dramatiq", "taskiq"])
def test_a_payload_that_is_not_a_call(four, target):
    """
    A payload that does not describe a call is refused when the job is set, not when it fires.
    """
    with pytest.raises(InvalidJobError, match=r'pass \{"args"'):
        four.set("one", delay=60, target=target, handler="tasks.mail", payload=[1])


@pytest.mark.filterwarnings(r"ignore:\s*The 'queue' task attribute is deprecated")
def test_declared_by_celery(four):
    """
    The options that a Celery task declares, and the route of its application, become part of the job.

    Explicit options take precedence.
    """
    celery = pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    app = celery.Celery("shop", set_as_current=False)
    routed = celery.Celery("routed", set_as_current=False)
    routed.conf.task_routes = {"fast.*": {"queue": "fast", "priority": 3}}
    moved = celery.Celery("moved", set_as_current=False)
    moved.conf.task_default_queue = "theirs"
    special = app.task(name="tasks.special", queue="special", expires=60, time_limit=7)(function)
    declared = {"queue": "special", "expires": 60, "time_limit": 7}
    for task, given, options in (
        (special, {}, declared),
        (special, {"queue": "mine", "expires": 5}, declared | {"queue": "mine", "expires": 5}),
        (app.task(name="tasks.plain")(function), {}, {}),
        (routed.task(name="fast.one")(function), {}, {"queue": "fast", "priority": 3}),
        (routed.task(name="slow.one")(function), {}, {}),
        (routed.task(name="fast.two")(function), {"queue": "mine"}, {"queue": "mine"}),
        (moved.task(name="moved.one")(function), {}, {"queue": "theirs"}),
    ):
        job = apply_at(four, task, countdown=60, key="one", **given).job
        assert task_of(job.payload).options == options


def test_declared_by_dramatiq(four):
    """
    The queue of an actor becomes part of the job.
    """
    dramatiq = pytest.importorskip("dramatiq", reason="dramatiq is not installed: pip install 'tickwheel[dramatiq]'")
    stub = pytest.importorskip("dramatiq.brokers.stub").StubBroker()
    actor = dramatiq.actor(lambda: None, actor_name="note", queue_name="slow", broker=stub)
    assert task_of(apply_at(four, actor, countdown=60).job.payload).options == {"queue_name": "slow"}
    given = apply_at(four, actor, countdown=60, queue_name="fast").job
    assert task_of(given.payload).options == {"queue_name": "fast"}


def test_declared_by_taskiq(four):
    """
    The labels of a taskiq task become part of the job.
    """
    taskiq = pytest.importorskip("taskiq", reason="taskiq is not installed: pip install 'tickwheel[taskiq]'")

    async def note():
        pass

    task = taskiq.InMemoryBroker().task(task_name="note", queue_name="slow", n=3)(note)
    assert task_of(apply_at(four, task, countdown=60, n=4).job.payload).options == {"queue_name": "slow", "n": 4}


def test_a_name_needs_its_target(make):
    """
    If only the name of a task is given, its library is unknown, so the target must also be given.
    """
    scheduler = make("memory://", targets={"celery": CeleryTarget(App())})
    with pytest.raises(InvalidJobError, match="pass target='celery'"):
        apply_at(scheduler, "tasks.mail", countdown=1)
    assert apply_at(scheduler, "tasks.mail", countdown=1, target="celery").outcome == "created"
    with pytest.raises(InvalidJobError, match="pass delay= or at=, not both"):
        apply_at(scheduler, "tasks.mail", countdown=1, eta=5, target="celery")


def test_with_asyncio():
    """
    With an async scheduler, a call of `apply_at` is awaited.
    """

    async def main():
        scheduler = AsyncScheduler("memory://", targets={"celery": CeleryTarget(App())})
        answer = await apply_at(scheduler, CeleryTask(), countdown=60)
        await scheduler.stop()
        return answer.outcome

    assert asyncio.run(main()) == "created"


class App:
    """
    A fake Celery application, which can send tasks.
    """

    def send_task(self):
        pass

    def close(self):
        pass


class Broker:
    """
    A fake broker, which can enqueue messages.
    """

    actors: ClassVar = {}
    actor_options = frozenset({"of_its_own"})

    def enqueue(self):
        pass

    kick = enqueue


class Connection:
    """
    A fake Redis connection, which has a pool.
    """

    connection_pool = None


def test_a_queue_that_no_actor_may_declare():
    """
    A Dramatiq target refuses the same queue names as Dramatiq.
    """
    with pytest.raises(InvalidJobError, match="queue is 'slow jobs': begin with a letter or _"):
        DramatiqTarget(Broker(), queue="slow jobs")


@pytest.mark.parametrize("target", [CeleryTarget, RqTarget, DramatiqTarget, TaskiqTarget])
def test_a_target_accepts_only_objects_of_its_library(target):
    """
    A target accepts only objects of its own library.
    """
    with pytest.raises(InvalidJobError, match=r"pass (the|a) "):
        target("redis://localhost")
