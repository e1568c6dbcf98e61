"""
If the time of day is set, delays still count elapsed time.

Jobs with a wall-clock time follow the new time.
"""

from __future__ import annotations

import json
import threading

import pytest

from tickwheel.scheduler import Retry, SchedulerOptions, SetRequest
from tickwheel.testing import InlineScheduler, ManualClock

WALL = 1_700_000_000.0
HOUR = 3600.0
STEPS = (-HOUR, HOUR, -86_400.0, 86_400.0)


@pytest.fixture
def clock():
    """
    Return a clock with a known time of day.
    """
    return ManualClock(wall=WALL)


@pytest.fixture(params=["memory", "sqlite", "inline"])
def scheduler(request, file_url, make, clock, record):
    """
    Return a scheduler whose handler appends to `record`, for each kind of store and for an inline scheduler.
    """
    if request.param == "inline":
        scheduler = make(kind=InlineScheduler, clock=clock).start()
    else:
        scheduler = make("memory://" if request.param == "memory" else file_url, clock=clock).start()
    scheduler.handler("h")(record)
    return scheduler


def due_in(scheduler, clock, key):
    """
    Return the seconds by the wall clock until the job *key* is due.
    """
    job = scheduler.get(key)
    return None if job is None else job.due_at / 1e3 - clock.wall_ns() / 1e9


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("delay", [5.0, 3 * HOUR], ids=["near", "far"])
def test_a_delay_counts_elapsed_time(scheduler, clock, record, until, *, step, delay):
    """
    However the clock is set, a job with a delay fires exactly after that delay.

    The due time that is shown follows the new time of day.
    """
    scheduler.set("k", delay=delay, handler="h", payload=1)
    clock.step_wall(step)
    until(lambda: abs(due_in(scheduler, clock, "k") - delay) < 0.01)
    clock.advance(delay - 0.01)
    assert record.items == []
    clock.advance(0.02)
    assert record.wait(1) == [1]


@pytest.mark.parametrize("step", STEPS)
def test_lateness_counts_elapsed_time(make, file_url, clock, record, until, step):  # noqa: PLR0917  fixtures
    """
    If the clock is set while a job waits for a worker, the job's lateness is still the elapsed time of its wait.
    """
    scheduler = make(file_url, clock=clock, options=SchedulerOptions(workers=1)).start()
    go_on = threading.Event()
    scheduler.handler("slow")(lambda _: go_on.wait(60))

    @scheduler.handler("h")
    def handler(_payload, firing):
        record(firing.lateness_ms)

    scheduler.set("first", delay=1, handler="slow")
    clock.advance(1.01)
    until(lambda: scheduler.stats()["in_flight"] == 1)
    scheduler.set("second", delay=1, handler="h")
    clock.advance(1.01)
    until(lambda: scheduler.stats()["waiting"] == 1)
    clock.step_wall(step)
    clock.advance(2)
    go_on.set()
    (late,) = record.wait(1)
    assert 2_000 <= late < 2_020


@pytest.mark.parametrize("step", STEPS)
def test_a_wrong_time_that_is_corrected(scheduler, clock, record, step, until):
    """
    If the clock is set to a wrong time and later corrected, each job has its original due time again.

    This holds even if the scheduler noticed the first step.
    """
    scheduler.set_many([SetRequest(key, delay=HOUR, handler="h", payload=1) for key in ("seen", "unseen")])
    clock.step_wall(step)
    until(lambda: abs(due_in(scheduler, clock, "seen") - HOUR) < 0.01)
    clock.step_wall(-step)
    until(lambda: abs(due_in(scheduler, clock, "seen") - HOUR) < 0.01)
    clock.step_wall(step)
    clock.step_wall(-step)
    clock.advance(HOUR + 0.01)
    assert record.wait(2) == [1, 1]


@pytest.mark.parametrize("step", STEPS)
def test_an_interval_keeps_its_phase(scheduler, clock, record, step, until):
    """
    The runs of a job with `every=` are whole intervals after its first run, before and after the clock is set.
    """
    scheduler.set("k", every=7.0, handler="h", payload=1)
    clock.advance(7.01)
    record.wait(1)
    clock.advance(2.0)
    clock.step_wall(step)
    until(lambda: abs(due_in(scheduler, clock, "k") - 4.99) < 0.01)
    for run in (2, 3):
        clock.advance(5.0 if run == 2 else 7.0)
        record.wait(run)
        until(lambda: abs(due_in(scheduler, clock, "k") - 6.99) < 0.01)
    job = scheduler.get("k")
    assert (job.due_at - json.loads(job.recurrence)["anchor_at"]) % 7_000 == 0


@pytest.mark.parametrize("step", STEPS)
def test_an_instant_follows_the_wall_clock(scheduler, clock, record, step):
    """
    A job with `at=` fires when the clock reads that instant, after any steps of the clock, and never before.
    """
    scheduler.set("k", at=WALL + 2 * HOUR, handler="h", payload=1)
    clock.step_wall(step)
    left = 2 * HOUR - step
    if left > 0:
        clock.advance(left - 0.5)
        assert record.items == []
        clock.advance(0.51)
    assert record.wait(1) == [1]


@pytest.mark.parametrize("step", [-HOUR, -86_400.0])
def test_a_cron_line_follows_the_wall_clock_back(scheduler, clock, record, step, until):
    """
    A cron job runs when the clock shows a matching time.

    If the clock is set back, the job runs at that time again.
    """
    clock.advance(0.5)  # at a matching time itself, the next run may be this match or the one after it
    scheduler.set("k", cron="*/10 * * * * *", handler="h", payload=1)
    first = due_in(scheduler, clock, "k")
    clock.step_wall(step)
    until(lambda: abs(due_in(scheduler, clock, "k") - first) < 0.01)
    clock.advance(first + 0.01)
    assert record.wait(1) == [1]
    until(lambda: abs(due_in(scheduler, clock, "k") - 9.99) < 0.01)


@pytest.mark.parametrize("step", [HOUR, 86_400.0])
def test_a_cron_line_follows_the_wall_clock_ahead(scheduler, clock, record, step, until):
    """
    If the clock is set forward, a cron job runs once for all skipped matches.

    Its next run follows the new time.
    """
    scheduler.set("k", cron="*/10 * * * * *", handler="h", payload=1)
    clock.step_wall(step)
    assert record.wait(1) == [1]
    until(lambda: (due := due_in(scheduler, clock, "k")) is not None and 0 < due <= 10.0)


@pytest.mark.parametrize("step", STEPS)
def test_a_retry_counts_elapsed_time(scheduler, clock, record, step, until):
    """
    A retry waits for its whole delay in elapsed time, even if the job was set with an instant.
    """
    tries = []

    @scheduler.handler("fails once")
    def handle(payload):
        tries.append(payload)
        if len(tries) == 1:
            return Retry(HOUR, "later")
        return record(payload)

    scheduler.set("k", at=WALL, handler="fails once", payload=1)
    until(lambda: scheduler.get("k").error is not None)  # the attempt has ended
    clock.step_wall(step)
    until(lambda: abs(due_in(scheduler, clock, "k") - HOUR) < 0.01)
    clock.advance(HOUR + 0.01)
    assert record.wait(1) == [1]


@pytest.mark.parametrize("step", STEPS)
def test_many_far_jobs(scheduler, clock, step, until):
    """
    After a clock step, thousands of jobs with a delay get new due times, page by page.

    Jobs with a fixed instant keep their due times, and no generation changes.
    """
    count = 5_000
    requests = [SetRequest(f"k{n}", delay=HOUR + n, handler="h", payload=n) for n in range(count)]
    requests += [SetRequest(f"a{n}", at=WALL + HOUR + n, handler="h", payload=n) for n in range(10)]
    before = scheduler.set_many(requests)
    clock.step_wall(step)
    until(lambda: all(abs(due_in(scheduler, clock, f"k{n}") - HOUR - n) < 0.01 for n in (0, 1, count - 2, count - 1)))
    for answer in before[:500] + before[-10:]:
        job = scheduler.get(answer.job.key)
        if job is not None:  # a job whose instant has passed has fired
            assert job.generation == answer.job.generation
            assert job.key.startswith("k") or job.due_at == answer.job.due_at
