"""
Tests of a project that uses Django's Tasks framework.

`test_django.py` runs them on several databases.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from importlib import import_module
from unittest import mock

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import TransactionTestCase
from django.utils import timezone

from tickwheel.integrations.django import jobs
from tickwheel.integrations.django._tasks import TickwheelBackend
from tickwheel.testing import InlineScheduler, ManualClock

LIBRARY = TickwheelBackend.__mro__[1].__module__.partition(".backends")[0]
tasks = import_module(LIBRARY)
exceptions = import_module(f"{LIBRARY}.exceptions")
signals = import_module(f"{LIBRARY}.signals")

ran = []


def tearDownModule() -> None:
    """
    Close the database, so that it can be dropped.
    """
    jobs.close()


@tasks.task
def add(one: int, other: int = 2) -> int:
    ran.append((one, other))
    return one + other


@tasks.task(queue_name="mail")
async def send(to: list[str]) -> dict[str, list[str]]:
    """
    Return the argument. The task is async.
    """
    await asyncio.sleep(0)
    return {"to": to}


@tasks.task(takes_context=True)
def fail_at_first(context) -> int:
    """
    Fail in the first two attempts, and then return a number.
    """
    if context.attempt < 3:
        raise LookupError(context.attempt)
    return context.attempt


@tasks.task(backend="once")
def fail() -> None:
    raise KeyError("gone")


class Tasks(TransactionTestCase):
    """
    Tasks that run when a test moves the clock.
    """

    def setUp(self) -> None:
        """
        Give each test a scheduler that fires jobs when the test moves the clock.
        """
        ran.clear()
        self.clock = ManualClock()
        self.scheduler = self.enterContext(InlineScheduler(self.clock))
        self.enterContext(jobs.using(self.scheduler))

    def test_a_task_runs(self) -> None:
        """
        The result of a task has its times, arguments and value.
        """
        result = add.enqueue(1, other=3)
        assert (result.status, result.attempts, result.enqueued_at) == ("READY", 0, result.enqueued_at)
        assert ran == []
        self.clock.advance(0)
        assert ran == [(1, 3)]
        result.refresh()
        assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 4, 1)
        assert (result.args, result.kwargs, result.errors) == ([1], {"other": 3}, [])
        assert result.started_at <= result.finished_at
        assert result.task == add
        assert add.get_result(result.id).return_value == 4
        with pytest.raises(exceptions.TaskResultMismatch):
            send.get_result(result.id)

    def test_run_after(self) -> None:
        """
        A task does not run before its `run_after`.
        """
        moment = timezone.now() + timedelta(days=400)
        due = moment.timestamp() - self.clock.wall_ns() / 1e9
        result = add.using(run_after=moment).enqueue(1)
        self.clock.advance(due - 1)
        assert ran == []
        assert add.get_result(result.id).task.run_after == moment
        self.clock.advance(2)
        assert ran == [(1, 2)]

    def test_an_async_task_on_its_queue(self) -> None:
        """
        A queue of tasks is a handler of the scheduler, and a task may be async.
        """
        result = send.enqueue(["ada"])
        assert self.scheduler.list().jobs[0].handler == "django.tasks/mail"
        self.clock.advance(0)
        assert send.get_result(result.id).return_value == {"to": ["ada"]}

    def test_a_task_that_fails_is_tried_again(self) -> None:
        """
        A failed task is retried, and its result has the classes of its errors.
        """
        result = fail_at_first.enqueue()
        self.clock.advance(0)
        result.refresh()
        assert (result.status, result.attempts) == ("READY", 1)
        assert [each.exception_class for each in result.errors] == [LookupError]
        assert "raise LookupError" in result.errors[0].traceback
        self.clock.advance(3600)
        result.refresh()
        assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 3, 3)

    def test_a_task_that_fails_for_good(self) -> None:
        """
        If a task fails in all of its `attempts`, it becomes a dead letter, and the signals report the failure.
        """
        finished = mock.Mock()
        signals.task_finished.connect(finished)
        self.addCleanup(signals.task_finished.disconnect, finished)
        result = fail.enqueue()
        self.clock.advance(0)
        result.refresh()
        assert (result.status, result.attempts, result.errors[0].exception_class) == ("FAILED", 1, KeyError)
        assert result.is_finished
        assert result.finished_at is not None
        (called,) = finished.call_args_list
        assert called.kwargs["task_result"].status == "FAILED"

    def test_results_are_forgotten(self) -> None:
        """
        A result is deleted after `keep_results` (by default a day), and is then treated like an unknown result.
        """
        result = add.enqueue(1)
        self.clock.advance(0)
        self.clock.advance(86_399)
        assert add.get_result(result.id).return_value == 3
        self.clock.advance(1)
        for unknown in (result.id, "nobody", "", "x" * 2_000, f"{result.id}/result"):
            with pytest.raises(exceptions.TaskResultDoesNotExist):
                add.get_result(unknown)
        assert self.scheduler.list().jobs == ()

    def test_a_task_that_this_process_lacks(self) -> None:
        """
        If this process does not know a task, the task waits for a process that knows it, and uses no attempt.
        """
        call = {"task": f"{__name__}:gone", "args": [], "kwargs": {}, "backend": "default"}
        self.scheduler.set("django.tasks/a", handler="django.tasks/default", payload=call, delay=0)
        self.clock.advance(0)
        job = self.scheduler.get("django.tasks/a")
        assert (job.state, job.attempt) == ("pending", 0)

    def test_arguments_that_json_cannot_hold(self) -> None:
        """
        Arguments that JSON cannot represent are refused when the task is enqueued.
        """
        with pytest.raises((TypeError, ValueError)):
            add.enqueue({1, 2})
        assert self.scheduler.list().jobs == ()

    def test_signals(self) -> None:
        """
        The signals report once that a task is enqueued, once that it is started and once that it is finished.
        """
        seen = []
        listeners = {name: lambda name=name, **_: seen.append(name) for name in ("enqueued", "started", "finished")}
        for name, listener in listeners.items():
            signal = getattr(signals, f"task_{name}")
            signal.connect(listener)
            self.addCleanup(signal.disconnect, listener)
        add.enqueue(1)
        self.clock.advance(0)
        assert seen == ["enqueued", "started", "finished"]

    def test_invalid_settings(self) -> None:
        """
        An invalid setting is refused, and the error names the setting and the reason.
        """
        wrong = {
            "'QUEUES'] is empty: name each queue": {"QUEUES": []},
            "has 'atempts': known are attempts, keep_results": {"OPTIONS": {"atempts": 1}},
            "cannot be: retry.attempts is 0": {"OPTIONS": {"attempts": 0}},
            "cannot be: keep_results is 'a while'": {"OPTIONS": {"keep_results": "a while"}},
        }
        for message, params in wrong.items():
            with self.assertRaisesMessage(ImproperlyConfigured, message):
                TickwheelBackend("default", params)


class Transactions(TransactionTestCase):
    """
    Tasks whose jobs are in the database of the models.
    """

    def setUp(self) -> None:
        """
        Start each test without jobs.
        """
        jobs.scheduler.drain()

    def test_a_task_joins_the_transaction(self) -> None:
        """
        If a task is enqueued in a transaction, it runs only if the transaction commits.
        """
        with transaction.atomic():
            add.enqueue(1)
            transaction.set_rollback(True)
        assert jobs.scheduler.list().jobs == ()
        with transaction.atomic():
            result = add.enqueue(1)
        assert add.get_result(result.id).status == "READY"

    def test_async_callers(self) -> None:
        """
        `aenqueue` and `aget_result` behave like `enqueue` and `get_result`.
        """

        async def use() -> str:
            result = await add.aenqueue(1)
            return (await add.aget_result(result.id)).status

        assert asyncio.run(use()) == "READY"
