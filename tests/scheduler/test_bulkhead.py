"""
A hanging handler does not stop the other handlers.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.observe.events import JobDied, JobFailed, JobSucceeded
from tickwheel.scheduler import Outcome, RetryPolicy, SchedulerOptions, SetRequest

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def start(url, make):
    """
    Return a function that starts a scheduler with the given options.
    """
    return lambda **options: make(url, options=SchedulerOptions(**options)).start()


def hangs(scheduler, name, go_on, record, kind="thread", **options):
    """
    Register a handler that records its payload and then hangs until *go_on* is set.
    """

    def in_thread(payload):
        record(payload)
        go_on.wait()

    async def on_loop(payload):
        record(payload)
        while not go_on.is_set():  # noqa: ASYNC110  another thread sets it
            await asyncio.sleep(0.005)

    scheduler.handler(name, **options)(on_loop if kind == "loop" else in_thread)


def herd(scheduler, name, count):
    """
    Set *count* due jobs of the handler *name*.
    """
    scheduler.set_many([SetRequest(f"{name}/{n}", delay=0, handler=name, payload=n) for n in range(count)])


def workers():
    """
    Return the number of worker threads.
    """
    return sum(each.name.startswith("tickwheel-worker") for each in threading.enumerate())


@pytest.mark.parametrize("kind", ["thread", "loop"])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_one_hung_handler(start, record, go_on, kind, size):
    """
    However many jobs of one handler hang, other handlers keep a quarter of the workers, but at least one worker.
    """
    scheduler = start(workers=size, coroutines=size)
    began = type(record)()
    hangs(scheduler, "hung", go_on, began, kind, timeout=None)

    async def on_loop(payload):
        record(payload)

    scheduler.handler("h")(on_loop if kind == "loop" else record)
    herd(scheduler, "hung", 2 * size)
    began.wait(max(1, size * 3 // 4))
    herd(scheduler, "h", 20)
    assert sorted(record.wait(20)) == list(range(20))
    assert len(began.items) == max(1, size * 3 // 4)
    assert scheduler.stats()["waiting"] == 2 * size - len(began.items)
    go_on.set()
    assert sorted(began.wait(2 * size)) == list(range(2 * size))


@pytest.mark.parametrize("running_max", [2, 8])
def test_a_backlog_of_a_hung_handler(start, record, go_on, until, running_max):
    """
    If a hung handler has more due jobs than the scheduler may run at once, other handlers' jobs still start.
    """
    scheduler = start(workers=4, running_max=running_max)
    began = type(record)()
    hangs(scheduler, "hung", go_on, began, timeout=None)
    scheduler.handler("h")(record)
    herd(scheduler, "hung", 3 * running_max)
    began.wait(1)
    herd(scheduler, "h", 20)
    assert sorted(record.wait(20)) == list(range(20))
    until(lambda: (stats := scheduler.stats())["in_flight"] + stats["waiting"] == running_max * 3 // 4)
    go_on.set()
    assert sorted(began.wait(3 * running_max)) == list(range(3 * running_max))


def test_without_a_bulkhead(start, record, go_on):
    """
    With `concurrency=None` a handler may occupy every worker.
    """
    scheduler = start(workers=4, running_max=4)
    hangs(scheduler, "all", go_on, record, timeout=None, concurrency=None)
    herd(scheduler, "all", 4)
    assert sorted(record.wait(4)) == [0, 1, 2, 3]


def test_order_behind_a_bulkhead(start, record):
    """
    Jobs that wait for a free worker of their handler start in order.
    """
    scheduler = start(workers=2)
    scheduler.handler("h")(record)
    herd(scheduler, "h", 300)
    assert record.wait(300) == list(range(300))


def test_order_of_a_burst(start, record):
    """
    All jobs of a burst start in order, even if the scheduler reads them in several pages.
    """
    scheduler = start(workers=1)
    scheduler.handler("h", concurrency=None)(record)
    herd(scheduler, "h", 530)
    assert record.wait(530) == list(range(530))


def test_a_job_that_waits_behind_a_hung_handler(start, record, go_on, until):
    """
    A job that waits behind a hung job of its handler can be cancelled, moved and replaced.
    """
    scheduler = start(workers=2)
    hangs(scheduler, "hung", go_on, record, timeout=None)
    scheduler.handler("h")(record)
    herd(scheduler, "hung", 4)
    record.wait(1)
    until(lambda: scheduler.stats()["waiting"] == 3)
    assert [job.awaits_worker for job in scheduler.list("hung/").jobs] == [False, True, True, True]
    assert scheduler.get("hung/1").awaits_worker
    assert not scheduler.get("hung/0").awaits_worker
    assert scheduler.cancel("hung/1").outcome is Outcome.CANCELLED
    assert scheduler.move("hung/2", delay=3600).outcome is Outcome.MOVED
    assert scheduler.set("hung/3", delay=0, handler="h", payload="other").outcome is Outcome.REPLACED
    assert record.wait(2) == [0, "other"]


def test_the_default_timeout(start, record, go_on, events):
    """
    If a handler has no timeout, it gets the scheduler's timeout, which is half an hour by default.
    """
    assert SchedulerOptions().timeout_s == 1800
    scheduler = start(timeout_s=0.05, retry=ONCE)
    told = events(scheduler)
    hangs(scheduler, "thread", go_on, record)
    hangs(scheduler, "loop", go_on, record, "loop")
    for name in ("thread", "loop"):
        scheduler.set(name, delay=0, handler=name)
    told.wait_for(lambda: sum(isinstance(each, JobDied) for each in told.items) == 2)
    assert all("did not end within 0.05 s" in each.error for each in told.items if isinstance(each, JobDied))


def test_leaked_threads_are_bounded(start, record, go_on, events, until):
    """
    Handlers that hang past their timeouts hold a limited number of threads.

    Other handlers continue even at that limit.
    """
    scheduler = start(workers=4, leaked_max=8, retry=ONCE)
    told = events(scheduler)
    began = type(record)()
    hangs(scheduler, "hung", go_on, began, timeout=0.01)
    scheduler.handler("h", timeout=20)(record)
    herd(scheduler, "hung", 40)
    told.wait_for(lambda: sum(isinstance(each, JobDied) for each in told.items) == 6)
    herd(scheduler, "h", 20)
    assert sorted(record.wait(20)) == list(range(20))
    assert workers() <= 4 + 8
    leaked = {"target": "handler", "handler": "hung", "executor": "thread", "count": 6}
    assert scheduler.stats()["leaked"] == [leaked]
    assert len(began.items) == 6
    go_on.set()
    assert sorted(began.wait(40)) == list(range(40))
    until(lambda: not scheduler.stats()["leaked"])
    scheduler.stop()
    until(lambda: workers() == 0)


def test_many_handlers_that_leak(start, record, go_on, until):
    """
    Once the hanging threads have reached their limit, further jobs of hanging handlers wait.

    The other handlers continue.
    """
    scheduler = start(workers=2, leaked_max=4, retry=ONCE)
    began = type(record)()
    scheduler.handler("h", timeout=20)(record)
    for number in range(3):
        hangs(scheduler, f"hung{number}", go_on, began, timeout=0.02)
    for number in range(3):
        herd(scheduler, f"hung{number}", 10)
        began.wait(number + 1)
    until(lambda: sum(each["count"] for each in scheduler.stats()["leaked"]) >= 4)
    herd(scheduler, "h", 20)
    assert sorted(record.wait(20)) == list(range(20))
    assert workers() <= 2 + 4
    assert len(began.items) < 2 + 4


def test_a_task_that_swallows_its_cancellation(start, record, go_on, events, *, monkeypatch, until):
    """
    If an async handler continues past its timeout, its attempt has failed.

    Until its task ends, the task counts against the limit of hanging handlers.
    """
    monkeypatch.setattr("tickwheel.engine._timeouts._GRACE_S", 0.05)
    scheduler = start(coroutines=2, leaked_max=2)
    told = events(scheduler)

    @scheduler.handler("hung", timeout=0.02, retry=ONCE)
    async def hung(_payload):
        while not go_on.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue

    @scheduler.handler("h")
    async def handler(payload):
        record(payload)

    herd(scheduler, "hung", 4)
    assert "did not end within 0.02 s" in told.of(JobDied)[0].error
    herd(scheduler, "h", 10)
    assert sorted(record.wait(10)) == list(range(10))
    assert [each["executor"] for each in scheduler.stats()["leaked"]] == ["loop"]
    go_on.set()
    told.wait_for(lambda: sum(isinstance(each, JobDied | JobSucceeded) for each in told.items) == 14)
    until(lambda: not scheduler.stats()["leaked"])


def test_a_task_that_clears_up(start, record, events):
    """
    An async handler that is cancelled at its timeout may take time to end.

    Until then, the next job of the handler waits.
    """
    scheduler = start()
    told = events(scheduler)

    @scheduler.handler("h", timeout=0.02, retry=RetryPolicy(attempts=2, base_ms=1))
    async def handler(_payload):
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.1)
            record("clear")

    scheduler.set("k", delay=0, handler="h")
    told.of(JobFailed)
    assert record.items == ["clear"]
    told.of(JobDied)
    assert record.items == ["clear", "clear"]


def test_a_stop_beside_leaked_threads(start, record, go_on, events):
    """
    A stop does not wait for threads that hang past their timeouts.
    """
    scheduler = start(workers=4, retry=ONCE)
    told = events(scheduler)
    hangs(scheduler, "hung", go_on, record, timeout=0.01)
    herd(scheduler, "hung", 3)
    told.wait_for(lambda: sum(isinstance(each, JobDied) for each in told.items) == 3)
    assert scheduler.stop(timeout=None) == []


@pytest.mark.parametrize("kind", ["thread", "loop"])
@pytest.mark.parametrize("hung", [2, 3, 5])
def test_some_hung_handlers(start, record, go_on, kind, hung):
    """
    Several hanging handlers together may occupy all workers for a while, but the other handlers still run.
    """
    scheduler = start(workers=4, coroutines=4)
    began = type(record)()
    for n in range(hung):
        hangs(scheduler, f"hung {n}", go_on, began, kind, timeout=None)
        herd(scheduler, f"hung {n}", 10)
        began.wait(n + 1)

    async def on_loop(payload):
        record(payload)

    for n in range(3):
        scheduler.handler(f"h{n}")(on_loop if kind == "loop" else record)
        herd(scheduler, f"h{n}", 20)
    assert sorted(record.wait(60)) == sorted(list(range(20)) * 3)
    assert len(began.items) <= 4 + hung


@pytest.mark.parametrize("hung", [2, 5])
def test_backlogs_of_some_hung_handlers(start, record, go_on, hung):
    """
    If several hung handlers have more due jobs than the scheduler may run at once, other handlers' jobs still start.
    """
    scheduler = start(workers=4, running_max=64)
    began = type(record)()
    for n in range(hung):
        hangs(scheduler, f"hung {n}", go_on, began, timeout=None)
        herd(scheduler, f"hung {n}", 100)
        began.wait(n + 1)
    scheduler.handler("h")(record)
    herd(scheduler, "h", 20)
    assert sorted(record.wait(20)) == list(range(20))
    go_on.set()
    assert len(began.wait(100 * hung)) == 100 * hung
