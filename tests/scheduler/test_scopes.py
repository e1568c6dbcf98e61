"""
Pausing and resuming a handler, a queue, a target, or all jobs.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.observe.events import JobFired, ScopePaused, ScopeResumed
from tickwheel.scheduler import (
    AsyncScheduler,
    InvalidJobError,
    Outcome,
    RetryPolicy,
    SchedulerOptions,
    SetRequest,
    State,
)
from tickwheel.stores import make_store
from tickwheel.testing import InlineScheduler, ManualClock
from tickwheel.testing.faulty_store import FaultyStore

PATIENCE_S = 60.0


@pytest.fixture
def scheduler(url, make, record):
    """
    Return a scheduler with two handlers.

    The handlers record their names.
    """
    return serving(make(url, options=SchedulerOptions(owner="me")), record)


def serving(scheduler, record):
    """
    Register the two handlers, and start the scheduler.
    """
    for name in ("mail", "print"):
        scheduler.handler(name)(lambda payload, name=name: record((name, payload)))
    return scheduler.start()


def test_a_handler(url, make, record, until, events):
    """
    The jobs of a paused handler wait without using an attempt, and are shown as paused, whenever they were set.

    Jobs of other handlers fire.
    """
    clock = ManualClock()
    scheduler = serving(make(url, clock=clock, options=SchedulerOptions(owner="me")), record)
    told = events(scheduler)
    scheduler.set("before", delay=0.2, handler="mail", payload=1)
    pause = scheduler.pause_scope("handler:mail", note="smtp is down")
    assert (pause.by, pause.note, pause.scope) == ("me", "smtp is down", "handler:mail")
    assert list(scheduler.paused_scopes()) == [pause]
    scheduler.set("after", delay=0, handler="mail", payload=2)
    scheduler.set("other", delay=0.3, handler="print", payload=3)
    clock.advance(1)
    assert record.wait(1) == [("print", 3)]
    until(lambda: scheduler.stats()["paused"] == 2)
    stats = scheduler.stats()
    assert stats["waiting_for_handler"] == []
    assert [(each["scope"], each["note"], each["count"]) for each in stats["paused_scopes"]] == [
        ("handler:mail", "smtp is down", 2)
    ]
    for job in (scheduler.get("before"), *scheduler.list(prefix="after").jobs):
        assert (job.state, job.attempt, job.lacks_handler, job.pause) == (State.PENDING, 0, False, pause)
    assert scheduler.resume_scope("handler:mail")
    assert sorted(record.wait(3)) == [("mail", 1), ("mail", 2), ("print", 3)]
    assert not scheduler.resume_scope("handler:mail")
    assert scheduler.stats()["paused_scopes"] == []
    (paused,) = told.of(ScopePaused)
    assert (paused.scope, paused.by, paused.note) == ("handler:mail", "me", "smtp is down")
    assert told.of(ScopeResumed)[0].scope == "handler:mail"
    records = scheduler.history("handler:mail")
    assert [(each.outcome, each.by, each.error) for each in records] == [
        ("resumed", "me", None),
        ("paused", "me", "smtp is down"),
    ]


@pytest.mark.parametrize(
    ("scope", "fired"),
    [("*", []), ("handler", ["queue"]), ("pull", ["mail", "print"]), ("pull:images", ["mail", "print"])],
)
def test_scopes(scheduler, record, until, scope, fired):
    """
    A target, a queue and all jobs can be paused like a handler.

    If the queue of a pull worker is paused, the worker gets no job.
    """
    scheduler.pause_scope(scope)
    scheduler.set_many(
        [
            SetRequest("m", delay=0, handler="mail"),
            SetRequest("p", delay=0, handler="print"),
            SetRequest("q", delay=0, target="pull", handler="images"),
        ]
    )
    until(lambda: scheduler.stats()["paused"] == 3 - len(fired))
    leases = scheduler.lease("images", wait=PATIENCE_S if "queue" in fired else 0.2)
    names = ["queue"] * len(leases) + [name for name, _ in record.wait(len(fired) - len(leases))]
    assert sorted(names) == sorted(fired)
    for lease in leases:
        scheduler.ack(lease.fire_id)
    scheduler.resume_scope(scope)
    record.wait(2)
    if not leases:
        assert len(scheduler.lease("images", wait=PATIENCE_S)) == 1


def test_overlapping(scheduler, record, until):
    """
    If a job is paused by its handler, by its target and with all jobs, it starts only after all three resumes.

    If a handler is paused twice, one resume ends the pause.
    """
    for scope in ("*", "handler", "handler:mail", "handler:mail"):
        scheduler.pause_scope(scope, note=f"for {scope}", by="you")
    scheduler.set("k", delay=0, handler="mail", payload=1)
    assert [pause.scope for pause in scheduler.paused_scopes()] == ["*", "handler", "handler:mail"]
    until(lambda: scheduler.stats()["paused"] == 1)
    for scope in ("*", "handler", "handler:mail"):
        assert scheduler.get("k").pause.scope == scope
        assert (scheduler.get("k").pause.by, record.items) == ("you", [])
        assert scheduler.resume_scope(scope)
    assert record.wait(1) == [("mail", 1)]


def test_claimed_jobs_that_wait_for_a_worker(make, url, record, until):
    """
    If a handler is paused, its claimed attempts that have not started are withdrawn.

    Its running attempts continue, and their retries wait.
    """
    scheduler = make(url, options=SchedulerOptions(workers=1)).start()
    begun, go_on = threading.Event(), threading.Event()

    def work(payload):
        begun.set()
        assert go_on.wait(PATIENCE_S)
        record(payload)
        if payload == "fails":
            raise ValueError(payload)

    scheduler.handler("work", concurrency=None)(work)
    told = []
    scheduler.subscribe(lambda event: told.append(event.key) if isinstance(event, JobFired) else None)
    scheduler.set("fails", delay=0, handler="work", payload="fails", retry=RetryPolicy(2, base_ms=10, jitter=0))
    assert begun.wait(PATIENCE_S)
    scheduler.set("waits", delay=0, handler="work", payload="waits")
    until(lambda: scheduler.stats()["waiting"] == 1)
    scheduler.pause_scope("handler:work")
    until(lambda: scheduler.stats()["paused"] == 1)
    job = scheduler.get("waits")
    assert (job.state, job.attempt, job.pause.scope) == (State.PENDING, 0, "handler:work")
    go_on.set()
    until(lambda: scheduler.stats()["paused"] == 2)
    assert (scheduler.get("fails").attempt, record.items, told) == (1, ["fails"], ["fails"])
    scheduler.resume_scope("handler:work")
    assert sorted(record.wait(3)) == ["fails", "fails", "waits"]


def test_verbs(scheduler, record, until):
    """
    A job of a paused handler can be set, moved, cancelled, paused and resumed like other jobs.

    The job still waits until the handler is resumed.
    """
    scheduler.pause_scope("handler")
    for key in ("set", "moved", "cancelled", "paused"):
        scheduler.set(key, delay=0, handler="mail", payload=key)
    until(lambda: scheduler.stats()["paused"] == 4)
    assert scheduler.set("set", delay=0, handler="mail", payload="again").outcome is Outcome.REPLACED
    assert scheduler.move("moved", delay=0).outcome is Outcome.MOVED
    assert scheduler.cancel("cancelled").outcome is Outcome.CANCELLED
    assert scheduler.pause("paused", note="itself").outcome is Outcome.PAUSED
    until(lambda: scheduler.stats()["paused"] == 3)
    assert scheduler.get("paused").pause.note == "itself"
    scheduler.resume_scope("handler")
    assert sorted(record.wait(2)) == [("mail", "again"), ("mail", "moved")]
    assert scheduler.resume("paused").outcome is Outcome.RESUMED
    assert record.wait(3)[2] == ("mail", "paused")


def test_another_process(file_url, make, record, until):
    """
    If another process pauses a handler, the pause takes effect within seconds and survives a change of owner.

    The pause ends when that process resumes the handler.
    """
    client, owner = make(file_url), make(file_url)
    owner.handler("mail")(record)
    owner.start()
    client.pause_scope("handler:mail")
    until(lambda: owner.stats()["paused_scopes"])
    client.set("k", delay=3, handler="mail", payload=1)
    until(lambda: client.stats()["paused"] == 1)
    owner.stop()
    successor = make(file_url)
    successor.handler("mail")(record)
    successor.start()
    successor.set("k2", delay=0, handler="mail", payload=2)
    until(lambda: client.stats()["paused"] == 2)
    assert record.items == []
    client.resume_scope("handler:mail")
    assert sorted(record.wait(2)) == [1, 2]


def test_nothing_is_staged_before_the_scopes_are_known(make, record, until):
    """
    An owner fires no job before it has read which handlers, queues and targets are paused.
    """
    store = FaultyStore(make_store("memory://"))
    scheduler = make(store)
    scheduler.handler("mail")(record)
    scheduler.handler("print")(record)
    scheduler.pause_scope("handler:mail")
    store.fail("scopes", times=2)
    for handler in ("mail", "print"):
        scheduler.set(handler, delay=0, handler=handler, payload=handler)
    scheduler.start()
    assert record.wait(1) == ["print"]
    until(lambda: scheduler.stats()["paused"] == 1)
    assert store.calls.count("scopes") > 2
    assert record.items == ["print"]


@pytest.mark.parametrize(("staged_max", "count"), [(300, 700), (1_500, 4_000)])
def test_many_are_resumed(make, record, staged_max, count):
    """
    If more jobs are resumed than fit into a scan or into memory, each of them runs once.
    """
    scheduler = make("memory://", options=SchedulerOptions(staged_max=staged_max)).start()
    scheduler.handler("mail")(record)
    scheduler.pause_scope("*")
    scheduler.set_many([SetRequest(f"k{number}", delay=0, handler="mail", payload=number) for number in range(count)])
    scheduler.resume_scope("*")
    assert sorted(record.wait(count)) == list(range(count))


def test_inline(record):
    """
    On an inline scheduler, a job of a paused handler does not fire when the clock moves.
    """
    clock = ManualClock()
    with InlineScheduler(clock) as scheduler:
        for name in ("mail", "print"):
            scheduler.handler(name)(record)
        scheduler.set("k", delay=5, handler="mail", payload=1)
        scheduler.set("other", delay=5, handler="print", payload=2)
        scheduler.pause_scope("handler:mail")
        clock.advance(10)
        assert record.items == [2]
        assert scheduler.get("k").pause.scope == "handler:mail"
        scheduler.resume_scope("handler:mail")
        clock.advance(0)
        assert record.items == [2, 1]


@pytest.mark.parametrize("scope", ["", ":mail", "handler:", "mail", 5, "handler:\x00", "handler:" + "x" * 3_000])
def test_bad_scopes(scheduler, scope):
    """
    A pause of an unknown target, or of an invalid name, is refused before anything is paused.
    """
    with pytest.raises(InvalidJobError):
        scheduler.pause_scope(scope)
    with pytest.raises(InvalidJobError):
        scheduler.pause_scope("handler:mail", note="x" * 1_001)
    for verb in (scheduler.pause_scope, scheduler.resume_scope):
        with pytest.raises(InvalidJobError, match="by is "):
            verb("*", by="x" * 1_001)
    assert list(scheduler.paused_scopes()) == []


def test_async_scheduler(record):
    """
    `AsyncScheduler` pauses and resumes a handler, queue or target by the same verbs.
    """

    async def run():
        async with AsyncScheduler("memory://") as scheduler:
            scheduler.handler("mail")(record)
            pause = await scheduler.pause_scope("handler:mail", note="why")
            assert list(await scheduler.paused_scopes()) == [pause]
            await scheduler.set("k", delay=0, handler="mail", payload=1)
            assert await scheduler.resume_scope("handler:mail")
            await asyncio.to_thread(record.wait, 1)

    asyncio.run(run())
