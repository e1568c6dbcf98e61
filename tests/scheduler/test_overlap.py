"""
The overlap policies, which apply if a run is still running when the next run becomes due.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from tickwheel.observe.events import JobDied, JobFailed, JobFired, JobSucceeded
from tickwheel.scheduler import InvalidJobError, JobStoppedError, LeaseEndedError, RetryPolicy
from tickwheel.testing import ManualClock

NOON = 1_700_000_000


@pytest.fixture
def clock():
    """
    Return a clock with a known time of day.
    """
    return ManualClock(wall=NOON)


@pytest.fixture
def scheduler(url, make, clock):
    """
    Return a started scheduler.
    """
    return make(url, clock=clock).start()


def fired(told, count):
    """
    Return the due times of the first *count* runs, in seconds since the job was set.
    """
    told.wait_for(lambda: sum(isinstance(each, JobFired) for each in told.items) >= count)
    return [each.due_at / 1000 - NOON for each in told.items if isinstance(each, JobFired)][:count]


@pytest.mark.parametrize(
    ("overlap", "misfire", "expected"),
    [
        (None, "once", [60, 300]),
        (None, "all", [60, 120, 180, 240, 300]),
        ("skip", "once", [60, 300]),
        ("skip", "all", [60, 300]),
        ("once", "once", [60, 250, 300]),
        ("once", "skip", [60, 250, 300]),
        ("once", "all", [60, 250, 300]),
        ("all", "once", [60, 250, 250, 250, 300]),
        ("all", "skip", [60, 250, 250, 250, 300]),
    ],
)
def test_after_a_long_run(scheduler, clock, events, overlap, misfire, expected):  # noqa: PLR0917  fixtures
    """
    If a run lasts past three due times, the overlap policy decides whether none, one or all of them get a run.

    The misfire policy does not matter.
    """
    told = events(scheduler)

    @scheduler.handler("h")
    def handler(_payload):
        if len(told.of(JobFired)) == 1:
            clock.advance(190)

    scheduler.set(
        "k", every=60, overlap=overlap, misfire=misfire, misfire_grace=1 if misfire == "skip" else None, handler="h"
    )
    clock.advance(60.001)
    ended = told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) >= len(expected) - 1)
    assert sum(isinstance(each, JobFired) for each in ended) == len(expected) - 1
    clock.advance(50)
    assert [round(each) for each in fired(told, len(expected))] == expected


def test_retries_belong_to_their_run(scheduler, clock, events):
    """
    If due times pass while a run waits for its retry, they are treated as overlap with this run.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, kind="list", waits_ms=(150_000,), jitter=0))
    def handler(_payload):
        if len(told.of(JobFired)) == 1:
            raise ValueError("no")

    scheduler.set("k", every=60, overlap="once", handler="h")
    clock.advance(60.001)
    told.wait_for(lambda: told.of(JobFailed))
    clock.advance(150)
    assert [round(each) for each in fired(told, 3)] == [60, 210, 210]
    clock.advance(30)
    assert round(fired(told, 4)[-1]) == 240


@pytest.mark.parametrize("overlap", ["once", "all"])
@pytest.mark.parametrize("verb", ["move", "skip", "run_now"])
def test_a_waiting_retry_that_is_moved(scheduler, clock, events, until, overlap, verb):  # noqa: PLR0917  fixtures
    """
    If a retry is moved or skipped, the series omits the due times before the retry's new time.

    If the retry is started by `run_now`, no due time is omitted.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, kind="list", waits_ms=(200_000,), jitter=0))
    def handler(_payload):
        if len(told.of(JobFired)) == 1:
            raise ValueError("no")

    scheduler.set("k", every=60, overlap=overlap, handler="h")
    clock.advance(60.001)
    fired(told, 1)
    until(lambda: scheduler.get("k").state == "pending")  # the retry at 260 is for the run due at 60
    if verb == "move":
        scheduler.move("k", delay=190)
    elif verb == "skip":
        assert scheduler.skip("k").outcome == "moved"
    else:
        clock.advance(65)
        assert scheduler.run_now("k").outcome == "moved"
    clock.advance(0 if verb == "run_now" else 191 if verb == "move" else 240)
    expected = {"move": [60, 250, 300], "skip": [60, 300, 360], "run_now": [60, 125, 125, 180]}[verb]
    fired(told, len(expected) - 1)
    clock.advance(60)
    assert [round(each) for each in fired(told, len(expected))] == expected


def test_cancel_stops_a_thread(scheduler, clock, events):
    """
    As soon as the next run is due, a handler on a thread is asked to stop.

    The stopped run is recorded as failed, and the next run starts.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=5))
    def handler(_payload, firing):
        if len(told.of(JobFired)) == 1:
            clock.advance(60)
            while True:
                firing.heartbeat()
                time.sleep(0.001)

    scheduler.set("k", every=60, overlap="cancel", handler="h")
    clock.advance(60.001)
    assert [round(each) for each in fired(told, 2)] == [60, 120]
    (died,) = told.of(JobDied)
    assert died.error == "its next run was due"
    told.of(JobSucceeded)
    assert [each.outcome for each in scheduler.history("k") if each.error] == ["died"]
    assert (scheduler.stats()["stopped"], scheduler.stats()["retried"]) == (0, 0)


def test_cancel_stops_a_task(scheduler, clock, events):
    """
    As soon as the next run is due, an async handler is cancelled at its `await`.
    """
    told = events(scheduler)

    @scheduler.handler("h")
    async def handler(_payload):
        if len(told.of(JobFired)) == 1:
            await asyncio.Event().wait()

    scheduler.set("k", every=60, overlap="cancel", handler="h")
    clock.advance(60.001)
    fired(told, 1)
    clock.advance(60)
    assert [round(each) for each in fired(told, 2)] == [60, 120]


def test_cancel_takes_a_firing_from_a_pull_worker(scheduler, clock, events):
    """
    As soon as the next run is due, a pull worker loses the old firing and gets the new one.
    """
    told = events(scheduler)
    scheduler.set("k", every=60, overlap="cancel", target="pull", handler="q")
    clock.advance(60.001)
    (first,) = scheduler.lease("q", wait=30, seconds=300)
    clock.advance(60)
    assert told.of(JobDied)[0].error == "its next run was due"
    with pytest.raises(LeaseEndedError):
        scheduler.ack(first.fire_id)
    (second,) = scheduler.lease("q", wait=30)
    scheduler.ack(second.fire_id)
    assert [round(each) for each in fired(told, 2)] == [60, 120]


@pytest.mark.parametrize(("misfire", "expected"), [("once", [60, 240]), ("all", [60, 120, 180, 240])])
def test_missed_due_times_stop_no_run(make, url, clock, events, until, engines, misfire, expected):  # noqa: PLR0917  fixtures
    """
    A late run is not stopped because of due times that passed before it started.

    It is stopped only at a due time after its start.
    """
    ended = []

    def handler(_payload, firing):
        is_past = threading.Event()
        engines[-1]._dispatcher._canceller._timers.call_later(0, is_past.set)
        until(is_past.is_set)  # by then a due time that would stop the run has passed, too
        ended.append(firing.cancelled)

    scheduler = make(url, clock=clock)
    scheduler.handler("h")(handler)
    scheduler.set("k", every=60, overlap="cancel", misfire=misfire, handler="h")
    clock.advance(200.001)
    told = events(scheduler)
    scheduler.start()
    told.wait_for(lambda: len(ended) == len(expected) - 1)
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == len(ended))
    clock.advance(40)
    assert [round(each) for each in fired(told, len(expected))] == expected
    assert not any(ended)


def test_a_cancelled_job_is_gone(scheduler, clock, events, until):
    """
    If a job is cancelled while its run is being stopped, the whole series is cancelled.
    """
    told = events(scheduler)

    @scheduler.handler("h")
    def handler(_payload, firing):
        clock.advance(60)
        until(lambda: firing.cancelled)
        assert scheduler.cancel("k", running=True).outcome == "cancelled"
        raise JobStoppedError(firing.fire_id)

    scheduler.set("k", every=60, overlap="cancel", handler="h")
    clock.advance(60.001)
    fired(told, 1)
    until(lambda: scheduler.get("k") is None)
    clock.advance(120)
    assert len(told.of(JobFired)) == 1


def test_bad_input(scheduler):
    """
    An unknown policy is refused, and the error names the remedy.

    A policy for a one-time job is refused, too.
    """
    with pytest.raises(InvalidJobError, match="overlap is 'never': pass one of skip, once, all, cancel"):
        scheduler.set("k", every=60, overlap="never", target="log")
    with pytest.raises(InvalidJobError, match="overlap is 'skip': it is for recurring jobs"):
        scheduler.set("k", delay=60, overlap="skip", target="log")
    text = scheduler.set("k", every=60, target="log").job.recurrence
    assert "overlap" not in json.loads(text)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_run_that_has_ended_leaves_no_timer(engines, scheduler, clock, events, until, *, is_async):
    """
    A run that ends, even by its timeout, removes its timer for the next due time.
    """
    told, go_on = events(scheduler), threading.Event()

    async def wait(_payload):
        await asyncio.Event().wait()

    scheduler.handler("h", timeout=5, retry=RetryPolicy(attempts=1))(wait if is_async else lambda _: go_on.wait(60))
    canceller = engines[-1]._dispatcher._canceller
    scheduler.set("k", every=60, overlap="cancel", handler="h")
    clock.advance(60.001)
    fired(told, 1)
    until(lambda: canceller._watched)
    clock.advance(5)
    assert told.of(JobDied)[0].error == "TimeoutError: it did not end within 5 s"
    until(lambda: not canceller._watched)
    go_on.set()
