"""
From set to settled: handlers of both kinds, results, retries, dead letters, on every store and the real clock.
"""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tickwheel.observe._events import (
    JobCancelled,
    JobDied,
    JobExpired,
    JobFailed,
    JobFired,
    JobMoved,
    JobReplayed,
    JobSet,
    JobSnoozed,
    JobSucceeded,
    SettleRefused,
)
from tickwheel.scheduler import Cancel, Outcome, Retry, RetryPolicy, SchedulerOptions, SetRequest, Snooze, State
from tickwheel.scheduler.targets import Firing

AT_ONCE = RetryPolicy(attempts=3, base_ms=0, jitter=0)


def of(kind, record, key=None):
    """
    Return the recorded events of *kind*, once there is one.
    """

    def chosen(items):
        return [item for item in items if isinstance(item, kind) and (key is None or item.key == key)]

    return chosen(record.wait_for(lambda: chosen(record.items)))


@pytest.fixture
def scheduler(url, make):
    """
    Return one that is started.
    """
    return make(url).start()


def test_a_job_fires_once_and_is_gone(scheduler, record):
    """
    A handler gets the payload and the firing, not before the instant, and the job is gone afterwards.
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
    while scheduler.stats()["succeeded"] == 0:
        time.sleep(0.001)
    assert scheduler.get("k") is None


def test_already_due(scheduler, record):
    """
    A job with no delay, a negative one or a past instant fires at once.
    """
    scheduler.handler("h")(record)
    scheduler.set("a", delay=0, handler="h", payload="a")
    scheduler.set("b", delay=-5, handler="h", payload="b")
    scheduler.set("c", at=0, handler="h", payload="c")
    assert sorted(record.wait(3)) == ["a", "b", "c"]


def test_async_handlers(scheduler, record):
    """
    Async handlers run at the same time on one loop.
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
    With one worker, jobs run in the order of their instants, first set first among equals.
    """
    scheduler = make(url, options=SchedulerOptions(workers=1)).start()
    scheduler.handler("h")(record)
    at = time.time() + 0.3
    requests = [SetRequest(f"k{n}", at=at + (n // 4) / 1000, handler="h", payload=n) for n in range(40)]
    scheduler.set_many(requests)
    assert record.wait(40) == list(range(40))


def test_retries_then_success(scheduler, events):
    """
    A failing handler is called again until it succeeds, each time with a new fire id.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=AT_ONCE)
    def handler(_payload, firing):
        if firing.attempt < 3:
            raise RuntimeError(firing.attempt)

    scheduler.set("k", delay=0, handler="h")
    (success,) = of(JobSucceeded, told)
    failures = of(JobFailed, told)
    assert [(each.attempt, each.error) for each in failures] == [
        (1, "RuntimeError: 1"),
        (2, "RuntimeError: 2"),
    ]
    assert success.attempt == 3
    assert scheduler.get("k") is None
    assert {each.generation for each in (*failures, success)} == {success.generation}


def test_dead_letter_and_replay(scheduler, events):
    """
    After its last attempt a job is dead with its error; replayed, it has all its attempts again.
    """
    told = events(scheduler)
    broken = [True]

    @scheduler.handler("h", retry=AT_ONCE)
    def handler(_payload):
        if broken:
            raise ValueError("still broken")

    scheduler.set("k", delay=0, handler="h", payload=7)
    (death,) = of(JobDied, told)
    assert (death.attempt, death.error, death.next_at) == (3, "ValueError: still broken", None)
    job = scheduler.get("k")
    assert (job.state, job.attempt, job.error, job.payload) == (State.DEAD, 3, "ValueError: still broken", b"7")
    assert [each.key for each in scheduler.list(state="dead").jobs] == ["k"]
    assert scheduler.move("k", delay=1).outcome is Outcome.NOT_FOUND
    broken.clear()
    replayed = scheduler.replay("k")
    assert (replayed.outcome, replayed.job.attempt) == (Outcome.REPLAYED, 0)
    assert of(JobReplayed, told)[0].generation == replayed.job.generation
    assert of(JobSucceeded, told)[0].attempt == 1
    assert scheduler.get("k") is None


def test_a_dead_job_does_not_hold_its_key(scheduler, events):
    """
    A key whose job is dead can be set anew.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(payload):
        if payload == "bad":
            raise ValueError

    scheduler.set("k", delay=0, handler="h", payload="bad")
    of(JobDied, told)
    assert scheduler.set("k", delay=0, handler="h", payload="good").outcome is Outcome.CREATED
    of(JobSucceeded, told)
    assert scheduler.get("k") is None


def test_unknown_handler(scheduler, events):
    """
    A job whose handler is missing is parked at its first attempt, and runs when replayed with the handler there.
    """
    told = events(scheduler)
    scheduler.set("k", delay=0, handler="later")
    (death,) = of(JobDied, told)
    assert death.error == "no handler is named 'later': register it with @scheduler.handler('later')"
    assert scheduler.get("k").state is State.DEAD
    scheduler.handler("later")(lambda _: None)
    scheduler.replay("k")
    of(JobSucceeded, told)


def test_results(scheduler, events):
    """
    Cancel parks, Snooze gives the attempt back, Retry is a failure with a wait of its own.
    """
    told = events(scheduler)
    naps = []

    @scheduler.handler("cancel")
    def cancel(_payload):
        return Cancel("not wanted any more")

    @scheduler.handler("snooze")
    async def snooze(_payload, firing):
        naps.append(firing.attempt)
        return None if len(naps) > 2 else Snooze(0.01)

    @scheduler.handler("retry", retry=RetryPolicy(attempts=2, base_ms=3_600_000))
    def retry(_payload):
        return Retry(after=0.01, reason="not yet")

    for name in ("cancel", "snooze", "retry"):
        scheduler.set(name, delay=0, handler=name)
    assert of(JobDied, told, "cancel")[0].error == "not wanted any more"
    assert scheduler.get("cancel").state is State.DEAD
    of(JobSucceeded, told, "snooze")
    assert naps == [1, 1, 1]
    assert len(of(JobSnoozed, told)) == 2
    assert of(JobDied, told, "retry")[0].error == "not yet"
    assert of(JobFailed, told, "retry")[0].attempt == 1


@pytest.mark.parametrize("result", [Snooze(float("nan")), Snooze(float("inf")), Retry(after=1e300)])
def test_bad_results(scheduler, events, result):
    """
    A result that names no time is a failed attempt that says so.
    """
    told = events(scheduler)
    scheduler.handler("h", retry=RetryPolicy(attempts=1))(lambda _: result)
    scheduler.set("k", delay=0, handler="h")
    assert "the delay that the handler returned" in of(JobDied, told)[0].error


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, RecursionError]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_any_exception(scheduler, events, error, is_async):
    """
    Whatever a handler raises ends its attempt alone; the next job runs.
    """
    told = events(scheduler)

    async def bad_async(_payload):
        raise error

    def bad(_payload):
        raise error

    scheduler.handler("bad", retry=RetryPolicy(attempts=1))(bad_async if is_async else bad)
    scheduler.handler("good")(lambda _: None)
    scheduler.set("bad", delay=0, handler="bad")
    assert error.__name__ in of(JobDied, told)[0].error
    scheduler.set("good", delay=0, handler="good")
    of(JobSucceeded, told, "good")


@pytest.mark.parametrize("is_async", [False, True])
def test_timeout(scheduler, events, is_async):
    """
    A handler past its timeout has failed, and what it answers later is ignored.
    """
    told = events(scheduler)
    go_on = threading.Event()

    def slow(_payload):
        go_on.wait(10)

    async def slow_async(_payload):
        await asyncio.sleep(10)

    scheduler.handler("h", timeout=0.05, retry=RetryPolicy(attempts=1))(slow_async if is_async else slow)
    scheduler.set("k", delay=0, handler="h")
    assert "TimeoutError" in of(JobDied, told)[0].error
    go_on.set()
    scheduler.handler("next")(lambda _: None)
    scheduler.set("next", delay=0, handler="next")
    of(JobSucceeded, told, "next")
    assert scheduler.stats()["succeeded"] == 1


def test_hung_handlers_hold_no_worker(url, make, record):
    """
    With every worker held by a handler past its timeout, other jobs still run.
    """
    scheduler = make(url, options=SchedulerOptions(workers=2)).start()
    go_on = threading.Event()
    scheduler.handler("hung", timeout=0.02, retry=RetryPolicy(attempts=1))(lambda _: go_on.wait(20))
    scheduler.handler("quick")(record)
    scheduler.set_many([SetRequest(f"hung{n}", delay=0, handler="hung") for n in range(4)])
    scheduler.set("quick", delay=0.1, handler="quick", payload=1)
    assert record.wait(1) == [1]
    go_on.set()


def test_moved_away_while_near(scheduler, record, events):
    """
    A job that is staged and then moved fires at its new instant only; a cancelled one not at all.
    """
    told = events(scheduler)
    scheduler.handler("h")(record)
    for key in ("moved", "cancelled", "witness"):
        scheduler.set(key, delay=0.3, handler="h", payload=key)
    assert scheduler.move("moved", delay=0.4).outcome is Outcome.MOVED
    assert scheduler.cancel("cancelled").outcome is Outcome.CANCELLED
    assert of(JobMoved, told)[0].key == "moved"
    assert of(JobCancelled, told)[0].key == "cancelled"
    assert record.wait(2) == ["witness", "moved"]
    fired = of(JobFired, told, "moved")
    assert [each.generation for each in fired] == [of(JobMoved, told)[0].generation]


def test_too_late(scheduler, record):
    """
    A running job can be neither moved nor cancelled, and the answer says so; set anew, both lives run.
    """
    go_on = threading.Event()

    @scheduler.handler("h")
    def handler(payload):
        record(payload)
        go_on.wait(10)

    scheduler.set("k", delay=0, handler="h", payload=1)
    record.wait(1)
    assert scheduler.move("k", delay=5).outcome is Outcome.TOO_LATE
    assert scheduler.cancel("k").outcome is Outcome.TOO_LATE
    assert scheduler.run_now("k").outcome is Outcome.TOO_LATE
    assert scheduler.get("k").state is State.RUNNING
    assert scheduler.set("k", delay=0, handler="h", payload=2).outcome is Outcome.REPLACED
    go_on.set()
    assert record.wait(2) == [1, 2]


def test_set_anew_while_running(scheduler, record, events):
    """
    The end of a firing does not end the life that was set meanwhile: it is refused, and counted.
    """
    told = events(scheduler)
    go_on = threading.Event()

    @scheduler.handler("h")
    def handler(payload):
        record(payload)
        go_on.wait(10)

    scheduler.set("k", delay=0, handler="h", payload=1)
    record.wait(1)
    later = scheduler.set("k", delay=3600, handler="h", payload=2).job
    go_on.set()
    (refused,) = of(SettleRefused, told)
    assert refused.generation < later.generation
    assert scheduler.get("k") == later
    assert scheduler.stats()["refused"] == 1


def test_a_handler_sets_its_own_key(scheduler, record):
    """
    A handler may set its own key: the new life runs, the old one ends quietly.
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
    A far job can be run at once.
    """
    scheduler.handler("h")(record)
    scheduler.set("k", delay=3600, handler="h", payload=1)
    assert scheduler.run_now("k").outcome is Outcome.MOVED
    assert record.wait(1) == [1]


def test_expired(scheduler, events):
    """
    A job that expired before it could fire is left out, and said so.
    """
    told = events(scheduler)
    started, go_on = threading.Event(), threading.Event()

    @scheduler.handler("blocker")
    async def blocker(_payload):
        started.set()
        go_on.wait(10)  # holds the loop, as a careless handler does

    @scheduler.handler("h")
    async def handler(_payload):
        raise AssertionError("an expired job was fired")

    scheduler.set("blocker", delay=0, handler="blocker")
    started.wait(10)
    scheduler.set("k", delay=0, handler="h", expires=0.001)
    threading.Timer(0.05, go_on.set).start()
    (expired,) = of(JobExpired, told)
    assert (expired.key, expired.next_at) == ("k", None)
    assert scheduler.get("k") is None
    assert scheduler.stats()["expired"] == 1


def test_events_tell_the_life(scheduler, events):
    """
    The events of a job come in order and agree with each other.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    answer = scheduler.set("k", delay=0.02, handler="h")
    of(JobSucceeded, told)
    mine = [event for event in told.items if getattr(event, "key", None) == "k"]
    assert [type(event) for event in mine] == [JobSet, JobFired, JobSucceeded]
    assert {event.generation for event in mine} == {answer.job.generation}
    _, fired, done = mine
    assert (fired.due_at, fired.attempt, fired.handler, fired.target) == (answer.job.due_at, 1, "h", "handler")
    assert fired.lateness_ms >= 0
    assert done.ran_ms >= 0


def test_a_hook_that_writes(scheduler, record, caplog):
    """
    A verb called in a hook that runs where commits are made is refused, instead of waiting for itself for ever.
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


def test_a_hook_that_raises(scheduler, record):
    """
    What a hook raises does not reach the firing or the other hooks, and an ended subscription is told no more.
    """

    def broken(_event):
        raise RuntimeError

    scheduler.subscribe(broken)
    end = scheduler.subscribe(record)
    scheduler.handler("h")(lambda _: None)
    scheduler.set("k", delay=0, handler="h")
    of(JobSucceeded, record)
    end()
    count = len(record.items)
    scheduler.set("k", delay=3600, handler="h")
    assert len(record.items) == count
