"""
A backfill repeats the runs of a recurring job in a past range of time.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from tickwheel.scheduler import AsyncScheduler, DeadLetter, InvalidJobError, RetryPolicy, State
from tickwheel.testing import ManualClock

NOON = datetime(2030, 1, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def clock():
    """
    Return a clock with a known time of day.
    """
    return ManualClock(wall=NOON.timestamp())


@pytest.fixture
def scheduler(url, make, clock):
    """
    Return a scheduler that fires nothing yet.

    It has a job that runs at nine on working days.
    """
    scheduler = make(url, clock=clock)
    fields = {"payload": {"to": "all"}, "handler": "h", "retry": RetryPolicy(attempts=3)}
    scheduler.set("report", cron="0 9 * * MON-FRI", exclude=["2030-01-07"], **fields)
    return scheduler


def keys(scheduler):
    """
    Return the keys of the jobs that were set for the handler "report".
    """
    return [job.key for job in scheduler.list("report@").jobs]


def test_each_run_is_a_job(scheduler, record):
    """
    Each run in the range that is not excluded becomes a job with the fields of the recurring job.
    """
    before = scheduler.get("report")
    answer = scheduler.backfill("report", "2030-01-04T09:00Z", "2030-01-09T09:00Z")
    assert (answer.runs, answer.created, answer.next_at) == (2, 2, None)
    assert keys(scheduler) == ["report@2030-01-04T09:00:00.000Z", "report@2030-01-08T09:00:00.000Z"]
    job = scheduler.get("report@2030-01-04T09:00:00.000Z")
    assert (job.payload, job.retry, job.recurrence) == (before.payload, before.retry, None)
    scheduler.handler("h")(lambda payload, firing: record((payload, firing.job.key)))
    scheduler.start()
    assert [payload for payload, _ in record.wait(2)] == [{"to": "all"}] * 2
    assert {key.partition("@")[0] for _, key in record.items} == {"report"}
    assert scheduler.get("report") == before


def test_it_may_be_repeated(scheduler):
    """
    A repeated backfill leaves the jobs of the first backfill unchanged while they are pending.

    With `dry_run=True`, a backfill sets nothing.
    """
    week = (NOON - 7 * DAY, NOON)
    assert scheduler.backfill("report", *week, dry_run=True).runs == 4
    assert keys(scheduler) == []
    assert scheduler.backfill("report", *week).created == 4
    again = scheduler.backfill("report", *week)
    assert (again.runs, again.created) == (4, 0)


def test_a_running_job_is_not_backfilled_again(scheduler, record, until):
    """
    If a backfill is repeated while its jobs run, the running jobs stay as they are and are not set again.
    """
    go_on = threading.Event()
    scheduler.handler("busy")(lambda payload: (record(payload), go_on.wait(60)))
    scheduler.set("long", every=60, handler="busy", payload=1)
    since, ends = NOON - timedelta(seconds=120), NOON + timedelta(seconds=60)
    assert scheduler.backfill("long", since, ends, limit=2).created == 2
    scheduler.start()
    record.wait(2)
    until(lambda: all(job.state is State.RUNNING for job in scheduler.list("long@").jobs))
    running = [*scheduler.list("long@").jobs]
    again = scheduler.backfill("long", since, ends, rate=1e-3)
    assert (again.runs, again.created) == (3, 1)
    assert [job for job in scheduler.list("long@").jobs if job.state is State.RUNNING] == running
    go_on.set()
    until(lambda: [job.state for job in scheduler.list("long@").jobs] == [State.PENDING])
    assert len(record.items) == 2


def test_a_dead_job_is_backfilled_again(scheduler, until):
    """
    If a job of a backfill has become a dead letter, a repeated backfill sets the job again.

    If a job of the first backfill is paused, it stays paused and keeps its due time.
    """
    week = (NOON - 7 * DAY, NOON)
    scheduler.handler("h")(lambda _: DeadLetter("no"))
    scheduler.backfill("report", *week)
    paused, *others = keys(scheduler)
    scheduler.pause(paused)
    scheduler.start()
    until(lambda: all(scheduler.get(key).state is State.DEAD for key in others))
    assert scheduler.backfill("report", *week, rate=1e-3).created == len(others)
    assert scheduler.get(paused).is_paused


def test_at_a_rate(scheduler):
    """
    If a backfill has a rate, its jobs become due one after another, in the order of the runs that they repeat.
    """
    scheduler.backfill("report", NOON - 7 * DAY, NOON, rate=0.5)
    due = [scheduler.get(key).due_at / 1000 - NOON.timestamp() for key in sorted(keys(scheduler))]
    assert [round(each) for each in due] == [0, 2, 4, 6]


def test_a_part_at_a_time(scheduler):
    """
    If a range has more runs than the limit, the cursor in the answer continues the backfill.

    Each run of the range becomes a job, even if the jobs do not fit into one commit.
    """
    since, found = NOON - 20 * DAY, []
    while since is not None:
        answer = scheduler.backfill("report", since, NOON, limit=6)
        found.append(answer.created)
        since = answer.next_at
    assert found == [6, 6, 1]
    scheduler.set("often", every=60, handler="h")
    assert scheduler.backfill("often", NOON - DAY, NOON, limit=1_300).created == 1_300


def test_the_current_run_is_not_backfilled(scheduler, clock, record, until):
    """
    A backfill ends before the run that is due or running now.

    This holds even if jitter delays that run past its nominal time.
    """
    due_at = scheduler.set("late", every=600, jitter=500, handler="h").job.due_at / 1000
    assert due_at > NOON.timestamp() + 601  # the jitter of this key is large
    with pytest.raises(InvalidJobError, match="name a range of the past"):
        scheduler.backfill("late", NOON, due_at)
    assert scheduler.backfill("late", NOON, NOON + timedelta(seconds=600)).runs == 1
    go_on = threading.Event()
    scheduler.handler("busy")(lambda payload: (record(payload), go_on.wait(60)))
    scheduler.start()
    scheduler.set("long", every=60, handler="busy", payload=1)
    clock.advance(60.001)
    record.wait(1)
    until(lambda: scheduler.get("long").state is State.RUNNING)
    with pytest.raises(InvalidJobError, match="name a range of the past"):
        scheduler.backfill("long", NOON, NOON + DAY)
    go_on.set()


@pytest.mark.parametrize(
    ("key", "fields", "problem"),
    [
        ("absent", {}, "key is 'absent': a backfill is of a recurring job"),
        ("once", {}, "key is 'once': a backfill is of a recurring job"),
        ("report", {"until": NOON + DAY}, "at most 2030-01-11T09:00:00.000Z, when its next run is due"),
        ("report", {"until": NOON - 9 * DAY}, "name a range of the past"),
        ("report", {"until": 1e308}, "until is 1e+308"),
        ("report", {"since": "yesterday"}, "since is 'yesterday'"),
        ("report", {"rate": 0}, "rate is 0"),
        ("report", {"limit": 10_001}, "limit is 10001: pass an integer in 1..10000"),
        ("report", {"dry_run": 1}, "dry_run is 1"),
        ("k" * 500, {}, "key is 'kkk"),
    ],
)
def test_bad_input(scheduler, key, fields, problem):
    """
    For an invalid backfill, the error names the invalid value and the remedy.

    Nothing is set.
    """
    scheduler.set("once", delay=60, handler="h")
    scheduler.set("k" * 500, every=60, handler="h")
    asked = {"since": NOON - 7 * DAY, "until": NOON} | fields
    with pytest.raises(InvalidJobError) as caught:
        scheduler.backfill(key, **asked)
    assert problem in str(caught.value)
    assert scheduler.stats()["pending"] == 3


@pytest.mark.parametrize("since", [-1e308, -5.6e16, -1, 0, datetime(1, 1, 1, tzinfo=UTC)])
def test_a_range_that_begins_before_1970(scheduler, since):
    """
    A backfill from a date before 1970, however early, begins with the first run after 1 January 1970.
    """
    scheduler.set("often", every=60, target="log")
    for key in ("report", "often"):
        answer = scheduler.backfill(key, since, NOON, limit=2, dry_run=True)
        assert (answer.runs, 0 < answer.next_at < 7 * 86_400) == (2, True)


def test_asyncio_and_a_service(service_url, make, url):
    """
    An AsyncScheduler and a client of a service also have `backfill`.
    """

    async def ask():
        async with AsyncScheduler(url) as other:
            await other.set("k", every=60, handler="absent", target="log")
            until = (await other.get("k")).due_at / 1000
            return await other.backfill("k", until - 300, until)

    assert asyncio.run(ask()).created == 5
    remote = make(service_url)
    until = remote.set("k", every=60, target="log").job.due_at / 1000
    for created in (5, 0):
        answer = remote.backfill("k", until - 300, until, rate=1e-3)
        assert (answer.runs, answer.created, answer.next_at) == (5, created, None)
