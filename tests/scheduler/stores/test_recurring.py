"""
Recurring jobs on server stores: long, late and failed runs, and the end of a series.

The clock of the server decides when a run is due.
"""

from __future__ import annotations

import json
import time

import pytest

from tickwheel.observe.events import JobDied, JobExpired, JobFailed, JobFired, JobSucceeded
from tickwheel.scheduler import RetryPolicy

EVERY_MS = 500


@pytest.mark.parametrize(("overlap", "least", "most"), [("skip", 0, 0), ("once", 1, 1), ("all", 3, 99)])
def test_after_a_long_run(server_url, make, events, until, overlap, least, most):  # noqa: PLR0917  fixtures
    """
    If a run lasts past three due times, the overlap policy decides whether none, one or all of them get a run.

    Then the series continues.
    """
    scheduler = make(server_url).start()
    told = events(scheduler)

    def runs():
        return [each.due_at for each in list(told.items) if isinstance(each, JobFired)]

    @scheduler.handler("h")
    def handler(_payload, firing):
        if len(runs()) == 1:
            end = (firing.job.due_at + 3.2 * EVERY_MS) / 1000
            time.sleep(max(0.0, end - time.time()))
        firing.progress(1, "done")

    scheduler.set("k", every=EVERY_MS / 1000, overlap=overlap, handler="h")
    until(lambda: [due_at for due_at in runs()[1:] if (due_at - runs()[0]) % EVERY_MS == 0])
    scheduler.cancel("k")
    between = [due_at for due_at in runs() if (due_at - runs()[0]) % EVERY_MS]
    assert least <= len(between) <= most
    assert {record.note for record in scheduler.history("k") if record.outcome == "succeeded"} == {"done"}


def test_overlap_cancel(server_url, make, events, until):
    """
    If a run still lasts when the next run is due, the older run is asked to stop.

    The next run begins when the older run has ended.
    """
    scheduler = make(server_url).start()
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3))
    def handler(_payload, firing):
        while sum(isinstance(each, JobFired) for each in list(told.items)) == 1:
            firing.heartbeat()
            time.sleep(0.001)

    scheduler.set("k", every=EVERY_MS / 1000, overlap="cancel", handler="h")
    until(lambda: sum(isinstance(each, JobFired) for each in list(told.items)) > 1)
    assert told.of(JobDied)[0].error == "its next run was due"
    scheduler.cancel("k")


@pytest.mark.parametrize("bound", ["until", "max_runs"])
def test_the_end_of_a_series(server_url, make, events, bound):
    """
    A series ends after the run at its last due time, or after its last permitted run. Its job is then removed.
    """
    scheduler = make(server_url)
    told, rules = events(scheduler), []
    scheduler.handler("h")(lambda _payload, firing: rules.append(json.loads(firing.job.recurrence)))
    scheduler.stats()  # opens the store now, because that may take long
    start = time.time() + 2
    end = {"until": start + 0.3} if bound == "until" else {"max_runs": 4}
    first = scheduler.set("k", at=start, every=0.1, misfire="all", handler="h", **end).job.due_at
    scheduler.start()
    told.wait_for(lambda: told.items and getattr(told.items[-1], "next_at", first) is None)
    done = [each.next_at for each in told.of(JobSucceeded)]
    assert done == [first + 100, first + 200, first + 300, None]
    assert [rule.get("runs", 0) for rule in rules] == [0, 1, 2, 3]
    assert [rule.get("until") for rule in rules] == [first + 300 if bound == "until" else None] * 4
    assert scheduler.get("k") is None
    assert scheduler.stats()["pending"] == 0


def test_skip_with_grace(server_url, make, events, until):
    """
    With misfire="skip", a missed run starts only if it is late by less than the grace time of its series.

    In either case the series keeps its schedule.
    """
    scheduler = make(server_url)
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    start = int(time.time())
    rule = {"at": start, "every": "1h", "misfire": "skip", "handler": "h"}
    dues = {grace: scheduler.set(grace, misfire_grace=grace, **rule).job.due_at for grace in ("30m", "1s")}
    until(lambda: time.time() * 1000 > max(dues.values()) + 1_100)
    scheduler.start()
    (begun,), (left_out,) = told.of(JobSucceeded), told.of(JobExpired)
    assert (begun.key, left_out.key) == ("30m", "1s")
    following = dict.fromkeys(dues, (start + 3_600) * 1_000)
    assert {each.key: each.next_at for each in (begun, left_out)} == following
    assert [each.key for each in told.of(JobFired)] == ["30m"]
    assert {job.key: job.due_at for job in scheduler.list().jobs} == following


def test_no_due_time_is_missed_during_a_retry(server_url, make, events):
    """
    With misfire="all", a series misses no due time while an earlier run is retried.

    Each due time that passes during the retry gets its own run.
    """
    scheduler = make(server_url)
    told, outcomes = events(scheduler), iter((ValueError("no"), None, None, None, None))

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=350, jitter=0))
    def handler(_payload):
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    first = scheduler.set("k", every=0.1, misfire="all", max_runs=4, handler="h").job.due_at
    scheduler.start()
    told.wait_for(lambda: told.items and getattr(told.items[-1], "next_at", first) is None)
    (failed,) = told.of(JobFailed)
    assert failed.retry_at >= first + 350
    assert [each.due_at for each in told.of(JobFired)] == [
        first,
        failed.retry_at,
        first + 100,
        first + 200,
        first + 300,
    ]
    assert [each.next_at for each in told.of(JobSucceeded)] == [first + 100, first + 200, first + 300, None]
    assert {record.outcome for record in scheduler.history("k")} >= {"failed", "succeeded"}
