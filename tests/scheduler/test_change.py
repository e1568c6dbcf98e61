"""
Changes of some fields of a job.

The other fields stay the same.
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from tickwheel.jobs.recurrence import Cron, Exclusion, Recurrence
from tickwheel.scheduler import AsyncScheduler, InvalidJobError, Outcome, RetryPolicy, StoreError
from tickwheel.stores import make_store
from tickwheel.testing import InlineScheduler, ManualClock
from tickwheel.testing.faulty_store import FaultyStore

HOUR = 3600.0
HOUR_MS = 3_600_000


@pytest.fixture(params=["memory", "sqlite", "service"])
def client(request, make, tmp_path):
    """
    Return a scheduler that was not started, on each kind of store and on a service.
    """
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path / 'jobs.db'}"}
    return make(urls.get(request.param, lambda: request.getfixturevalue("service_url"))())


def kept(before, after, *changed):
    """
    Assert that *after* has the fields of *before*, except for the fields *changed* and a later generation.
    """
    assert after.generation > before.generation
    same = {name: getattr(after, name) for name in changed}
    assert after == replace(before, generation=after.generation, **same)


def test_one_field(client):
    """
    A named field gets its new value, which may be None.

    All other fields stay unchanged, including a pause.
    """
    retry = RetryPolicy(attempts=3)
    before = client.set("k", delay=HOUR, handler="h", target="pull", payload=[1], expires=60, retry=retry).job
    client.pause("k", note="why")
    before = client.get("k")
    for field, value, stored in (
        ("payload", {"to": "b"}, b'{"to":"b"}'),
        ("payload", None, b"null"),
        ("handler", "other", "other"),
        ("target", "log", "log"),
        ("retry", RetryPolicy(attempts=7), RetryPolicy(attempts=7)),
    ):
        answer = client.change("k", **{field: value})
        assert answer.outcome is Outcome.REPLACED
        after = client.get("k")
        kept(before, after, field)
        assert getattr(after, field) == stored
        before = after
    assert client.change("k", expires="2m").job.expires_at == before.due_at + 120_000
    assert client.change("k", expires=None).job.expires_at is None
    assert client.change("k", retry=None).job.retry == RetryPolicy()


def test_rule_in_parts(client):
    """
    A change keeps the parts of the rule that it does not name: phase, jitter, grace, exclusions and remaining runs.
    """
    rule = {"misfire": "skip", "misfire_grace": "90s", "overlap": "once", "max_runs": 9, "exclude": ["* 3 * * *"]}
    before = client.set(
        "k", every=3601.003, at=1_000_000_000.5, tz="Asia/Tokyo", jitter=77.7, handler="h", target="pull", **rule
    ).job
    facts = json.loads(before.recurrence)
    for field, value, stored in (
        ("overlap", "skip", {"overlap": "skip"}),
        ("max_runs", 4, {"max_runs": 4}),
        ("misfire_grace", 5, {"grace_ms": 5000}),
        ("misfire", "all", {"misfire": "all", "grace_ms": None}),
        ("until", 4_133_980_800, {"until": 4_133_980_800_000}),
        ("overlap", None, {"overlap": None}),
        ("until", None, {"until": None}),
        ("max_runs", None, {"max_runs": None}),
    ):
        after = client.change("k", **{field: value}).job
        facts = {name: each for name, each in (facts | stored).items() if each is not None}
        assert json.loads(after.recurrence) == facts, field
        assert after.due_at == before.due_at
    after = client.change("k", jitter=0).job
    facts["jitter_ms"] = 0
    assert json.loads(after.recurrence) == facts
    assert after.due_at == before.due_at  # the change keeps the run that is owed


def test_another_rule(client):
    """
    If a job gets another cron line, zone, interval or exclusion, the changed rule determines its due time.

    The other parts of the rule stay the same.
    """
    before = client.set("k", cron="0 9 * * *", tz="Europe/Berlin", max_runs=9, handler="h", target="pull").job
    after = client.change("k", cron="30 9 * * *").job
    assert (after.due_at - before.due_at) % (24 * HOUR_MS) == HOUR_MS // 2
    moved = client.change("k", tz="UTC").job
    assert moved.due_at % (24 * HOUR_MS) == 9.5 * HOUR_MS
    assert json.loads(moved.recurrence) == json.loads(after.recurrence) | {"tz": "UTC"}
    weekday = client.change("k", exclude=["* * * * SAT,SUN"]).job
    assert json.loads(weekday.recurrence)["exclude"] == ["* * * * SAT,SUN"]
    often = client.change("k", every="2h").job
    assert json.loads(often.recurrence)["every_ms"] == 2 * HOUR_MS
    assert json.loads(often.recurrence)["max_runs"] == 9
    assert "cron" not in json.loads(often.recurrence)
    phase = client.change("k", exclude=()).job
    assert json.loads(phase.recurrence)["anchor_at"] == json.loads(often.recurrence)["anchor_at"]
    assert (phase.due_at - json.loads(often.recurrence)["anchor_at"]) % (2 * HOUR_MS) == 0
    assert "every_ms" not in json.loads(client.change("k", cron="@daily").job.recurrence)


def test_refusals(client):
    """
    An invalid value raises an error that names the value.

    An unknown key and a wrong generation are reported as outcomes. The job stays unchanged in each case.
    """
    once = client.set("once", delay=HOUR, handler="h", target="pull").job
    often = client.set("often", every=HOUR, handler="h", target="pull", until=4_133_980_800).job
    for key, fields, said in (
        ("once", {}, "name what to change"),
        ("once", {"every": 5}, "fires once"),
        ("once", {"expires": -1}, "expires"),
        ("often", {"cron": "0 9 * *"}, "cron"),
        ("often", {"every": 5, "cron": "@daily"}, "not both"),
        ("often", {"until": 5}, "no run is due until then"),
        ("often", {"until": often.due_at / 1000 - 60}, "no run is due until then"),
        ("often", {"misfire_grace": 60}, "misfire_grace"),
        ("often", {"max_runs": 0}, "max_runs"),
        ("often", {"tz": "Mars/Base", "exclude": ["2030-01-01"]}, "tz"),
    ):
        with pytest.raises(InvalidJobError, match=said):
            client.change(key, **fields)
    with pytest.raises(TypeError, match="delay"):
        client.change("once", delay=5)
    assert client.change("nobody", payload=1).outcome is Outcome.NOT_FOUND
    assert client.change("once", payload=1, if_generation=once.generation + 99).outcome is Outcome.WRONG_GENERATION
    assert client.change("once", payload=1, if_generation=once.generation).outcome is Outcome.REPLACED
    assert client.get("often") == often


def test_a_run_that_is_retried():
    """
    A run that waits for its retry keeps its attempts, error and due time.

    The retry uses the changed fields.
    """
    clock, seen = ManualClock(), []
    scheduler = InlineScheduler(clock).start()

    @scheduler.handler("h", retry=RetryPolicy(attempts=3, kind="list", waits_ms=(60_000,), jitter=0.0))
    def handler(payload, firing):
        seen.append((payload, firing.attempt))
        if payload == "bad":
            message = "no such address"
            raise LookupError(message)

    for key, rule in (("once", {"delay": 10}), ("often", {"every": HOUR, "delay": 10, "overlap": "once"})):
        scheduler.set(key, handler="h", payload="bad", **rule)
    clock.advance(11)
    assert len(seen) == 2
    before = [scheduler.get(key) for key in ("once", "often")]
    scheduler.change("once", payload="good")
    after = scheduler.change("often", payload="good", every=2 * HOUR).job
    assert (after.attempt, after.error, after.due_at) == (1, before[1].error, before[1].due_at)
    assert json.loads(after.recurrence)["run_at"] > json.loads(before[1].recurrence)["run_at"]
    kept(before[0], scheduler.get("once"), "payload")
    clock.advance(61)
    assert seen[2:] == [("good", 2)] * 2
    assert scheduler.get("once") is None
    scheduler.stop()


def test_a_running_job(make, url, until):
    """
    A change of a running one-time job is refused, because it comes too late.

    A change of a running recurring job takes effect after the run. Neither change makes the job fire again.
    """
    begun, go_on = threading.Semaphore(0), threading.Event()
    scheduler = make(url)

    @scheduler.handler("h")
    def handler(_payload):
        begun.release()
        go_on.wait(60)

    scheduler.start()
    for key, rule in (("once", {}), ("often", {"every": HOUR})):
        scheduler.set(key, delay=0, handler="h", **rule)
        assert begun.acquire(timeout=60)
        expected = Outcome.TOO_LATE if key == "once" else Outcome.CHANGED
        assert scheduler.change(key, payload=2).outcome is expected
        assert scheduler.get(key).payload == b"null"
    go_on.set()
    until(lambda: scheduler.get("often").payload == b"2")
    assert not begun.acquire(blocking=False)


def test_an_interval_keeps_its_zone(client):
    """
    The zone of an interval applies to its exclusions, even to exclusions that are added later.

    A change of the zone moves no run.
    """
    job = client.set("k", every="15m", tz="America/New_York", handler="h", target="pull").job
    assert client.change("k", exclude=["2040-01-01"]).job.recurrence == json.dumps(
        json.loads(job.recurrence) | {"exclude": ["2040-01-01"]}, sort_keys=True, separators=(",", ":")
    )
    assert json.loads(job.recurrence)["tz"] == "America/New_York"
    client.change("k", exclude=[])
    moved = client.change("k", tz="Asia/Tokyo").job
    assert (moved.due_at, moved.recurrence) == (job.due_at, job.recurrence.replace("America/New_York", "Asia/Tokyo"))
    client.change("k", tz="UTC", exclude=["2040-01-01"])
    by_line = client.change("k", cron="TZ=Asia/Tokyo 0 9 * * *").job
    assert Recurrence.from_text(by_line.recurrence) == Recurrence(
        Cron.parse("0 9 * * *", "Asia/Tokyo"), exclude=(Exclusion.parse("2040-01-01", "Asia/Tokyo"),)
    )


def changing(store, key, times, monkeypatch, write):
    """
    Call *write* just after each of the first *times* reads of *key*.

    The call plays the part of another caller's write.
    """
    read, left = store.get, [None] * times

    def read_then_change(asked):
        job = read(asked)
        if left and asked == key:
            left.pop()
            write(job)
        return job

    monkeypatch.setattr(store, "get", read_then_change)


def test_writes_of_others_during_a_change(monkeypatch):
    """
    If another caller writes during a change, the change does not undo that write.

    If other callers write again and again, the change fails with a transient error.
    """
    store = make_store("memory://")
    scheduler = AsyncScheduler(FaultyStore(store))

    async def run():
        scheduler.handler("h")(print)
        first = (await scheduler.set("k", delay=HOUR, handler="h", payload=1)).job
        loop = asyncio.get_running_loop()

        def move(_job):
            asyncio.run_coroutine_threadsafe(scheduler.move("k", delay=2 * HOUR), loop).result()

        changing(store, "k", 2, monkeypatch, move)
        after = (await scheduler.change("k", payload=2)).job
        assert after.payload == b"2"
        assert after.due_at - first.due_at > HOUR_MS - 1000
        changing(store, "k", 100, monkeypatch, move)
        with pytest.raises(StoreError, match="changed by others") as caught:
            await scheduler.change("k", payload=3)
        assert caught.value.is_transient
        await scheduler.stop()

    asyncio.run(run())
