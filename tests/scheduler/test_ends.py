"""
Results, failures, retries, dead letters and timeouts of attempts, on every store, with the real clock.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from tickwheel.observe.events import JobDied, JobFailed, JobReplayed, JobSnoozed, JobSucceeded
from tickwheel.scheduler import DeadLetter, Outcome, Retry, RetryPolicy, SchedulerOptions, SetRequest, Snooze, State

AT_ONCE = RetryPolicy(attempts=3, base_ms=0, jitter=0)


@pytest.fixture
def scheduler(url, make):
    """
    Return a started scheduler.
    """
    return make(url).start()


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
    (success,) = told.of(JobSucceeded)
    failures = told.of(JobFailed)
    assert [(each.attempt, each.error) for each in failures] == [(1, "RuntimeError: 1"), (2, "RuntimeError: 2")]
    assert success.attempt == 3
    assert scheduler.get("k") is None
    assert {each.generation for each in (*failures, success)} == {success.generation}


def test_an_error_without_a_text(scheduler, events):
    """
    If an error's text cannot be read or stored, the attempt fails like any other attempt.

    The worker continues.
    """
    told = events(scheduler)

    class MuteError(Exception):
        def __str__(self):
            raise SystemExit

    errors = [MuteError(), ValueError("\0\ud800"), KeyboardInterrupt()]

    @scheduler.handler("h", retry=RetryPolicy(attempts=4, base_ms=0, jitter=0))
    def handler(_payload, firing):
        if firing.attempt <= len(errors):
            raise errors[firing.attempt - 1]

    scheduler.set("k", delay=0, handler="h")
    assert told.of(JobSucceeded)[0].attempt == 4
    texts = ["MuteError: its str() raised SystemExit", "ValueError: \\x00\\ud800", "KeyboardInterrupt"]
    assert [each.error for each in told.of(JobFailed)] == texts


def test_dead_letter_and_replay(scheduler, events):
    """
    After its last failed attempt a job is dead, with the attempt's error.

    A replay gives the job all its attempts again.
    """
    told = events(scheduler)
    broken = [True]

    @scheduler.handler("h", retry=AT_ONCE)
    def handler(_payload):
        if broken:
            raise ValueError("still broken")

    scheduler.set("k", delay=0, handler="h", payload=7)
    (death,) = told.of(JobDied)
    assert (death.attempt, death.error, death.next_at) == (3, "ValueError: still broken", None)
    job = scheduler.get("k")
    assert (job.state, job.attempt, job.error, job.payload) == (State.DEAD, 3, "ValueError: still broken", b"7")
    assert [each.key for each in scheduler.list(state="dead").jobs] == ["k"]
    assert scheduler.move("k", delay=1).outcome is Outcome.NOT_FOUND
    broken.clear()
    replayed = scheduler.replay("k")
    assert (replayed.outcome, replayed.job.attempt) == (Outcome.REPLAYED, 0)
    assert told.of(JobReplayed)[0].generation == replayed.job.generation
    assert told.of(JobSucceeded)[0].attempt == 1
    assert scheduler.get("k") is None


def test_a_dead_job_does_not_hold_its_key(scheduler, events):
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(payload):
        if payload == "bad":
            raise ValueError

    scheduler.set("k", delay=0, handler="h", payload="bad")
    told.of(JobDied)
    assert scheduler.set("k", delay=0, handler="h", payload="good").outcome is Outcome.CREATED
    told.of(JobSucceeded)
    assert scheduler.get("k") is None


def test_unknown_handler(scheduler, events, until):
    """
    A job whose handler is missing waits without using an attempt, and runs as soon as the handler is registered.
    """
    told = events(scheduler)
    scheduler.handler("there")(lambda _: None)
    scheduler.set("k", delay=0, handler="later")
    scheduler.set("gone", delay=0, handler="later")
    scheduler.set("other", delay=0, handler="there")
    told.of(JobSucceeded, "other")
    until(lambda: sum(each["count"] for each in scheduler.stats()["waiting_for_handler"]) == 2)
    job = scheduler.get("k")
    assert (job.state, job.lacks_handler, job.attempt) == (State.PENDING, True, 0)
    assert scheduler.cancel("gone").outcome is Outcome.CANCELLED
    assert not [each for each in told.items if isinstance(each, JobFailed | JobDied)]
    scheduler.handler("later")(lambda _: None)
    assert told.of(JobSucceeded, "k")[0].attempt == 1
    assert scheduler.stats()["waiting_for_handler"] == []


def test_results(scheduler, events):
    """
    DeadLetter makes the job a dead letter.

    Snooze uses no attempt. Retry makes the attempt fail, and gives the delay of the next attempt.
    """
    told = events(scheduler)
    naps = []

    @scheduler.handler("cancel")
    def cancel(_payload):
        return DeadLetter("not wanted any more")

    @scheduler.handler("snooze")
    async def snooze(_payload, firing):
        naps.append(firing.attempt)
        return None if len(naps) > 2 else Snooze(0.01)

    @scheduler.handler("retry", retry=RetryPolicy(attempts=2, base_ms=3_600_000))
    def retry(_payload):
        return Retry(after=0.01, reason="not yet")

    for name in ("cancel", "snooze", "retry"):
        scheduler.set(name, delay=0, handler=name)
    assert told.of(JobDied, "cancel")[0].error == "not wanted any more"
    assert scheduler.get("cancel").state is State.DEAD
    told.of(JobSucceeded, "snooze")
    assert naps == [1, 1, 1]
    assert len(told.of(JobSnoozed)) == 2
    assert told.of(JobDied, "retry")[0].error == "not yet"
    assert told.of(JobFailed, "retry")[0].attempt == 1


@pytest.mark.parametrize("result", [Snooze(float("nan")), Snooze(float("inf")), Retry(after=1e300)])
def test_bad_results(scheduler, events, result):
    """
    If a result has no valid time, the attempt fails, and the error gives this reason.
    """
    told = events(scheduler)
    scheduler.handler("h", retry=RetryPolicy(attempts=1))(lambda _: result)
    scheduler.set("k", delay=0, handler="h")
    assert "the delay that the handler returned" in told.of(JobDied)[0].error


async def fails_if_it_runs(_payload):
    raise AssertionError


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("make_result", "kind"), [(fails_if_it_runs, "coroutine"), (lambda payload: (n for n in [payload]), "generator")]
)
def test_a_handler_whose_body_never_ran(scheduler, events, make_result, kind):
    """
    If a plain function returns a coroutine or a generator, the attempt fails, because its body never ran.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(payload):
        return make_result(payload)

    scheduler.set("k", delay=0, handler="h")
    (died,) = told.of(JobDied)
    assert died.error.startswith(f"the handler returned a {kind}, which nobody runs: register the `async def` itself")


def test_a_result_that_cannot_be_shown(scheduler, events):
    """
    If a result cannot be printed, the attempt fails like any other attempt.
    """
    told = events(scheduler)

    class Unshown:
        def __repr__(self):
            raise RuntimeError

    scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=0, jitter=0))(lambda _: Snooze(Unshown()))
    scheduler.set("k", delay=0, handler="h")
    assert told.of(JobFailed)[0].error == "RuntimeError"
    assert told.of(JobDied)[0].attempt == 2


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, RecursionError]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_any_exception(scheduler, events, error, is_async):
    """
    Any exception of a handler ends only the attempt in which it was raised.

    The next job runs.
    """
    told = events(scheduler)

    async def bad_async(_payload):
        raise error

    def bad(_payload):
        raise error

    scheduler.handler("bad", retry=RetryPolicy(attempts=1))(bad_async if is_async else bad)
    scheduler.handler("good")(lambda _: None)
    scheduler.set("bad", delay=0, handler="bad")
    assert error.__name__ in told.of(JobDied)[0].error
    scheduler.set("good", delay=0, handler="good")
    told.of(JobSucceeded, "good")


@pytest.mark.parametrize("is_async", [False, True])
def test_timeout(scheduler, events, is_async):
    """
    If a handler runs past its timeout, the attempt has failed, and a later result is ignored.
    """
    told = events(scheduler)
    go_on = threading.Event()

    def slow(_payload):
        go_on.wait(300)

    async def slow_async(_payload):
        await asyncio.sleep(10)

    scheduler.handler("h", timeout=timedelta(milliseconds=50), retry=RetryPolicy(attempts=1))(
        slow_async if is_async else slow
    )
    scheduler.set("k", delay=0, handler="h")
    assert "TimeoutError" in told.of(JobDied)[0].error
    go_on.set()
    scheduler.handler("next")(lambda _: None)
    scheduler.set("next", delay=0, handler="next")
    told.of(JobSucceeded, "next")
    assert scheduler.stats()["succeeded"] == 1


def test_hung_handlers_hold_no_worker(url, make, record):
    """
    Other jobs run even if handlers past their timeout hold every worker.
    """
    scheduler = make(url, options=SchedulerOptions(workers=2)).start()
    go_on = threading.Event()
    scheduler.handler("hung", timeout=0.02, retry=RetryPolicy(attempts=1))(lambda _: go_on.wait(300))
    scheduler.handler("quick")(record)
    scheduler.set_many([SetRequest(f"hung{n}", delay=0, handler="hung") for n in range(4)])
    scheduler.set("quick", delay=0.1, handler="quick", payload=1)
    assert record.wait(1) == [1]
    go_on.set()
