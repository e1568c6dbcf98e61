"""
The payload of a job does not fit its task.

The job waits, without using an attempt, for a node whose task accepts the payload.
"""

from __future__ import annotations

import logging

import pytest

from tickwheel.engine import _staging
from tickwheel.scheduler import InvalidJobError, task
from tickwheel.testing import InlineScheduler, ManualClock

pytest.importorskip("msgspec", reason="msgspec is not installed: pip install 'tickwheel[tasks]'")


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    if request.param == "redis":
        return request.getfixturevalue("redis_server").empty_url()
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


def versions(runs):
    """
    Return two versions of a task, which accept different payloads.
    """

    def old(number: int) -> None:
        runs.append(("old", number))

    def new(number: int, reason: str) -> None:
        assert reason == "x"
        runs.append(("new", number))

    return task(name="shop.cancel")(old), task(name="shop.cancel")(new)


def is_unroutable(scheduler, key):
    """
    Return True if the job is marked as unroutable.
    """
    job = scheduler.get(key)
    return job is not None and job.lacks_handler


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"numbr": 3}, "no parameter 'numbr'"),
        ({}, "needs 'number'"),
        ({"number": "three"}, "Expected `int`, got `str`"),
        ({"number": 3, "reason": "x"}, "no parameter 'reason'"),
        ([3], "arguments by name"),
        (None, "arguments by name"),
        (3, "arguments by name"),
    ],
)
def test_a_payload_that_does_not_fit(make, until, caplog, payload, reason):
    """
    A job whose payload does not fit stays pending, uses no attempt and shows the reason.

    The log names the reason once per handler.
    """
    runs = []
    scheduler = make("memory://")
    old, _ = versions(runs)
    scheduler.register(old)
    scheduler.start()
    with caplog.at_level(logging.WARNING, "tickwheel.scheduler"):
        for key in ("a", "b"):
            scheduler.set(key, handler="shop.cancel", payload=payload, delay=0)
        scheduler.set("good", old.of(1), delay=0)
        until(lambda: runs and is_unroutable(scheduler, "a") and is_unroutable(scheduler, "b"))
    job = scheduler.get("a")
    assert (job.state, job.attempt) == ("pending", 0)
    assert reason in job.error
    assert runs == [("old", 1)]
    assert scheduler.stats()["waiting_for_handler"][0]["count"] == 2
    assert [record.message for record in caplog.records if "does not fit" in record.message] != []
    assert len([record for record in caplog.records if "does not fit" in record.message]) == 1
    scheduler.set("a", old.of(2), delay=0)
    until(lambda: ("old", 2) in runs)


def test_a_recurring_job_waits_too(make, until):
    """
    A recurring job whose payload does not fit its task keeps its due time.

    It runs as soon as a task accepts the payload.
    """
    runs = []
    scheduler = make("memory://")
    old, _ = versions(runs)
    scheduler.register(old)
    scheduler.start()
    scheduler.set("k", handler="shop.cancel", payload={}, every=60, delay=0, max_runs=1)
    until(lambda: is_unroutable(scheduler, "k"))
    scheduler.set("k", old.of(5), every=60, delay=0, max_runs=1)
    until(lambda: runs == [("old", 5)])


@pytest.mark.parametrize("first", ["old", "new"])
def test_each_version_runs_its_own_jobs(make, url, until, first):
    """
    An owner makes no attempt with a payload that does not fit its task, and leaves the job to the next owner.
    """
    runs = []
    old, new = versions(runs)
    order = (old, new) if first == "old" else (new, old)
    for mine in order:
        scheduler = make(url)
        scheduler.register(mine)
        scheduler.start()
        if mine is order[0]:
            for number in range(3):
                scheduler.set(f"old/{number}", old.of(number), delay=0)
                scheduler.set(f"new/{number}", new.of(number, reason="x"), delay=0)
        kind = "old" if mine is old else "new"
        other = "new" if mine is old else "old"
        until(lambda: sorted(number for each, number in runs if each == kind) == [0, 1, 2])  # noqa: B023  used at once
        if mine is order[0]:
            until(lambda: all(is_unroutable(scheduler, f"{other}/{number}") for number in range(3)))  # noqa: B023  as above
            assert not any(each == other for each, _ in runs)
            assert scheduler.get(f"{other}/0").attempt == 0
            if url == "memory://":
                return
        scheduler.stop()
    assert len(runs) == 6


def test_many_payloads_of_a_handler_that_do_not_fit(make, until, monkeypatch):
    """
    If a payload does not fit, its job waits, even if the node has already found more such payloads than it remembers.

    A job with another payload still runs.
    """
    monkeypatch.setattr(_staging, "_UNFIT_MAX", 3)
    runs = []
    scheduler = make("memory://")
    old, _ = versions(runs)
    scheduler.register(old)
    scheduler.start()
    for number in range(6):
        scheduler.set(f"k{number}", handler="shop.cancel", payload={}, delay=0)
    until(lambda: all(is_unroutable(scheduler, f"k{number}") for number in range(6)))
    scheduler.set("good", old.of(1), delay=0)
    until(lambda: runs == [("old", 1)])
    assert all(is_unroutable(scheduler, f"k{number}") for number in range(6))


def test_a_misfit_is_not_claimed_repeatedly(make, until):
    """
    If a node has once found that a payload does not fit, it writes nothing more for the job.
    """
    runs = []
    scheduler = make("memory://")
    old, _ = versions(runs)
    scheduler.register(old)
    scheduler.start()
    scheduler.set("k", handler="shop.cancel", payload={}, delay=0)
    until(lambda: is_unroutable(scheduler, "k"))
    before = scheduler.stats()["commit"]["writes"]
    for number in range(20):
        scheduler.handler(f"another {number}")(print)  # each registration makes the node check the unroutable jobs
    scheduler.set("good", old.of(1), delay=0)
    until(lambda: runs)
    until(lambda: scheduler.get("good") is None)
    assert scheduler.stats()["commit"]["writes"] - before <= 4


def test_inline():
    """
    An inline scheduler also marks a job as unroutable if its payload does not fit.
    """
    runs = []
    clock = ManualClock()
    scheduler = InlineScheduler(clock).start()
    old, new = versions(runs)
    scheduler.register(old)
    scheduler.set("k", new.of(1, reason="x"), delay=1)
    scheduler.set("l", old.of(2), delay=2)
    clock.advance(5)
    assert runs == [("old", 2)]
    job = scheduler.get("k")
    assert (job.lacks_handler, job.attempt) == (True, 0)
    assert "no parameter 'reason'" in job.error
    scheduler.stop()


def test_an_annotation_that_comes_too_late(make, until):
    """
    If a task with unresolvable annotations is registered after the start, its jobs are marked as unroutable.
    """
    scheduler = make("memory://").start()

    def broken(number: Nowhere) -> None: ...  # noqa: F821  that is the point

    scheduler.task(name="broken")(broken)
    with pytest.raises(InvalidJobError, match="Nowhere"):
        task(name="other")(broken).of(3)
    scheduler.set("k", handler="broken", payload={"number": 1}, delay=0)
    until(lambda: is_unroutable(scheduler, "k"))
    assert "Nowhere" in scheduler.get("k").error
