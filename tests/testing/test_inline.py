"""
A scheduler that fires jobs in the thread that moves the clock.
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from datetime import UTC, datetime

import pytest

from tickwheel.errors import ClosedError
from tickwheel.observe.events import JobDied, JobExpired, JobFailed, JobFired, JobSucceeded
from tickwheel.observe.tracing import FIRING
from tickwheel.scheduler import DeadLetter, HandlerNotFoundError, Outcome, RetryPolicy, Snooze, State, UnsupportedError
from tickwheel.testing import InlineScheduler


@pytest.fixture
def seen(scheduler):
    """
    Return the list of payloads with which the handler "note" was called.
    """
    payloads = []
    scheduler.handler("note")(payloads.append)
    return payloads


def test_a_job_fires_inside_the_call_that_moves_the_clock(scheduler, manual_clock):
    """
    A job fires at its due time, in the thread that moves the clock.

    The job has ended when the call that moves the clock returns.
    """
    threads = []
    scheduler.handler("note")(lambda payload: threads.append((payload, threading.current_thread())))
    scheduler.set("a", delay=60, handler="note", payload={"order": 17})
    manual_clock.advance(59.999)
    assert threads == []
    manual_clock.advance(0.001)
    assert threads == [({"order": 17}, threading.current_thread())]
    assert scheduler.get("a") is None


def test_jobs_and_timers_fire_in_one_order(scheduler, manual_clock, wheel, seen):
    """
    One advance fires the due jobs and timers of a clock in the order of their due times.
    """
    scheduler.set("c", delay=3, handler="note", payload="c")
    scheduler.set("a", delay=1, handler="note", payload="a")
    wheel.call_later(2, seen.append, "timer")
    manual_clock.advance(3)
    assert seen == ["a", "timer", "c"]


def test_a_job_that_a_handler_sets_fires_in_its_turn(scheduler, manual_clock, seen):
    """
    If a handler sets its own key or another key, the new job is committed at once.

    The job fires in the same advance.
    """
    answers = []

    @scheduler.handler("chain")
    def chain(left: int) -> None:
        if left:
            answers.append(scheduler.set("chain", delay=10, handler="chain", payload=left - 1).outcome)
        else:
            scheduler.set("end", delay=5, handler="note", payload="end")

    scheduler.set("chain", delay=10, handler="chain", payload=2)
    manual_clock.advance(34)
    assert seen == []
    manual_clock.advance(1)
    assert seen == ["end"]
    assert answers == [Outcome.REPLACED] * 2


def test_failures_are_tried_again_by_the_policy_and_then_parked(scheduler, manual_clock):
    """
    Retries follow the retry policy by the manual clock.

    The dead letter keeps its error and can be replayed.
    """
    events, attempts = [], []
    scheduler.subscribe(events.append)

    @scheduler.handler("fail", retry=RetryPolicy(attempts=2, kind="list", waits_ms=(30_000,), jitter=0.0))
    def fail(_payload, firing) -> None:
        attempts.append((firing.attempt, manual_clock.wall_ns()))
        raise OSError("no space left")

    scheduler.set("f", delay=0, handler="fail")
    manual_clock.advance(60)
    (first, begun), (second, again) = attempts
    assert (first, second, again - begun) == (1, 2, 30_000_000_000)
    job = scheduler.get("f")
    assert (job.state, job.error) == (State.DEAD, "OSError: no space left")
    kinds = [type(event) for event in events if not hasattr(event, "outcome")]
    assert kinds[-4:] == [JobFired, JobFailed, JobFired, JobDied]
    assert scheduler.replay("f").outcome is Outcome.REPLAYED


def test_an_assertion_error_of_a_handler_reaches_the_test(scheduler, manual_clock):
    """
    An AssertionError in a handler is raised by the call that moves the time.

    It counts as a failed attempt.
    """

    @scheduler.handler("check")
    def check(payload: int) -> None:
        assert payload == 1, "the payload is wrong"

    scheduler.set("c", delay=1, handler="check", payload=2)
    with pytest.raises(AssertionError, match="the payload is wrong"):
        manual_clock.advance(1)
    assert scheduler.get("c").attempt == 1


def test_recurring_snoozed_cancelled_and_expired_jobs(scheduler, manual_clock, seen):
    """
    Recurring, snoozed, cancelled and expired jobs end as they do in production.

    The test simulates a day.
    """
    manual_clock.set_wall(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp())
    events = []
    scheduler.subscribe(events.append)
    answers = iter([Snooze(60), None])
    scheduler.handler("snoozing")(lambda _: next(answers))
    scheduler.handler("cancelling")(lambda _: DeadLetter("not wanted"))
    scheduler.set("night", cron="0 0 * * *", handler="note", payload="night")
    scheduler.set("often", every=7200, handler="note", payload="often")
    scheduler.set("s", delay=1, handler="snoozing")
    scheduler.set("x", delay=1, handler="cancelling")
    manual_clock.advance(86_400)
    assert seen.count("night") == 1
    assert seen.count("often") == 12
    assert scheduler.get("s") is None
    assert scheduler.get("x").error == "not wanted"
    scheduler.set("late", delay=10, expires=5, handler="note", payload="late")
    manual_clock.jump(60)
    assert "late" not in seen
    assert [event.key for event in events if isinstance(event, JobExpired)] == ["late"]
    assert {event.key for event in events if isinstance(event, JobSucceeded)} == {"night", "often", "s"}


@pytest.mark.parametrize("rule", [{"every": 60}, {"delay": 60}, {"every": 60, "delay": 60}])
def test_the_first_run_is_due_to_the_millisecond(scheduler, manual_clock, seen, rule):
    """
    An interval and a delay end exactly at their millisecond, and not earlier.
    """
    scheduler.handler("h")(seen.append)
    scheduler.set("k", handler="h", **rule)
    manual_clock.advance(59.999)
    assert seen == []
    manual_clock.advance(0.001)
    assert seen == [None]


def test_a_run_is_not_asked_to_stop_for_the_next(scheduler, manual_clock):
    """
    If a handler with `overlap="cancel"` moves the clock past the next run, it is not stopped.

    The next run follows when the handler has ended.
    """
    begun = []

    @scheduler.handler("slow")
    def slow(_payload, firing):
        begun.append(manual_clock.monotonic())
        if len(begun) == 1:
            manual_clock.advance(25)
            assert not firing.cancelled

    scheduler.set("k", every=10, overlap="cancel", handler="slow")
    manual_clock.advance(40)
    assert [round(each - begun[0], 2) for each in begun[1:]] == [25, 30]
    assert {run.outcome for run in scheduler.history("k")} == {"created", "succeeded"}


def test_an_async_handler_is_awaited(scheduler, manual_clock, seen):
    """
    An inline scheduler awaits an async handler.

    This works even if a loop runs in the thread that moves the clock.
    """

    @scheduler.handler("later")
    async def later(payload: str) -> None:
        await asyncio.sleep(0)
        seen.append(payload)

    scheduler.set("a", delay=1, handler="later", payload="without a loop")
    manual_clock.advance(1)

    async def inside() -> None:
        scheduler.set("b", delay=1, handler="later", payload="within a loop")
        manual_clock.advance(1)

    asyncio.run(inside())
    assert seen == ["without a loop", "within a loop"]


def test_an_async_handler_sees_the_context(scheduler, manual_clock, seen):
    """
    An async handler sees the test's context variables and its own firing.

    This holds even if the test runs a loop.
    """
    patched = ContextVar("patched", default="no")

    @scheduler.handler("look")
    async def look(_: object) -> None:
        seen.append((patched.get(), (FIRING.get() or [None])[0]))

    async def inside() -> None:
        patched.set("in a loop")
        scheduler.set("b", delay=1, handler="look")
        manual_clock.advance(1)

    patched.set("without")
    scheduler.set("a", delay=1, handler="look")
    manual_clock.advance(1)
    asyncio.run(inside())
    assert seen == [("without", "a"), ("in a loop", "b")]


def test_jobs_that_cannot_run_raise(scheduler, manual_clock):
    """
    If a job's handler is missing, or its target acknowledges jobs later, the call that moves the clock raises an error.
    """
    scheduler.set("a", delay=1, handler="missing")
    with pytest.raises(HandlerNotFoundError, match="missing"):
        manual_clock.advance(1)
    scheduler.cancel("a")
    scheduler.set("b", delay=1, target="pull", handler="queue")
    with pytest.raises(UnsupportedError, match="'b' goes to 'pull'"):
        manual_clock.advance(1)


def test_the_firing_is_not_set_after_the_handler(scheduler, manual_clock):
    """
    `FIRING` is set while a handler runs.

    After the handler has ended, `FIRING` is not set in the test.
    """
    seen = []
    scheduler.handler("note")(lambda _: seen.append(FIRING.get()))
    scheduler.set("a", delay=1, handler="note")
    manual_clock.advance(1)
    assert (seen[0][0], FIRING.get()) == ("a", None)


def test_a_handler_stops_the_scheduler(scheduler, manual_clock, seen):
    """
    If a handler stops the scheduler, the stop does not wait for the handler, which ends as usual.

    No job fires after the stop.
    """
    left = []
    scheduler.handler("stopping")(lambda _: left.append(scheduler.stop()))
    scheduler.set("a", delay=1, handler="stopping")
    scheduler.set("b", delay=60, handler="note", payload="b")
    manual_clock.advance(1)
    scheduler.stop()
    manual_clock.advance(60)
    assert (left, seen, scheduler.is_started) == ([[]], [], False)
    assert scheduler.recent()[0].outcome == "succeeded"


def test_a_paused_job_counts_elapsed_time_once_it_is_resumed(scheduler, manual_clock, seen):
    """
    If the clock is set while a job or its handler is paused, the job's due time is corrected at the resume.
    """
    for key in ("job", "scope"):
        scheduler.set(key, delay=1800, handler="note", payload=key)
    scheduler.pause("job")
    scheduler.pause_scope("handler:note")
    manual_clock.step_wall(-3600)
    manual_clock.advance(1799)
    scheduler.resume("job")
    scheduler.resume_scope("handler:note")
    assert seen == []
    manual_clock.advance(1)
    assert sorted(seen) == ["job", "scope"]


def test_start_and_stop(manual_clock):
    """
    A second start has no effect.

    Before the start and after the stop, no job fires when the clock moves.
    """
    seen = []
    scheduler = InlineScheduler(manual_clock)
    scheduler.handler("note")(seen.append)
    scheduler.set("a", delay=1, handler="note", payload=1)
    manual_clock.advance(2)
    assert (scheduler.is_started, seen) == (False, [])
    assert scheduler.start() is scheduler.start()
    assert scheduler.is_started
    manual_clock.advance(0)
    assert seen == [1]
    scheduler.set("b", delay=1, handler="note", payload=2)
    scheduler.stop()
    scheduler.stop()
    manual_clock.advance(10)
    assert (scheduler.is_started, seen) == (False, [1])
    with pytest.raises(ClosedError):
        scheduler.start()


def same_key(scheduler, _count):
    """
    Set a job with the same key at each call.
    """
    scheduler.set("k", delay=0, handler="again")


def new_keys(scheduler, count):
    """
    Set a job with a new key at each call.
    """
    scheduler.set(f"k{count}", delay=0, handler="again")


def past_instants(scheduler, count):
    """
    Set a job with a new key at each call. The job was due long ago.
    """
    scheduler.set(f"k{count}", at=1_000_000_000, handler="again")


def two_at_once(scheduler, count):
    """
    Set one or two jobs at each call. The calls use seven keys in turn.
    """
    for number in range(2 - count % 2):
        scheduler.set(f"k{(count + number) % 7}", delay=0, handler="again")


@pytest.mark.parametrize("goes_on", [same_key, new_keys, past_instants, two_at_once])
@pytest.mark.parametrize("move", ["advance", "jump", "jump_to_next"])
def test_a_chain_of_jobs_without_end_is_found_out(scheduler, manual_clock, monkeypatch, goes_on, move):
    """
    If jobs endlessly set further jobs without a delay, the call that moves the time raises a RuntimeError.

    The same happens with timers.
    """
    monkeypatch.setattr("tickwheel.testing.manual_clock.TURNS_MAX", 50)
    fired = []

    @scheduler.handler("again")
    def again(_payload):
        fired.append(1)
        assert len(fired) < 2_000
        return goes_on(scheduler, len(fired))

    scheduler.set("k", delay=0, handler="again")
    with pytest.raises(RuntimeError, match="sets itself again"):
        getattr(manual_clock, move)(*([] if move == "jump_to_next" else [1.0]))


def test_a_turn_fires_each_job_that_was_due(scheduler, manual_clock, monkeypatch, seen):
    """
    If more jobs than `TURNS_MAX` are due at one instant, all fire, and no endless loop is reported.
    """
    monkeypatch.setattr("tickwheel.testing.manual_clock.TURNS_MAX", 50)
    for number in range(200):
        scheduler.set(f"k{number}", delay=1, handler="note", payload=number)
    manual_clock.advance(1.0)
    assert sorted(seen) == list(range(200))
