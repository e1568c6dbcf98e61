"""
A cancel of a running job notifies every kind of handler.

The attempt is not retried.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.observe.events import JobCancelled, JobStopped
from tickwheel.scheduler import JobStoppedError, LeaseEndedError, Outcome, RetryPolicy, Snooze

RETRY = RetryPolicy(attempts=5)


def gone(scheduler, until, key="k"):
    """
    Wait until the job *key* no longer exists, and assert that its only attempt was stopped.
    """
    until(lambda: scheduler.get(key) is None)
    until(lambda: scheduler.stats()["stopped"] == 1)
    stats = scheduler.stats()
    assert (stats["fired"], stats["retried"], stats["dead_total"], stats["succeeded"]) == (1, 0, 0, 0)


def test_async(make, url, until, events):
    """
    An async handler is cancelled at its `await`, and the history, the events and the counts record a stop.
    """
    begun, ended = threading.Event(), threading.Event()
    scheduler = make(url).start()
    told = events(scheduler)

    @scheduler.handler("h")
    async def handler(_payload):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise

    scheduler.set("k", delay=0, handler="h", retry=RETRY)
    assert begun.wait(60)
    assert scheduler.cancel("k").outcome is Outcome.TOO_LATE
    answer = scheduler.cancel("k", running=True)
    assert answer.outcome is Outcome.STOPPING
    assert answer.job.key == "k"
    assert ended.wait(60)
    gone(scheduler, until)
    assert scheduler.cancel("k", running=True).outcome is Outcome.NOT_FOUND
    assert [record.outcome for record in scheduler.history("k")] == ["stopped"]
    assert told.of(JobCancelled)
    assert told.of(JobStopped)


def test_thread(make, url, until):
    """
    A handler on a thread can read that it was cancelled, and its heartbeat raises.

    A second cancel gets the same answer as the first.
    """
    begun, go_on, seen = threading.Event(), threading.Event(), []
    scheduler = make(url).start()

    @scheduler.handler("h")
    def handler(_payload, firing):
        seen.append(firing.cancelled)
        firing.heartbeat()
        begun.set()
        assert go_on.wait(60)
        seen.append(firing.cancelled)
        try:
            firing.heartbeat()
        except JobStoppedError as error:
            seen.append(error.fire_id)
            raise

    scheduler.set("k", delay=0, handler="h", retry=RETRY)
    assert begun.wait(60)
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    go_on.set()
    gone(scheduler, until)
    assert seen[:2] == [False, True]
    assert seen[2].startswith("k/")


def test_pull(make, url, until):
    """
    If a job is cancelled while a pull worker has it, the worker loses its lease of the job.

    The worker can then neither extend the lease nor acknowledge the job.
    """
    scheduler = make(url).start()
    scheduler.set("k", delay=0, target="pull", handler="q", retry=RETRY)
    [lease] = scheduler.lease("q", wait=60)
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    with pytest.raises(LeaseEndedError):
        scheduler.extend(lease.fire_id, 60)
    with pytest.raises(LeaseEndedError):
        scheduler.ack(lease.fire_id)
    gone(scheduler, until)


@pytest.mark.parametrize("result", [None, Snooze(0)])
def test_an_attempt_that_ends_on_its_own(make, url, until, result):
    """
    If an attempt succeeds although its job was cancelled, it is recorded as a success.

    After any other result there is no retry.
    """
    begun, go_on = threading.Event(), threading.Event()
    scheduler = make(url).start()

    @scheduler.handler("h")
    def handler(_payload):
        begun.set()
        assert go_on.wait(60)
        return result

    scheduler.set("k", delay=0, handler="h")
    assert begun.wait(60)
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    go_on.set()
    until(lambda: scheduler.get("k") is None)
    until(lambda: scheduler.stats()["succeeded" if result is None else "stopped"] == 1)


def test_recurring(make, url, events):
    """
    A cancel with `running=True` removes a running recurring job at once, and stops its run.
    """
    begun, ended = threading.Event(), threading.Event()
    scheduler = make(url).start()

    @scheduler.handler("h")
    async def handler(_payload):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    told = events(scheduler)
    scheduler.set("k", every=60, delay=0, handler="h")
    assert begun.wait(60)
    assert scheduler.cancel("k", running=True).outcome is Outcome.STOPPING
    assert scheduler.get("k") is None
    assert ended.wait(60)
    told.of(JobStopped)
    assert (scheduler.stats()["stopped"], scheduler.stats()["refused"]) == (1, 0)
    assert [each.outcome for each in scheduler.recent()] == ["stopped"]
    assert [each.outcome for each in scheduler.history("k")] == ["stopped", "stopping", "created"]


@pytest.mark.parametrize("again", ["stop", "cancel", "set"])
def test_the_outcome_of_a_run_whose_series_has_gone(make, url, until, again):
    """
    If a recurring job is stopped, cancelled or set again during a run, the history still gets the run's outcome.
    """
    begun, go_on = threading.Event(), threading.Event()
    scheduler = make(url).start()

    @scheduler.handler("h")
    def handler(_payload, firing):
        begun.set()
        assert go_on.wait(60)
        firing.heartbeat()

    first = scheduler.set("k", every=60, delay=0, handler="h").job
    assert begun.wait(60)
    if again != "set":
        scheduler.cancel("k", running=again == "stop")
    if again != "cancel":
        scheduler.set("k", every=60, handler="h", mode="restart")
    go_on.set()
    ends = ("stopped", "succeeded")

    def ended():
        return [each for each in scheduler.history("k") if each.outcome in ends]

    until(ended)
    (record,) = ended()
    assert (record.outcome, record.generation, record.attempt) == (ends[again != "stop"], first.generation, 1)
    until(lambda: scheduler.stats()["refused"] == (again != "stop"))  # the refusal is counted once the store has it


def test_pending(make, url):
    """
    A cancel with `running=True` also cancels pending jobs.
    """
    scheduler = make(url)
    scheduler.set("k", delay=60, handler="h")
    assert scheduler.cancel("k", running=True).outcome is Outcome.CANCELLED
    assert scheduler.cancel("k", running=True).outcome is Outcome.NOT_FOUND


def test_from_another_process(make, file_url, until):
    """
    If another process cancels a running job, the process that fires is notified through the store and stops the job.
    """
    begun, ended = threading.Event(), threading.Event()
    scheduler, client = make(file_url).start(), make(file_url)

    @scheduler.handler("h")
    async def handler(_payload):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    client.set("k", delay=0, handler="h", retry=RETRY)
    assert begun.wait(60)
    assert client.cancel("k", running=True).outcome is Outcome.STOPPING
    assert ended.wait(60)
    gone(scheduler, until)


def test_over_http(make, service_url):
    """
    A client of a service can also cancel a job with `running=True`.
    """
    client = make(service_url)
    client.set("k", delay=60, handler="h")
    assert client.cancel("k", running=True).outcome is Outcome.CANCELLED
