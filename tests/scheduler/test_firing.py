"""
The life of a job from the call that sets it to its end: sync and async handlers, results, retries and dead letters.

The tests run on every store with the real clock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from unittest import mock

import pytest

from tickwheel.engine._staged_job import Phase
from tickwheel.observe.events import JobCancelled, JobExpired, JobFired, JobMoved, JobSet, JobSucceeded, SettleRefused
from tickwheel.scheduler import Outcome, RetryPolicy, SchedulerOptions, SetRequest, State
from tickwheel.targets import Firing

AT_ONCE = RetryPolicy(attempts=3, base_ms=0, jitter=0)


@pytest.fixture
def scheduler(url, make):
    """
    Return a started scheduler.
    """
    return make(url).start()


def test_a_job_fires_once_and_is_gone(scheduler, record, until):
    """
    A handler is called once, at the due time or later, with the payload and the firing.

    Afterwards the job no longer exists.
    """

    @scheduler.handler("h")
    def handler(payload, firing):
        record((payload, firing, time.time()))

    due_at = scheduler.set("k", delay=0.05, handler="h", payload={"a": 1}).job.due_at
    ((payload, firing, called_at),) = record.wait(1)
    assert payload == {"a": 1}
    assert isinstance(firing, Firing)
    assert (firing.job.key, firing.attempt, firing.is_last_attempt) == ("k", 1, False)
    assert firing.fire_id == f"k/{firing.job.generation}/1"
    assert called_at * 1000 >= due_at
    assert firing.fired_at >= due_at
    assert firing.lateness_ms >= 0
    until(lambda: scheduler.stats()["succeeded"])
    assert scheduler.get("k") is None


def test_already_due(scheduler, record):
    """
    A job without a delay, with a negative delay, or with an instant in the past fires at once.
    """
    scheduler.handler("h")(record)
    scheduler.set("a", delay=0, handler="h", payload="a")
    scheduler.set("b", delay=-5, handler="h", payload="b")
    scheduler.set("c", at="1970-01-01T00:00Z", handler="h", payload="c")
    assert sorted(record.wait(3)) == ["a", "b", "c"]


def test_async_handlers(scheduler, record):
    """
    Async handlers run concurrently on one loop.
    """

    @scheduler.handler("h")
    async def handler(payload):
        await asyncio.sleep(0)
        record((payload, threading.get_ident()))

    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="h", payload=n) for n in range(50)])
    found = record.wait(50)
    assert sorted(payload for payload, _ in found) == list(range(50))
    assert len({thread for _, thread in found}) == 1


def test_order(url, make, record):
    """
    With one worker, jobs run in order of due time.

    Jobs with the same due time run in the order in which they were set.
    """
    scheduler = make(url, options=SchedulerOptions(workers=1)).start()
    scheduler.handler("h")(record)
    at = time.time() + 0.3
    requests = [SetRequest(f"k{n}", at=at + (n // 4) / 1000, handler="h", payload=n) for n in range(40)]
    scheduler.set_many(requests)
    assert record.wait(40) == list(range(40))


def test_a_late_job_is_not_overtaken(make, record, until, engines):
    """
    If the timer of a due job is held up, the job still starts before jobs that are set later without a delay.
    """
    scheduler = make("memory://", options=SchedulerOptions(workers=1)).start()
    scheduler.handler("h")(record)
    (owner,), go_on = engines, threading.Event()
    due_at = scheduler.set("early", delay=0.2, handler="h", payload="early").job.due_at
    until(lambda: owner.staged.take(Phase.BEGUN))
    owner._resources.timers.call_later(0, go_on.wait, 60.0)
    try:
        until(lambda: time.time() * 1000 > due_at + 1)
        scheduler.set("late", delay=0, handler="h", payload="late")
        assert record.wait(2) == ["early", "late"]
    finally:
        go_on.set()


def test_due_jobs_beside_a_fault(make, record, until, engines):
    """
    If the dispatch of a job fails, other due jobs still start, even if no new job is set.
    """
    scheduler = make("memory://").start()
    scheduler.handler("h")(record)
    (owner,) = engines
    dispatch, is_first = owner.dispatch, iter([True])

    def fail_once(entries):
        if next(is_first, False):
            scheduler.set("k", delay=0, handler="h", payload="k")
            until(lambda: owner._claims._armed)
            raise LookupError
        dispatch(entries)

    with mock.patch.object(owner, "dispatch", fail_once):
        scheduler.set("failed", delay=0.2, handler="h")
        assert record.wait(1) == ["k"]


def test_moved_or_cancelled_while_staged(scheduler, record, events):
    """
    A job that is moved while it is staged fires only at its new time.

    A job that is cancelled while it is staged does not fire.
    """
    told = events(scheduler)
    scheduler.handler("h")(record)
    for lead in (0.3, 3.0, 30.0):  # the waits get longer, in case the machine stalled
        at = time.time() + lead
        for key in ("moved", "cancelled", "witness"):
            scheduler.set(key, at=at, handler="h", payload=(key, lead))
        moved = scheduler.move("moved", at=at + 0.1)
        cancelled = scheduler.cancel("cancelled")
        if time.time() < at:
            break
    assert (moved.outcome, cancelled.outcome) == (Outcome.MOVED, Outcome.CANCELLED)
    assert (told.of(JobMoved)[-1].key, told.of(JobCancelled)[-1].key) == ("moved", "cancelled")
    found = record.wait_for(lambda: ["moved", lead] in record.items)
    assert [each for each in found if lead in each] == [["witness", lead], ["moved", lead]]
    fired = told.of(JobFired, "moved")
    assert fired[-1].generation == told.of(JobMoved)[-1].generation == moved.job.generation


def test_too_late(scheduler, record):
    """
    A running job can be neither moved nor cancelled, and the answer says so.

    If a running job is set again, both generations run.
    """
    go_on = threading.Event()

    @scheduler.handler("h")
    def handler(payload):
        record(payload)
        go_on.wait(60)

    scheduler.set("k", delay=0, handler="h", payload=1)
    record.wait(1)
    assert scheduler.move("k", delay=5).outcome is Outcome.TOO_LATE
    assert scheduler.cancel("k").outcome is Outcome.TOO_LATE
    assert scheduler.run_now("k").outcome is Outcome.TOO_LATE
    assert scheduler.get("k").state is State.RUNNING
    assert scheduler.set("k", delay=0, handler="h", payload=2).outcome is Outcome.REPLACED
    go_on.set()
    assert record.wait(2) == [1, 2]


def test_set_again_while_running(scheduler, record, events):
    """
    If a job is set again while it runs, the acknowledgement of the old run does not end the new generation.

    The store refuses this acknowledgement, and counts the refusal.
    """
    told = events(scheduler)
    go_on = threading.Event()

    @scheduler.handler("h")
    def handler(payload):
        record(payload)
        go_on.wait(60)

    scheduler.set("k", delay=0, handler="h", payload=1)
    record.wait(1)
    later = scheduler.set("k", delay=3600, handler="h", payload=2).job
    go_on.set()
    (refused,) = told.of(SettleRefused)
    assert refused.generation < later.generation
    assert scheduler.get("k") == later
    assert scheduler.stats()["refused"] == 1


def test_a_handler_sets_its_own_key(scheduler, record):
    """
    A handler may set the key of its own job.

    The new generation runs, and the old one ends without an error.
    """

    @scheduler.handler("h")
    def handler(payload):
        record(payload)
        if payload < 3:
            scheduler.set("k", delay=0, handler="h", payload=payload + 1)

    scheduler.set("k", delay=0, handler="h", payload=1)
    assert record.wait(3) == [1, 2, 3]


def test_run_now(scheduler, record):
    """
    `run_now` makes a future job run at once.
    """
    scheduler.handler("h")(record)
    scheduler.set("k", delay=3600, handler="h", payload=1)
    assert scheduler.run_now("k").outcome is Outcome.MOVED
    assert record.wait(1) == [1]


def test_expired(scheduler, events):
    """
    A job that expires before it can fire is omitted.

    An event reports this.
    """
    told = events(scheduler)
    started, go_on = threading.Event(), threading.Event()

    @scheduler.handler("blocker")
    async def blocker(_payload):
        started.set()
        go_on.wait(60)  # blocks the loop, like a badly written handler

    @scheduler.handler("h")
    async def handler(_payload):
        raise AssertionError("an expired job was fired")

    scheduler.set("blocker", delay=0, handler="blocker")
    started.wait(60)
    scheduler.set("k", delay=0, handler="h", expires=0.001)
    threading.Timer(0.05, go_on.set).start()
    (expired,) = told.of(JobExpired)
    assert (expired.key, expired.next_at) == ("k", None)
    assert scheduler.get("k") is None
    assert scheduler.stats()["expired"] == 1


def test_events_of_a_job(scheduler, events):
    """
    The events of a job arrive in order, and their fields are consistent.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    answer = scheduler.set("k", delay=0.02, handler="h")
    told.of(JobSucceeded)
    mine = [event for event in told.items if getattr(event, "key", None) == "k"]
    assert [type(event) for event in mine] == [JobSet, JobFired, JobSucceeded]
    assert {event.generation for event in mine} == {answer.job.generation}
    _, fired, done = mine
    assert (fired.due_at, fired.attempt, fired.handler, fired.target) == (answer.job.due_at, 1, "h", "handler")
    assert fired.lateness_ms >= 0
    assert done.ran_ms >= 0


def test_a_hook_that_writes(scheduler, record, caplog):
    """
    A hook that runs in the committing thread may not call a verb.

    Otherwise the verb would wait for the thread in which it runs.
    """

    def hook(event):
        if isinstance(event, JobSucceeded):
            try:
                scheduler.set("other", delay=0, handler="h")
            finally:
                record(event)

    scheduler.subscribe(hook)
    scheduler.handler("h")(lambda _: None)
    scheduler.set("k", delay=0, handler="h")
    record.wait(1)
    scheduler.stop()
    assert "set in a hook was called from inside itself" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_a_hook_that_raises(scheduler, record, error):
    """
    An exception in a hook affects neither the firing nor other hooks.

    A closed subscription gets no more events.
    """

    def broken(_event):
        raise error

    scheduler.subscribe(broken)
    end = scheduler.subscribe(record)
    scheduler.handler("h")(lambda _: None)
    scheduler.set("k", delay=0, handler="h")
    record.of(JobSucceeded)
    end()
    count = len(record.items)
    scheduler.set("k", delay=3600, handler="h")
    assert len(record.items) == count


def test_ctrl_c_in_a_hook(make):
    """
    Ctrl-C during a hook in the main thread does not count as an exception of the hook.
    """

    def interrupted(_event):
        raise KeyboardInterrupt

    scheduler = make("memory://")
    scheduler.subscribe(interrupted)
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
