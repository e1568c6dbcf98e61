"""
Paused jobs, on a manual clock.

No job starts while it is paused, and each job runs after it is resumed.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.observe.events import JobExpired, JobPaused, JobResumed
from tickwheel.scheduler import (
    AsyncScheduler,
    InvalidJobError,
    Outcome,
    Retry,
    RetryPolicy,
    SchedulerOptions,
    State,
    UnsupportedError,
)
from tickwheel.testing import ManualClock

NOON = 1_700_000_000.0
PATIENCE_S = 60.0


@pytest.fixture
def clock():
    """
    Return a manual clock that begins at a whole second.
    """
    return ManualClock(wall=NOON)


@pytest.fixture
def scheduler(url, make, clock, record):
    """
    Return a scheduler that records the firings, with the due time of each firing.
    """
    scheduler = make(url, clock=clock, options=SchedulerOptions(owner="me", workers=1)).start()
    scheduler.handler("h")(lambda payload, firing: record((payload, firing.job.due_at / 1000 - NOON)))
    return scheduler


def ran(scheduler, clock, record, key="sentinel"):
    """
    Set a job *key* that is due now. When it has run, return the recorded runs of all other jobs.
    """
    scheduler.set(key, delay=0, handler="h", payload=key)
    clock.advance(0.01)
    found = record.wait_for(lambda: any(item[0] == key for item in record.items))
    return [item for item in found if item[0] != key]


@pytest.mark.parametrize("delay", [5, 3600], ids=["near", "far"])
def test_a_paused_job_does_not_fire(scheduler, clock, record, events, delay):
    """
    A paused job stays pending past its due time, and uses no attempt.

    After the resume it fires at once, with its old due time.
    """
    told = events(scheduler)
    scheduler.set("k", delay=delay, handler="h", payload=1)
    answer = scheduler.pause("k", note="the disk is full")
    assert answer.outcome is Outcome.PAUSED
    clock.advance(delay + 60)
    assert ran(scheduler, clock, record) == []
    job = scheduler.get("k")
    assert job == answer.job
    assert (job.state, job.attempt, job.pause.by, job.pause.note) == (State.PENDING, 0, "me", "the disk is full")
    assert [each.key for each in scheduler.list(paused=True).jobs] == ["k"]
    assert (scheduler.stats()["pending"], scheduler.stats()["paused"]) == (1, 1)
    assert scheduler.resume("k").outcome is Outcome.RESUMED
    assert record.wait(2)[1] == (1, (job.due_at / 1000) - NOON)
    (paused,) = told.of(JobPaused)
    assert (paused.key, paused.generation, paused.by, paused.note) == ("k", job.generation, "me", "the disk is full")
    assert told.of(JobResumed)[0].due_at == job.due_at
    assert scheduler.stats()["paused"] == 0


def test_resumed_in_time(scheduler, clock, record):
    """
    A job that is resumed before its due time fires at its due time.
    """
    scheduler.set("k", at=NOON + 60, handler="h", payload=1)
    scheduler.pause("k")
    clock.advance(30)
    assert scheduler.resume("k").job.due_at == (NOON + 60) * 1000
    assert scheduler.resume("k").outcome is Outcome.KEPT
    clock.advance(29.9)
    assert record.items == []
    clock.advance(0.2)
    assert record.wait(1) == [(1, 60.0)]


@pytest.mark.parametrize(
    ("misfire", "runs"), [("once", [10.0, 40.0]), ("all", [10.0, 20.0, 30.0, 40.0]), ("skip", [40.0])]
)
def test_missed_runs(scheduler, clock, record, until, *, misfire, runs):
    """
    After a pause, the misfire policy decides which missed runs take place.
    """
    grace = 1 if misfire == "skip" else None
    scheduler.set("k", every=10, at=NOON + 10, misfire=misfire, misfire_grace=grace, handler="h", payload=1)
    scheduler.pause("k")
    clock.advance(35)
    scheduler.resume("k")
    until(lambda: scheduler.get("k").due_at == (NOON + 40) * 1000)
    clock.advance(5.1)
    assert record.wait(len(runs)) == [(1, run) for run in runs]
    assert scheduler.get("k").pause is None


def test_a_job_that_expires_while_paused(scheduler, clock, events):
    """
    If a job expires while it is paused, it is omitted after the resume.
    """
    told = events(scheduler)
    scheduler.set("k", delay=5, expires=10, handler="h")
    scheduler.pause("k")
    clock.advance(20)
    scheduler.resume("k")
    assert told.of(JobExpired, "k")
    assert scheduler.get("k") is None


def test_other_verbs(scheduler, clock, record):
    """
    A paused job stays paused if it is set again (for example by a restarted program), moved or run by `run_now`.

    A cancel removes the job.
    """
    scheduler.set("k", every=10, handler="h", payload=1)
    scheduler.pause("k", note="why")
    again = scheduler.set("k", every=20, handler="h", payload=2)
    assert (again.outcome, again.job.pause.note) == (Outcome.CHANGED, "why")
    assert scheduler.set("k", every=20, handler="h", mode="keep").outcome is Outcome.KEPT
    assert scheduler.run_now("k").job.pause.note == "why"
    clock.advance(60)
    assert ran(scheduler, clock, record) == []
    assert scheduler.move("k", delay=5).outcome is Outcome.MOVED
    scheduler.resume("k")
    clock.advance(5.1)
    assert record.wait(2)[1][0] == 2
    scheduler.pause("k")
    assert scheduler.cancel("k").outcome is Outcome.CANCELLED
    assert scheduler.set("k", delay=60, handler="h").job.pause is None


def test_while_it_runs(make, url, clock, until):
    """
    If a recurring job is paused during a run, the run finishes, and the next run waits.

    A running one-time job can no longer be paused.
    """
    scheduler = make(url, clock=clock, options=SchedulerOptions(workers=2)).start()
    begun, go_on = threading.Barrier(3), threading.Event()
    runs = []

    def handle(payload):
        runs.append(payload)
        begun.wait(PATIENCE_S)
        assert go_on.wait(PATIENCE_S)

    scheduler.handler("h", concurrency=2)(handle)
    scheduler.set("comes back", every=10, at=NOON + 1, handler="h", payload="comes back")
    scheduler.set("once", at=NOON + 1, handler="h", payload="once")
    clock.advance(1.01)
    begun.wait(PATIENCE_S)
    assert scheduler.pause("once").outcome is Outcome.TOO_LATE
    answer = scheduler.pause("comes back")
    assert (answer.outcome, answer.job.state) == (Outcome.PAUSED, State.RUNNING)
    go_on.set()
    until(lambda: scheduler.get("comes back").state is State.PENDING)
    clock.advance(60)
    job = scheduler.get("comes back")
    assert (job.due_at, job.attempt, job.pause) == ((NOON + 11) * 1000, 0, answer.job.pause)
    assert sorted(runs) == ["comes back", "once"]


def test_another_attempt_waits(scheduler, clock, until):
    """
    A pause holds back the retry of a failed job as it holds back a first attempt.

    The retry sends the same message id as the first attempt.
    """
    attempts = []

    def fails(_, firing):
        attempts.append(firing.fire_id)
        return Retry("no")

    scheduler.handler("fails")(fails)
    scheduler.set("k", delay=1, handler="fails", retry=RetryPolicy(3, "linear", 10_000, jitter=0.0))
    clock.advance(1.01)
    until(lambda: scheduler.get("k").state is State.PENDING and scheduler.get("k").attempt == 1)
    generation = scheduler.pause("k").job.generation
    clock.advance(60)
    scheduler.resume("k")
    until(lambda: len(attempts) == 2)
    assert attempts == [f"k/{generation}/1", f"k/{generation}/2"]


def test_a_claimed_job_that_waits_for_a_worker(make, url, clock, record, until):
    """
    If a job is paused while its claimed attempt waits for a worker, the job does not start and uses no attempt.
    """
    scheduler = make(url, clock=clock, options=SchedulerOptions(workers=1)).start()
    begun, go_on = threading.Event(), threading.Event()
    scheduler.handler("slow")(lambda _: (begun.set(), go_on.wait(PATIENCE_S)))
    scheduler.handler("h")(record)
    scheduler.set("slow {k}", delay=0, handler="slow")  # the hash tag keeps both jobs on one primary
    assert begun.wait(PATIENCE_S)
    scheduler.set("k", delay=0, handler="h", payload=1)
    until(lambda: scheduler.get("k").awaits_worker)
    answer = scheduler.pause("k")
    assert (answer.outcome, answer.job.state, answer.job.attempt) == (Outcome.PAUSED, State.PENDING, 0)
    go_on.set()
    until(lambda: scheduler.get("slow {k}") is None)
    assert scheduler.get("k") == answer.job
    scheduler.resume("k")
    assert record.wait(1) == [1]


def test_a_restart(file_url, make, clock, record):
    """
    A job stays paused after a restart.

    The next process fires it only after a resume.
    """
    first = make(file_url, clock=clock).start()
    first.set("k", delay=5, handler="h", payload=1)
    first.pause("k", note="why")
    first.stop()
    clock.advance(60)
    second = make(file_url, clock=clock)
    second.handler("h")(lambda payload, firing: record((payload, firing.attempt)))
    second.start()
    assert ran(second, clock, record) == []
    assert second.get("k").pause.note == "why"
    second.resume("k")
    assert record.wait(2)[1] == (1, 1)


def test_another_process(file_url, make, clock, record, until):
    """
    If another process pauses a job just before its due time, the job fires only after that process has resumed it.
    """
    owner = make(file_url, clock=clock, options=SchedulerOptions(owner="owner")).start()
    owner.handler("h")(record)
    client = make(file_url, clock=clock, options=SchedulerOptions(owner="client"))
    owner.set("k", delay=0.3, handler="h", payload=1)
    assert client.pause("k").job.pause.by == "client"
    owner.set("after", delay=0.6, handler="h", payload=2)
    clock.advance(1)
    assert record.wait(1) == [2]
    assert owner.get("k").attempt == 0
    client.resume("k")
    assert record.wait(2) == [2, 1]
    until(lambda: owner.get("k") is None)


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_the_clock_is_set(scheduler, clock, record, until, step):
    """
    If the clock is set during a pause, the delay of the paused job still counts elapsed time.

    A job that is resumed after its due time is due at once.
    """
    scheduler.set("delay", delay=100, handler="h", payload="delay")
    scheduler.set("every", every=70, handler="h", payload="every")
    scheduler.set("past", delay=5, handler="h", payload="past")
    assert {answer.outcome for answer in scheduler.pause_many(["delay", "every", "past"])} == {Outcome.PAUSED}
    clock.advance(10)
    clock.step_wall(step)
    clock.advance(20)
    assert {answer.outcome for answer in scheduler.resume_many(["delay", "every", "past"])} == {Outcome.RESUMED}
    assert record.wait(1)[0][0] == "past"
    until(lambda: abs(scheduler.get("delay").due_at / 1e3 - clock.wall_ns() / 1e9 - 70) < 0.01)
    until(lambda: abs(scheduler.get("every").due_at / 1e3 - clock.wall_ns() / 1e9 - 40) < 0.01)
    clock.advance(40.01)
    assert record.wait(2)[1][0] == "every"
    clock.advance(30.01)
    assert record.wait(3)[2][0] == "delay"


def test_a_pull_queue(scheduler, until):
    """
    No worker leases a paused job, even if the job was due and waited for a worker when it was paused.
    """
    for key in ("paused", "other"):
        scheduler.set(key, delay=0, target="pull", handler="q")
    until(lambda: scheduler.stats()["pull"].get("q", {}).get("waiting") == 2)
    scheduler.pause("paused")
    leases = scheduler.lease("q", limit=9, wait=60)
    assert [lease.job.key for lease in leases] == ["other"]
    scheduler.ack(leases[0].fire_id)
    scheduler.resume("paused")
    until(lambda: scheduler.stats()["pull"]["q"]["waiting"] == 1)
    (lease,) = scheduler.lease("q", limit=9, wait=60)
    assert (lease.job.key, lease.attempt) == ("paused", 1)


def test_refused(scheduler):
    """
    An invalid note, name or key raises an error.
    """
    for fields in ({"note": "x" * 1_001}, {"note": 5}, {"by": "\0"}, {"by": "y" * 256}, {"if_generation": -1}):
        with pytest.raises(InvalidJobError):
            scheduler.pause("k", **fields)
    with pytest.raises(InvalidJobError):
        scheduler.resume("")
    assert scheduler.pause("k").outcome is Outcome.NOT_FOUND
    assert scheduler.resume("k").outcome is Outcome.NOT_FOUND


def test_async(url):
    """
    `AsyncScheduler` pauses and resumes jobs by the same verbs, with the same answers.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            await scheduler.set("k", delay=60, target="log")
            assert (await scheduler.pause("k", note="why", by="somebody")).job.pause.by == "somebody"
            assert [answer.outcome for answer in await scheduler.pause_many(["k"])] == [Outcome.PAUSED]
            assert [job.key for job in (await scheduler.list(paused=True)).jobs] == ["k"]
            assert (await scheduler.resume("k")).outcome is Outcome.RESUMED
            assert [answer.outcome for answer in await scheduler.resume_many(["k"])] == [Outcome.KEPT]

    asyncio.run(main())


def test_over_a_service(service_url, make):
    """
    A scheduler on a service pauses and resumes one or many jobs of the service.

    The service determines the author of the pause.
    """
    scheduler = make(service_url)
    for key in ("a", "b"):
        scheduler.set(key, delay=60, target="log")
    answer = scheduler.pause("a", note="why")
    assert (answer.outcome, answer.job.pause.by, answer.job.pause.note) == (Outcome.PAUSED, "http", "why")
    assert scheduler.get("a") == answer.job
    assert [each.outcome for each in scheduler.pause_many(["a", "b", "c"], note="all")] == [
        Outcome.PAUSED,
        Outcome.PAUSED,
        Outcome.NOT_FOUND,
    ]
    assert [(job.key, job.pause.note) for job in scheduler.list(paused=True).jobs] == [("a", "all"), ("b", "all")]
    assert scheduler.resume("a", if_generation=answer.job.generation + 1).outcome is Outcome.WRONG_GENERATION
    assert scheduler.resume("a").outcome is Outcome.RESUMED
    assert [each.outcome for each in scheduler.resume_many(["a", "b"])] == [Outcome.KEPT, Outcome.RESUMED]
    with pytest.raises(UnsupportedError):
        scheduler.pause("a", by="me")
