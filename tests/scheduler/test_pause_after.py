"""
A job is paused after a given number of failed runs in a row.
"""

from __future__ import annotations

import json

import pytest

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.scheduler import DeadLetter, Outcome, RetryPolicy, Snooze
from tickwheel.testing import InlineScheduler, ManualClock

HOUR = 3_600


class World:
    """
    An hourly series whose handler follows a script of results.

    If the next result of the script is an error, the handler raises it. Otherwise the handler returns it.
    """

    def __init__(self, attempts=1, **fields):
        self.clock, self.ran, self.results = ManualClock(), [], []
        self.scheduler = InlineScheduler(self.clock)
        self.scheduler.handler("h", retry=RetryPolicy(attempts=attempts, base_ms=60_000, jitter=0))(self.handle)
        self.fields = {"every": HOUR, "handler": "h", "pause_after": 3} | fields
        self.scheduler.start()
        self.scheduler.set("k", **self.fields)
        self.clock.advance(1)

    def handle(self, _payload, firing):
        """
        Record the attempt, and end it with the next result of the script.
        """
        self.ran.append(firing.attempt)
        result = self.results.pop(0) if self.results else None
        if isinstance(result, Exception):
            raise result
        return result

    def hours(self, *results):
        """
        For each of *results*, let an hour pass with a run that has this result.

        Return the job afterwards.
        """
        self.results += results
        for _ in results:
            self.clock.advance(HOUR)
        return self.scheduler.get("k")

    def failures(self):
        return json.loads(self.scheduler.get("k").recurrence).get("failures", 0)


FAILURE = ValueError("no paper")


@pytest.fixture
def world_of():
    """
    Return a function that makes a world: an hourly series with a scripted handler.

    The fixture stops all worlds after the test.
    """
    made = []

    def make(**fields):
        made.append(World(**fields))
        return made[-1]

    yield make
    for each in made:
        each.scheduler.stop()


def test_paused_with_its_reason(world_of):
    """
    After three failed runs in a row the series is paused.

    The reason of the pause has the number of failures and the last error.
    """
    world = world_of()
    job = world.hours(FAILURE, FAILURE)
    assert (job.pause, world.failures()) == (None, 2)
    job = world.hours(FAILURE)
    assert job.pause.by == "pause_after"
    assert job.pause.note == "failed runs in a row: 3, the last with ValueError: no paper"
    assert [each.key for each in world.scheduler.list(paused=True).jobs] == ["k"]
    world.clock.advance(10 * HOUR)
    assert len(world.ran) == 3
    assert world.scheduler.resume("k").outcome is Outcome.RESUMED
    world.results += [FAILURE] * 9
    world.clock.advance(9 * HOUR)
    assert len(world.ran) == 6
    assert world.scheduler.get("k").pause is not None


def test_a_success_restarts_the_count(world_of):
    """
    A series is paused only after failed runs in a row, without a success between them.

    A snooze between two failures does not restart the count.
    """
    world = world_of()
    assert world.hours(FAILURE, FAILURE, None, FAILURE, FAILURE, None).pause is None
    assert world.failures() == 0
    world.hours(FAILURE, FAILURE)
    world.results += [Snooze(60), FAILURE]
    world.clock.advance(HOUR)
    assert world.failures() == 2
    world.clock.advance(61)
    assert world.scheduler.get("k").pause is not None


def test_a_run_fails_once_its_attempts_are_used(world_of):
    """
    A run is counted as failed only when its last attempt has failed.

    If a retry succeeds, the count of failed runs starts again.
    """
    world = world_of(attempts=2, pause_after=2)
    world.results += [FAILURE, FAILURE, FAILURE, None, FAILURE, FAILURE]
    for _ in range(3):
        world.clock.advance(HOUR)
        world.clock.advance(120)
    assert (world.scheduler.get("k").pause, world.failures()) == (None, 1)
    world.results += [FAILURE, FAILURE]
    world.clock.advance(HOUR)
    world.clock.advance(120)
    assert world.scheduler.get("k").pause is not None


def test_the_last_run_and_dead_letters(world_of):
    """
    A series ends with its last run.

    If that run fails, the job becomes a dead letter and is not paused.
    """
    world = world_of(pause_after=1, max_runs=1)
    world.hours(FAILURE)
    (dead,) = world.scheduler.list(state="dead").jobs
    assert (dead.pause, dead.error) == (None, "ValueError: no paper")
    world = world_of(pause_after=1)
    world.hours(DeadLetter("for good"))
    (dead,) = world.scheduler.list(state="dead").jobs
    assert dead.pause is None


def test_setting_the_job_again_keeps_the_count(world_of):
    """
    If the job is set again with the same `pause_after=`, its pause and its count of failed runs stay as they are.

    If `pause_after=` is changed, the count continues.
    """
    world = world_of()
    world.hours(FAILURE, FAILURE)
    assert world.scheduler.set("k", **world.fields).outcome is Outcome.UNCHANGED
    assert world.scheduler.set("k", **world.fields | {"pause_after": 4}).outcome is Outcome.CHANGED
    assert world.failures() == 2
    assert world.scheduler.change("k", pause_after=3).outcome is Outcome.CHANGED
    assert world.hours(FAILURE).pause is not None
    assert world.scheduler.set("k", **world.fields).outcome is Outcome.UNCHANGED
    assert world.scheduler.get("k").pause is not None
    world.scheduler.change("k", pause_after=None)
    world.scheduler.resume("k")
    assert world.hours(*[FAILURE] * 6).pause is None


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True])
def test_refused(world_of, value):
    """
    `pause_after=` is refused if it is not a number of runs, or if the job does not recur.
    """
    scheduler = world_of().scheduler
    with pytest.raises((InvalidJobError, TypeError), match="pause_after"):
        scheduler.set("bad", every=5, handler="h", pause_after=value)
    with pytest.raises(InvalidJobError, match="pause_after is 3: it is for recurring jobs"):
        scheduler.set("bad", delay=5, handler="h", pause_after=3)


def test_the_last_success(world_of):
    """
    The time of a series' last success is kept when a run fails, and when the job is set again or changed.
    """
    world = world_of(pause_after=None)
    start = world.clock.wall_ns() // 1_000_000_000

    def listed(hours):
        return [job.key for job in world.scheduler.list(not_succeeded_since=start + hours * HOUR).jobs]

    assert (listed(-1), listed(1)) == ([], ["k"])
    world.hours(None, FAILURE, FAILURE)
    assert (listed(0.5), listed(2)) == ([], ["k"])
    world.scheduler.set("k", **world.fields | {"every": 2 * HOUR})
    world.scheduler.change("k", every=HOUR)
    assert (listed(0.5), listed(2)) == ([], ["k"])
    world.hours(None, None)
    assert (listed(2), listed(9)) == ([], ["k"])
    world.scheduler.set("k", **world.fields, mode="restart")
    assert "succeeded_at" not in json.loads(world.scheduler.get("k").recurrence)
