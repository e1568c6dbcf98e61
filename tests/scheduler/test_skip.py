"""
Skips of the next run of a recurring job, with a manual clock.
"""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tickwheel.jobs.recurrence import Recurrence
from tickwheel.scheduler import AsyncScheduler, InvalidJobError, Outcome
from tickwheel.testing import ManualClock

NOON = 1_700_000_000.123
PATIENCE_S = 60.0
_OF_RUNS = {"runs", "nominal_at", "succeeded_at"}
"""Fields of a stored rule that change with each run."""


@pytest.fixture
def clock():
    """
    Return a manual clock that does not begin at a whole second.
    """
    return ManualClock(wall=NOON)


@pytest.fixture
def scheduler(url, make, clock, record):
    """
    Return a scheduler that records the firings, with the due time of each firing.
    """
    scheduler = make(url, clock=clock).start()
    scheduler.handler("h")(lambda _, firing: record(firing.job.due_at))
    return scheduler


def test_a_skip_omits_one_run(scheduler, clock, record, until):
    """
    After a skip, the job continues with the following run, in the same phase.

    Each further skip omits one more run.
    """
    first = scheduler.set("k", every=10, handler="h", max_runs=2).job.due_at
    for run in (1, 2):
        answer = scheduler.skip("k")
        assert (answer.outcome, answer.job.due_at) == (Outcome.MOVED, first + run * 10_000)
    clock.advance(29.9)
    assert record.items == []
    clock.advance(0.2)
    record.wait(1)
    until(lambda: scheduler.get("k").due_at == first + 30_000)
    clock.advance(10)
    assert record.wait(2) == [first + 20_000, first + 30_000]
    until(lambda: scheduler.get("k") is None)


def test_any_instant(scheduler):
    """
    The run after the skipped run is due at its exact time, to the millisecond, even with jitter.
    """
    for ms in range(1, 300):
        first = scheduler.set("k", every=1 + ms / 1000, jitter=ms, handler="h").job.due_at
        assert scheduler.skip("k").job.due_at == first + 1000 + ms


def test_the_last_run(scheduler):
    """
    A skip of the last run cancels the series.
    """
    scheduler.set("k", every=60, until=NOON + 100, handler="h")
    assert scheduler.skip("k").outcome is Outcome.CANCELLED
    assert scheduler.get("k") is None
    assert scheduler.skip("k").outcome is Outcome.NOT_FOUND


def test_refused(scheduler):
    """
    A one-time job has no next run, so it cannot be skipped.

    A skip for another generation is refused.
    """
    scheduler.set("once", delay=60, handler="h")
    with pytest.raises(InvalidJobError, match="its job fires once"):
        scheduler.skip("once")
    job = scheduler.set("k", every=60, handler="h").job
    assert scheduler.skip("k", if_generation=job.generation + 1).outcome is Outcome.WRONG_GENERATION
    assert scheduler.skip("k", if_generation=job.generation).outcome is Outcome.MOVED
    with pytest.raises(InvalidJobError):
        scheduler.skip("k", if_generation=-1)


def test_while_it_runs(make, url, clock):
    """
    A run that has started cannot be skipped.
    """
    begun, go_on = threading.Event(), threading.Event()
    scheduler = make(url, clock=clock).start()
    scheduler.handler("h")(lambda _: (begun.set(), go_on.wait(PATIENCE_S)))
    scheduler.set("k", every=60, delay=0, handler="h")
    assert begun.wait(PATIENCE_S)
    assert scheduler.skip("k").outcome is Outcome.TOO_LATE
    go_on.set()


def rule_of(job):
    """
    Return the rule of a job, without the fields that a run changes.
    """
    return {name: value for name, value in json.loads(job.recurrence).items() if name not in _OF_RUNS}


@pytest.mark.parametrize("rule", [{"cron": "0 * * * *"}, {"every": 3600, "jitter": 900}])
@pytest.mark.parametrize("misfire", ["once", "all", "skip"])
@pytest.mark.parametrize("put_off", ["skip", "move"])
def test_run_now_after_a_skip(scheduler, clock, record, until, rule, misfire, put_off):  # noqa: PLR0917  fixtures
    """
    If runs were skipped or moved to a later time, they stay skipped or moved after any number of `run_now` calls.
    """
    first = scheduler.set("k", misfire=misfire, exclude=["* 3 * * *"], handler="h", **rule).job
    if put_off == "skip":
        scheduler.skip("k")
        after = scheduler.skip("k").job
    else:
        after = scheduler.move("k", delay=86_461).job
    assert rule_of(after) == rule_of(first)
    clock.advance(10)
    scheduler.pause("k")
    now = scheduler.run_now("k").job.due_at
    clock.advance(1)
    again = scheduler.run_now("k").job
    assert (again.due_at, json.loads(again.recurrence)["next_at"]) == (now + 1_000, after.due_at)
    scheduler.resume("k")
    assert record.wait(1) == [now + 1_000]
    until(lambda: scheduler.get("k").due_at == after.due_at)
    assert rule_of(scheduler.get("k")) == rule_of(first)
    assert json.loads(scheduler.get("k").recurrence)["runs"] == 1
    clock.advance((after.due_at - now) / 1000)
    assert record.wait(2)[1] == after.due_at


def test_after_run_now(scheduler, clock):
    """
    A pending run that `run_now` requested is like any other pending run.

    The run can be skipped or moved, and its series can get another rule.
    """
    first = scheduler.set("k", cron="0 * * * *", handler="h").job
    pending = scheduler.skip("k").job.due_at
    scheduler.pause("k")
    scheduler.run_now("k")
    assert scheduler.skip("k").job.due_at == pending
    assert scheduler.get("k").recurrence == first.recurrence
    scheduler.run_now("k")
    with pytest.raises(InvalidJobError, match="no run is due until then"):
        scheduler.change("k", until=pending / 1000 - 1)
    kept = scheduler.change("k", jitter=900, until=pending / 1000 + 60).job
    shift = Recurrence.from_text(kept.recurrence).shift_ms("k")
    assert kept.due_at == clock.wall_ns() // 1_000_000
    assert json.loads(kept.recurrence)["next_at"] == pending + shift
    assert scheduler.change("k", cron="30 * * * *").job.recurrence.count("next_at") == 0
    scheduler.run_now("k")
    assert "next_at" not in scheduler.move("k", delay=60).job.recurrence


def test_skip_of_a_paused_job(scheduler, clock, record):
    """
    A skip leaves a paused job paused.

    The skipped run does not take place later.
    """
    first = scheduler.set("k", every=10, misfire="all", handler="h").job.due_at
    scheduler.pause("k")
    assert scheduler.skip("k").job.pause is not None
    clock.advance(21)
    assert record.items == []
    scheduler.resume("k")
    assert record.wait(1) == [first + 10_000]


def test_ten_skips_at_once(scheduler):
    """
    If ten threads skip at once, each of them skips a different run.
    """
    first = scheduler.set("k", every=60, handler="h").job.due_at
    start = threading.Barrier(10)

    def skip():
        start.wait(PATIENCE_S)
        assert scheduler.skip("k").outcome is Outcome.MOVED

    threads = [threading.Thread(target=skip) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert scheduler.get("k").due_at == first + 600_000


def test_asyncio_and_a_service(url, service_url, make):
    """
    An AsyncScheduler and a client of a service can also skip a run.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            await scheduler.set("k", every=60, target="log")
            return (await scheduler.skip("k")).outcome

    assert asyncio.run(main()) is Outcome.MOVED
    remote = make(service_url)
    first = remote.set("k", cron="0 9 * * *", target="log").job.due_at
    assert remote.skip("k").job.due_at == first + 86_400_000
    assert json.loads(remote.run_now("k").job.recurrence)["next_at"] == first + 86_400_000
    assert remote.run_now("k", if_generation=1).outcome is Outcome.WRONG_GENERATION
