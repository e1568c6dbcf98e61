"""
Inline and threaded schedulers behave in the same way.

Each test runs on both.
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tickwheel.observe.events import JobStopped
from tickwheel.scheduler import DeadLetter, JobStoppedError, Outcome, Progress, RetryPolicy, Scheduler, Snooze
from tickwheel.testing import InlineScheduler, ManualClock


@pytest.fixture
def clock():
    """
    Return the clock of the schedulers.
    """
    return ManualClock()


@pytest.fixture(params=[partial(Scheduler, "memory://"), InlineScheduler], ids=["threads", "inline"])
def scheduler(request, make, clock):
    """
    Return a started scheduler, for each kind of scheduler.
    """
    return make(kind=request.param, clock=clock).start()


@pytest.fixture
def fire(scheduler, clock, until):
    """
    Return a function that sets the job "k" and lets its first attempt run.

    The function returns after the attempt has ended.
    """

    def run(**fields):
        ended = scheduler.recent()[-1].number if scheduler.recent() else 0
        scheduler.set("k", **fields)
        clock.advance(fields.get("every", 0) + 0.01)
        until(lambda: [each for each in scheduler.recent(ended) if each.outcome != "running"])

    return run


@pytest.mark.parametrize("when", [{"delay": 0}, {"every": 60}], ids=["once", "recurring"])
def test_a_handler_that_is_cancelled_while_it_runs(scheduler, fire, events, when):
    """
    A handler can read that it was cancelled, and its next heartbeat raises.

    The attempt is recorded as stopped.
    """
    seen, told = [], events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=5))
    def handler(_payload, firing):
        seen.extend((firing.cancelled, scheduler.cancel("k", running=True).outcome, firing.cancelled))
        try:
            firing.heartbeat()
        except JobStoppedError:
            seen.append("raised")
            raise

    fire(handler="h", **when)
    assert seen == [False, Outcome.STOPPING, True, "raised"]
    assert scheduler.get("k") is None
    assert scheduler.history("k")[0].outcome == "stopped"
    assert told.of(JobStopped, "k")
    stats = scheduler.stats()
    assert [stats[name] for name in ("fired", "stopped", "succeeded", "failed", "pending")] == [1, 1, 0, 0, 0]


def test_a_handler_that_ends_in_spite_of_a_cancel(scheduler, fire):
    """
    A handler that returns in spite of a cancel has succeeded, even if it returns a Retry.
    """
    results = iter([None, Snooze(1)])

    @scheduler.handler("h")
    def handler(_payload, _firing):
        scheduler.cancel("k", running=True)
        return next(results)

    for _ in range(2):
        fire(handler="h", delay=0)
    outcomes = [record.outcome for record in scheduler.history("k")]
    assert [outcome for outcome in outcomes if outcome in ("succeeded", "stopped", "snoozed")] == ["stopped"]
    assert [record.outcome for record in scheduler.recent()] == ["succeeded", "stopped"]


def test_an_async_handler_that_is_cancelled(scheduler, fire):
    """
    An async handler is cancelled at its next `await`.
    """
    seen = []

    @scheduler.handler("h", retry=RetryPolicy(attempts=5))
    async def handler(_payload):
        seen.append(scheduler.cancel("k", running=True).outcome)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    fire(handler="h", delay=0)
    assert seen == [Outcome.STOPPING, "cancelled"]
    assert scheduler.history("k")[0].outcome == "stopped"
    assert scheduler.get("k") is None


def test_progress(scheduler, fire):
    """
    The note of a running handler can be read.

    The last note is recorded with the attempt.
    """
    seen = []

    @scheduler.handler("h")
    def handler(_payload, firing):
        assert firing.progress(0.4, "page 12")
        seen.append(scheduler.progress("k"))
        seen.extend((record.outcome, record.progress) for record in scheduler.recent())
        stats = scheduler.stats()
        seen.extend(stats[name] for name in ("fired", "in_flight", "running"))

    fire(handler="h", delay=0)
    assert seen == [Progress(0.4, "page 12"), ("running", Progress(0.4, "page 12")), 1, 1, 1]
    assert scheduler.progress("k") is None
    assert scheduler.history("k")[0].note == "page 12"


def test_the_counts_of_outcomes(scheduler, clock, fire, until):
    """
    The outcomes of attempts are counted by kind, in total and by handler.
    """
    results = iter([None, Snooze(3600), DeadLetter(), ValueError()])

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=3_600_000))
    def handler(_payload):
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    for _ in range(4):
        fire(handler="h", delay=0)
    scheduler.set("late", delay=10, expires=5, handler="h")
    clock.jump(60)
    until(lambda: scheduler.stats()["expired"])
    stats = scheduler.stats()
    ends = {"succeeded": 1, "snoozed": 1, "dead_total": 1, "retried": 1, "expired": 1, "stopped": 0}
    assert {name: stats[name] for name in ends} == ends
    assert (stats["fired"], stats["failed"], stats["lateness"]["count"]) == (4, 2, 4)
    [counts] = stats["by_handler"]
    assert {name: counts[name] for name in ends} == ends
