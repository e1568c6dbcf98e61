"""
Pull queues: lease, ack, nack and extend, jobs without a worker, late acknowledgements, and a stop.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwheel.drivers import TimerWheel
from tickwheel.jobs.model import Answer
from tickwheel.observe.events import JobFailed
from tickwheel.scheduler import (
    AsyncScheduler,
    Firing,
    InvalidJobError,
    Job,
    LeaseEndedError,
    Outcome,
    RetryPolicy,
    SchedulerOptions,
    SetRequest,
    Snooze,
    State,
    TooManyWaitingError,
)
from tickwheel.targets import pull
from tickwheel.testing import ManualClock

AT_ONCE = RetryPolicy(attempts=3, base_ms=0, jitter=0)


@pytest.fixture
def scheduler(url, make):
    """
    Return a started scheduler.
    """
    return make(url).start()


def due(key, **fields):
    """
    Return a request for a due job in the queue "q".
    """
    return SetRequest(key, delay=0, target="pull", handler="q", **{"retry": AT_ONCE, **fields})


def test_lease_and_ack(scheduler):
    """
    A worker gets the due job with its stored values.

    The ack removes the job, and a second ack has no effect.
    """
    job = scheduler.set_many([due("k", payload={"n": 1})])[0].job
    (lease,) = scheduler.lease("q")
    assert (lease.fire_id, lease.payload, lease.attempt) == (f"k/{job.generation}/1", {"n": 1}, 1)
    assert not lease.is_last_attempt
    assert scheduler.get("k").state is State.RUNNING
    scheduler.ack(lease.fire_id)
    assert scheduler.get("k") is None
    scheduler.ack(lease.fire_id)
    assert scheduler.stats()["succeeded"] == 1


def test_a_waiting_worker_gets_a_job_that_is_set_later(scheduler):
    """
    A worker that waits gets a job when it is due, and not before.
    """
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(scheduler.lease, "q", wait=20)
        job = scheduler.set("k", delay=0.1, target="pull", handler="q").job
        (lease,) = found.result(20)
    assert (lease.fire_id, lease.job.due_at) == (f"k/{job.generation}/1", job.due_at)
    assert lease.until >= job.due_at + 60_000


def test_a_job_without_a_worker_stays_pending(scheduler):
    """
    If no worker asks for a due job, the job uses no attempt, and can be moved and cancelled.
    """
    scheduler.set_many([due(f"k{n}") for n in range(3)])
    assert scheduler.cancel("k0").outcome is Outcome.CANCELLED
    assert scheduler.move("k1", delay=3600).outcome is Outcome.MOVED
    assert [lease.fire_id.rpartition("/")[2] for lease in scheduler.lease("q", limit=10)] == ["1"]
    assert scheduler.lease("q", wait=0) == []


def test_one_call_leases_many_jobs(scheduler):
    """
    One call leases all due jobs up to its limit, in order of due time.

    It leases no jobs of other queues.
    """
    scheduler.set_many([due(f"k{n}") for n in range(25)] + [SetRequest("o", delay=0, target="pull", handler="other")])
    first, rest = scheduler.lease("q", limit=10), scheduler.lease("q", limit=100)
    assert [lease.job.key for lease in first + rest] == [f"k{n}" for n in range(25)]
    assert scheduler.lease("q", wait=0) == []
    assert [lease.job.key for lease in scheduler.lease("other", limit=5)] == ["o"]


def test_nack(scheduler):
    """
    A nacked firing is retried with its error, at once or after the requested delay.

    A firing that is nacked as dead becomes a dead letter.
    """
    scheduler.set_many([due("again"), due("later"), due("dead")])
    leases = {lease.job.key: lease.fire_id for lease in scheduler.lease("q", limit=3)}
    scheduler.nack(leases["later"], delay=3600, error="busy")
    scheduler.nack(leases["dead"], error="broken", is_dead=True)
    scheduler.nack(leases["again"])
    assert (scheduler.get("later").state, scheduler.get("later").error) == (State.PENDING, "busy")
    assert (scheduler.get("dead").state, scheduler.get("dead").error) == (State.DEAD, "broken")
    (lease,) = scheduler.lease("q")
    assert (lease.job.key, lease.attempt, lease.job.error) == ("again", 2, "its worker refused it")
    scheduler.nack(lease.fire_id)
    (lease,) = scheduler.lease("q")
    assert lease.is_last_attempt
    scheduler.nack(lease.fire_id, delay=5)
    assert scheduler.get("again").state is State.DEAD


def test_a_lease_ends(scheduler, events):
    """
    A leased firing that is not settled in time has failed and is retried.

    A late call of its worker raises an error with the reason.
    """
    told = events(scheduler)
    scheduler.set_many([due("k")])
    (late,) = scheduler.lease("q", seconds=0.1)
    (failed,) = told.of(JobFailed)
    assert "the lease of 0.1 s ended without an acknowledgement" in failed.error
    (again,) = scheduler.lease("q")
    assert (again.job.key, again.attempt) == ("k", 2)
    for call in (scheduler.ack, scheduler.nack, scheduler.extend):
        with pytest.raises(LeaseEndedError, match=r"its time of 0.1 s was over, and it is fired again"):
            call(late.fire_id)
    scheduler.ack(again.fire_id)


def test_extend(scheduler):
    """
    An extended lease lasts until the time returned by `extend`.
    """
    scheduler.set_many([due("k")])
    (lease,) = scheduler.lease("q", seconds=0.3)
    assert scheduler.extend(lease.fire_id, 30) >= lease.until + 29_000
    assert scheduler.lease("q", wait=0.5) == []
    scheduler.ack(lease.fire_id)


def test_set_again_while_leased(scheduler):
    """
    If a job is set again while it is leased, the new job stays.

    A worker that acknowledges the old job learns that it was replaced.
    """
    scheduler.set_many([due("k")])
    (lease,) = scheduler.lease("q")
    scheduler.set("k", delay=3600, target="pull", handler="q")
    with pytest.raises(LeaseEndedError, match="set again or cancelled meanwhile"):
        scheduler.ack(lease.fire_id)
    assert scheduler.get("k").state is State.PENDING


def test_a_cancel_ends_the_lease(scheduler, until):
    """
    A job that is cancelled while it is leased no longer counts as running.

    Each later call of its worker raises the same error.
    """
    scheduler.set_many([due("k")])
    (lease,) = scheduler.lease("q", seconds=43_200)
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    until(lambda: scheduler.stats()["pull"] == {})
    for call in (scheduler.extend, scheduler.ack, scheduler.ack, scheduler.nack):
        with pytest.raises(LeaseEndedError, match="its job was cancelled while it was leased"):
            call(lease.fire_id)


def test_the_next_run_ends_the_lease(scheduler, until):
    """
    With overlap="cancel", the lease of a job ends at the due time of the job's next run. The worker learns the reason.
    """
    scheduler.set("k", every=1, overlap="cancel", target="pull", handler="q")
    (first,) = scheduler.lease("q", seconds=3600)
    (second,) = scheduler.lease("q", seconds=3600)
    assert second.fire_id != first.fire_id
    for _ in range(2):
        with pytest.raises(LeaseEndedError, match="the next run of its job was due"):
            scheduler.ack(first.fire_id)
    scheduler.cancel("k", running=True)
    until(lambda: scheduler.stats()["pull"] == {})


def test_a_recurring_job(scheduler):
    """
    After the ack of a recurring job's run, the job waits for its next run.
    """
    scheduler.set("k", every=3600, at=1, target="pull", handler="q")
    (lease,) = scheduler.lease("q")
    scheduler.ack(lease.fire_id)
    assert scheduler.get("k").generation > lease.job.generation


def test_a_restart_repeats_leased_jobs(file_url, make):
    """
    A lease ends with the process that granted it.

    The job fires again as the next attempt, and a late ack of the worker raises an error.
    """
    first = make(file_url).start()
    first.set_many([due("k")])
    (lease,) = first.lease("q")
    assert [firing.fire_id for firing in first.stop()] == [lease.fire_id]
    second = make(file_url).start()
    with pytest.raises(LeaseEndedError, match="never leased here, or the process that leased it has ended"):
        second.ack(lease.fire_id)
    (again,) = second.lease("q")
    assert (again.job.key, again.attempt) == ("k", 2)


def test_a_stop_ends_every_wait(scheduler, until):
    """
    If the scheduler stops, a waiting worker gets an empty answer.

    Afterwards nothing can be leased.
    """
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(scheduler.lease, "q", wait=300)
        until(lambda: scheduler.stats()["pull"].get("q", {}).get("workers"))
        scheduler.stop()
        assert found.result(20) == []
    with pytest.raises(LeaseEndedError, match="fires nothing"):
        scheduler.lease("q")


def test_a_wait_that_is_cancelled_as_it_gets_a_firing(url, until, engines):
    """
    If an `await` is cancelled just as it gets a firing, the next worker gets that firing, still as the first attempt.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            waiting = asyncio.ensure_future(scheduler.lease("q"))
            await scheduler.set("k", delay=0.2, target="pull", handler="q", retry=AT_ONCE)
            until(lambda: engines[0].sizes()["in_flight"])  # blocks the loop, so that the waiting task does not run
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            (lease,) = await scheduler.lease("q")
            assert (lease.job.key, lease.attempt) == ("k", 1)
            await scheduler.ack(lease.fire_id)
            assert await scheduler.get("k") is None

    asyncio.run(main())


def test_a_cancelled_wait_loses_nothing(url):
    """
    If an `await` for a firing is cancelled, the next worker gets the firing.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            waiting = asyncio.ensure_future(scheduler.lease("q", wait=300))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await scheduler.set_many([due("k")])
            (lease,) = await scheduler.lease("q")
            until = await scheduler.extend(lease.fire_id, 5)
            assert until < lease.until
            await scheduler.nack(lease.fire_id, is_dead=True)
            assert (await scheduler.get("k")).state is State.DEAD
            acknowledging = asyncio.ensure_future(scheduler.ack(lease.fire_id))
            await asyncio.sleep(0)
            acknowledging.cancel()  # from here on nothing awaits the acknowledgement
            await scheduler.replay("k")
            (lease,) = await scheduler.lease("q")
            await scheduler.ack(lease.fire_id)
            return await scheduler.get("k")

    assert asyncio.run(main()) is None


@pytest.fixture
def clock():
    """
    Return the clock of the fixture `target`.
    """
    return ManualClock()


@pytest.fixture
def target(clock, record):
    """
    Return an open target without a scheduler.
    """
    with TimerWheel(clock=clock) as wheel:
        target = pull.PullTarget(threading.Lock())
        target.open(wheel.call_later, wheel.call_later, lambda: 0, record)
        yield target


def hold(target, end, *keys):
    """
    Give *target* a firing for each of *keys*, and return the firings.

    *end* makes the object through which the target ends a firing.
    """
    firings = [Firing(Job(key, 1, 0), 1, 0.0, stopping=_Stopping()) for key in keys]
    target.resolve("q").function([(firing, end(firing)) for firing in firings])
    return firings


def test_a_claimed_firing_that_no_worker_fetches_is_released(target, clock, record):
    """
    If a worker leaves just before a job is due, the claimed firing is kept for the next worker.

    After a second without a worker, the firing is released and uses no attempt.
    """
    hold(target, lambda firing: _End(record, firing), "taken", "left")
    (lease,) = target.lease("q", 1, 0, 60).result(0)
    assert lease.fire_id == "taken/1/1"
    clock.advance(0.99)
    assert record.items == []
    clock.advance(0.01)
    assert record.items == [("left/1/1", Snooze(0))]
    assert target.limits("q").places() == 1


@pytest.mark.parametrize(
    ("answer", "first", "later"),
    [
        (Answer(Outcome.SETTLED, None), None, None),
        (Answer(Outcome.NOT_FOUND, None), "set again or cancelled", "set again or cancelled"),
        (OSError("the disk is full"), "the disk is full", "never leased here"),
    ],
)
def test_a_repeat_is_answered_as_the_first(target, record, answer, first, later):
    """
    If an acknowledgement is repeated before it is written, the repeat waits and gets the same answer as the first.
    """
    (firing,) = hold(target, lambda firing: _End(record, firing), "k")
    (lease,) = target.lease("q", 1, 0, 60).result(0)
    both = [target.settle(lease.fire_id, None), target.settle(lease.fire_id, None)]
    refused = target.settle(lease.fire_id, Snooze(0))
    assert [each.done() for each in both] == [False, False]
    with pytest.raises(LeaseEndedError, match="acknowledged"):
        refused.result(0)
    assert len(record.items) == 1
    firing.stopping.written(answer)
    for done, said in (*((each, first) for each in both), (target.settle(lease.fire_id, None), later)):
        assert done.done()
        assert said is None if done.exception() is None else said in str(done.exception())


def test_an_acknowledgement_that_a_cancel_overtakes(target, record):
    """
    If a cancel is written before an acknowledgement, the acknowledgement is refused.

    So are all later acknowledgements of the job.
    """

    class Ended(_End):
        """
        Ends a firing, but finds that a cancel has ended it before.
        """

        def __call__(self, *_):
            """
            Mark the firing as stopped by the cancel, and return False.
            """
            self.firing.stopping.is_stopped = True
            self.firing.stopping.expire()
            return False

    hold(target, lambda firing: Ended(record, firing), "k")
    (lease,) = target.lease("q", 1, 0, 60).result(0)
    for _ in range(2):
        with pytest.raises(LeaseEndedError, match="its job was cancelled"):
            target.settle(lease.fire_id, None).result(0)


def test_a_firing_for_a_worker_that_had_left(target, record):
    """
    If a firing was started for a worker that had left, the next worker gets the firing, unless its job was cancelled.
    """
    gone = target.lease("q", 1, 60, 60)
    gone.set_running_or_notify_cancel = lambda: False  # the worker has hung up, but is still in the queue
    (firing,) = hold(target, lambda firing: _End(record, firing), "k")
    assert target.figures()["q"] == {"ready": 1, "leased": 0, "workers": 0}
    firing.stopping.expire()
    assert target.figures() == {}


def test_a_job_that_another_node_has_taken_over(target, record):
    """
    If a lease is released although the scheduler is not stopping, the worker learns that another process has the job.
    """
    (firing,) = hold(target, lambda firing: _End(record, firing), "k")
    (lease,) = target.lease("q", 1, 0, 60).result(0)
    firing.stopping.expire()
    assert target.figures() == {}
    with pytest.raises(LeaseEndedError, match="another process has taken its shard over"):
        target.extend(lease.fire_id, 60)
    with pytest.raises(LeaseEndedError, match="another process has taken its shard over"):
        target.settle(lease.fire_id, None).result(0)


class _Stopping:
    """
    The part of a firing that shows whether the firing is stopped.
    """

    is_stopped = overlap_cancelled = False
    expire = written = None


class _End:
    """
    The functions by which a target starts and ends a firing. They record the start and the end.
    """

    def __init__(self, record, firing):
        self.record, self.firing = record, firing

    def start(self):
        return lambda: None

    def __call__(self, result=None, _error=None, on_answer=None):
        """
        End the firing, and keep *on_answer*, which gets the store's answer.
        """
        self.record((self.firing.fire_id, result))
        self.firing.stopping.written = on_answer
        return True


def test_values_out_of_range_are_refused(scheduler, monkeypatch):
    """
    For a value out of range, the error names the argument.

    If the maximum number of workers already wait, another worker is refused.
    """
    for arguments, said in (
        ({"queue": ""}, "name the queue"),
        ({"queue": "q", "limit": 0}, "limit is 0"),
        ({"queue": "q", "limit": True}, "limit is True"),
        ({"queue": "q", "wait": 301}, "wait is 301"),
        ({"queue": "q", "seconds": 0}, "seconds is 0"),
        ({"queue": "q", "seconds": 1e300}, "seconds is 1e"),
    ):
        with pytest.raises(InvalidJobError, match=said):
            scheduler.lease(**arguments)
    with pytest.raises(InvalidJobError, match="pass delay= or is_dead=True, not both"):
        scheduler.nack("k/1/1", delay=5, is_dead=True)
    with pytest.raises(InvalidJobError, match="lone surrogate"):
        scheduler.nack("k/1/1", error="\ud800")
    with pytest.raises(InvalidJobError, match="name the queue"):
        scheduler.set("k", delay=1, target="pull")
    monkeypatch.setattr(pull, "_WAITING_MAX", 0)
    with pytest.raises(TooManyWaitingError, match="0 workers wait already"):
        scheduler.lease("q")


def test_a_queue_without_workers_delays_no_other_jobs(url, make, record):
    """
    If a queue has more due jobs than may be staged, other jobs fire on time, and a late worker gets the whole queue.
    """
    scheduler = make(url, options=SchedulerOptions(staged_max=100)).start()
    scheduler.handler("h")(record)
    scheduler.set_many([due(f"k{n:03}") for n in range(500)])
    scheduler.set("other", delay=0.2, handler="h", payload="other")
    assert record.wait(1) == ["other"]
    assert scheduler.cancel("k499").outcome is Outcome.CANCELLED
    found = []
    while len(found) < 499:
        leases = scheduler.lease("q", limit=40)
        found += [lease.job.key for lease in leases]
        for lease in leases:
            scheduler.ack(lease.fire_id)
    assert sorted(found) == [f"k{n:03}" for n in range(499)]
    assert scheduler.lease("q", wait=0.1) == []
