"""
Bulk changes: one operation on all jobs that match a filter.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.jobs.model import Job
from tickwheel.jobs.query import has_field
from tickwheel.jobs.requests import When
from tickwheel.jobs.verbs import MoveJobs
from tickwheel.scheduler import (
    AsyncScheduler,
    InvalidJobError,
    Outcome,
    RetryPolicy,
    SchedulerOptions,
    SetRequest,
    State,
    StoreError,
    UnsupportedError,
)
from tickwheel.stores import make_store
from tickwheel.testing import InlineScheduler, ManualClock
from tickwheel.testing.faulty_store import FaultyStore

HOUR = 3600.0
ONCE = RetryPolicy(attempts=1)


@pytest.fixture(params=["memory", "sqlite", "service"])
def client(request, make, tmp_path):
    """
    Return a scheduler that was not started, on each kind of store and on a service.
    """
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path / 'jobs.db'}"}
    return make(urls.get(request.param, lambda: request.getfixturevalue("service_url"))())


def fill(client, count=10):
    """
    Set jobs of two handlers in turn, each a minute after the previous one.
    """
    requests = [
        SetRequest(f"job {n:04}", delay=HOUR + n * 60, handler=("h", "other")[n % 2], payload=n) for n in range(count)
    ]
    return [answer.job for answer in client.set_many(requests)]


def states(client, **filters):
    """
    Return the keys of the jobs that match *filters*.
    """
    return [job.key for job in client.list(**filters, limit=1000).jobs]


def test_a_dry_run_counts(client):
    """
    With `dry_run=True`, the jobs that a change would match are counted, and nothing is changed.
    """
    jobs = fill(client)
    answer = client.bulk("cancel", handler="h", due_from=jobs[4].due_at / 1000, dry_run=True)
    assert (answer.matched, answer.changed, answer.refused, answer.cursor) == (3, 0, 0, None)
    assert list(client.list().jobs) == jobs


def test_cancel(client):
    """
    A cancel by a filter cancels exactly the matching jobs, and reports its progress.
    """
    fill(client, 2100)
    seen = []
    answer = client.bulk("cancel", "job 1", handler="other", on_progress=seen.append)
    assert (answer.matched, answer.changed, answer.refused, answer.cursor) == (500, 500, 0, None)
    assert seen[-1] == answer
    assert len(client.bulk("cancel", contains="99").start) > 2
    assert client.bulk("cancel", contains="99").matched == 0
    assert not [key for key in states(client, prefix="job 1") if "99" in key or int(key[-1]) % 2]
    assert client.stats()["pending"] == 2100 - 500 - 30 + 5


def test_move_by_a_shift(client):
    """
    A bulk move shifts the due times of all matching jobs by the same length of time.

    The length may be negative, but no job moves into the past.
    """
    jobs = fill(client, 4)
    assert client.bulk("move", handler="h", shift="30m").changed == 2
    assert client.bulk("move", handler="other", shift=-2 * HOUR).changed == 2
    after = [client.get(job.key).due_at - job.due_at for job in jobs]
    assert after[0] == after[2] == 1_800_000
    assert all(-3_780_001 <= step <= -3_600_000 for step in (after[1], after[3]))  # the store rounds due times up


def test_spread(client):
    """
    Jobs with one due time are spread over a span.

    The new due time of each job within the span depends only on the job's key.
    """
    client.set_many([SetRequest(f"herd {n}", delay=HOUR, handler="h") for n in range(200)])
    since = client.get("herd 0").due_at / 1000
    dry = client.bulk("spread", "herd", over=600, since=since, dry_run=True)
    assert client.bulk("spread", "herd", over=600, since=since).changed == dry.matched == 200
    dues = sorted(job.due_at / 1000 - since for job in client.list("herd", limit=1000).jobs)
    assert dues[0] >= 0
    assert dues[-1] <= 600.01
    assert 240 < dues[100] < 360
    before = client.get("herd 7").due_at
    assert client.bulk("spread", "herd", over=600, since=since).changed == 200
    assert client.get("herd 7").due_at == before


def test_pause_and_resume(client):
    """
    A bulk pause pauses the matching jobs.

    A bulk resume resumes only the paused jobs that match.
    """
    fill(client, 6)
    answer = client.bulk("pause", handler="h", note="the disk is full")
    assert (answer.matched, answer.changed) == (3, 3)
    assert client.get("job 0002").pause.note == "the disk is full"
    assert states(client, paused=True) == ["job 0000", "job 0002", "job 0004"]
    assert client.bulk("resume", contains="2").changed == 1
    assert client.bulk("resume", "job").changed == 2
    assert client.bulk("resume", "job").matched == 0


def test_parts_and_repeats(client):
    """
    A bulk change that reached its limit is continued from the cursor in its answer.

    If the change is repeated from any of its cursors, no job is changed twice.
    """
    jobs = fill(client, 8)
    first = client.bulk("move", "job", shift=60, limit=3)
    assert (first.matched, first.changed) == (3, 3)
    assert client.bulk("move", "job", shift=60, limit=3, cursor=first.start).matched == 3
    assert client.bulk("move", "job", shift=60, cursor=first.cursor).matched == 2
    late = client.set("job 0003", delay=HOUR, handler="h").job
    for cursor in (first.start, first.cursor):
        assert client.bulk("move", "job", shift=60, cursor=cursor).matched == 0
    assert client.get("job 0003") == late
    steps = [client.get(job.key).due_at - job.due_at for job in jobs if job.key != late.key]
    assert set(steps) == {60_000}


def test_run(client):
    """
    A bulk run makes the matching jobs due now.
    """
    fill(client, 4)
    assert client.bulk("run", handler="h").changed == 2
    first, second = client.get("job 0000"), client.get("job 0001")
    assert second.due_at - first.due_at > 3_600_000


def test_by_payload(client):
    """
    A filter finds jobs by a part of their payload.

    If the payload is JSON, the filter can also name a field of the payload.
    """
    payloads = {
        "number": {"number": 17},
        "text": {"number": "17", "customer": {"city": "Z\u00fcrich", "vip": True}},
        "longer": {"number": 170, "customer": {"city": "Bern", "vip": None}},
        "mixed": {"path": 'a/"b"', "ratio": 1.5, "a.b": 1},
        "list": [{"number": 17}],
        "none": None,
    }
    client.set_many([SetRequest(key, delay=60, handler="h", payload=each) for key, each in payloads.items()])
    for fields, keys in (
        ({"payload": "number"}, "number text longer list"),
        ({"payload": "Z\u00fcrich"}, "text"),
        ({"field": "number=17"}, "number text"),
        ({"field": "customer.city=Z\u00fcrich"}, "text"),
        ({"field": "customer.vip=true"}, "text"),
        ({"field": "customer.vip=null"}, "longer"),
        ({"field": 'path=a/"b"'}, "mixed"),
        ({"field": "ratio=1.5", "payload": "path"}, "mixed"),
        ({"field": "number=17", "payload": "customer"}, "text"),
        ({"field": "number.city=17"}, ""),
        ({"field": "customer="}, ""),
    ):
        assert {job.key for job in client.list(**fields).jobs} == set(keys.split()), fields
    assert client.bulk("cancel", field="number=17").changed == 2
    assert client.get("number") is None
    assert client.get("list") is not None


@pytest.mark.parametrize(
    ("payload", "field", "has"),
    [
        (b'{"city": "Z\\u00fcrich"}', "city=Z\u00fcrich", True),
        (b'{"path": "a\\/b"}', "path=a/b", True),
        (b'{"number": 17', "number=17", False),
        (b"\x00\xff", "number=17", False),
        (b"[" * 100_000, "number=17", False),
        (b"", "number=17", False),
    ],
)
def test_payloads_of_other_programs(payload, field, has):
    """
    A payload written by another program is decoded for the filter.

    A payload that is not JSON has no fields.
    """
    assert has_field(Job("k", 0, 0, payload=payload), field) is has


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("explode", {"prefix": "a"}, "verb is 'explode'"),
        ("cancel", {}, "choose jobs by a filter"),
        ("cancel", {"handler": None, "paused": False}, "choose jobs by a filter"),
        ("cancel", {"contains": ""}, "contains is ''"),
        ("cancel", {"payload": ""}, "payload is ''"),
        ("cancel", {"field": "number"}, "field is 'number': pass NAME=VALUE"),
        ("cancel", {"field": "=17"}, "field is '=17': pass NAME=VALUE"),
        ("move", {"prefix": "a"}, "move needs it"),
        ("move", {"prefix": "a", "over": 5, "shift": 5}, "over is 5"),
        ("move", {"prefix": "a", "shift": 0}, "shift is 0: pass seconds other than 0"),
        ("spread", {"prefix": "a"}, "spread needs it"),
        ("cancel", {"prefix": "a", "since": 5}, "since is 5"),
        ("replay", {"state": "pending"}, "state is 'pending'"),
        ("run", {"state": "dead"}, "state is 'dead'"),
        ("cancel", {"prefix": "a", "limit": 0}, "limit is 0"),
        ("cancel", {"prefix": "a", "cursor": "job 1"}, "cursor is 'job 1'"),
        ("cancel", {"prefix": "a", "dry_run": 1}, "dry_run is 1"),
        ("cancel", {"prefix": "a", "running": 1}, "running is 1"),
        ("pause", {"prefix": "a", "running": True}, "pass it with cancel, not with pause"),
        ("cancel", {"running": True}, "choose jobs by a filter"),
    ],
)
def test_values_that_are_refused(client, verb, fields, said):
    """
    If a field of a bulk change does not fit its verb, the error names the field, and no job is changed.
    """
    with pytest.raises(InvalidJobError, match=said):
        client.bulk(verb, **fields)


def test_an_instant_of_zero_is_a_bound(client):
    """
    A bound of a filter may be 0 (the epoch). A filter for jobs that are due until 0 matches no job, not all jobs.
    """
    fill(client, 2)
    assert client.bulk("cancel", due_until=0).matched == 0


def test_no_name_for_a_service(make, service_url):
    """
    A client of a service cannot name the author of a pause.

    The service determines the author itself.
    """
    with pytest.raises(UnsupportedError, match="by='me'"):
        make(service_url).bulk("pause", "a", by="me")


def test_replay_by_error():
    """
    A bulk replay can select dead letters by their error, and can spread them over a span.

    A dead letter is replayed once, even if it fails again.
    """
    clock = ManualClock()
    scheduler = InlineScheduler(clock).start()

    def fail(payload):
        raise OSError(payload)

    scheduler.handler("h", retry=ONCE)(fail)
    for n in range(20):
        scheduler.set(f"k{n:02}", delay=0, handler="h", payload="timed out" if n % 2 else "refused")
    clock.advance(1)
    assert len(scheduler.list(state="dead").jobs) == 20
    answer = scheduler.bulk("replay", error="timed out", over=600)
    assert (answer.matched, answer.changed) == (10, 10)
    clock.advance(0.001)
    assert 8 <= scheduler.stats()["pending"] <= 10
    clock.advance(600)
    assert len(scheduler.list(state="dead").jobs) == 20
    assert scheduler.bulk("replay", error="timed out", cursor=answer.start).matched == 0
    assert scheduler.bulk("cancel", error="refused").matched == 0
    assert scheduler.bulk("cancel", error="refused", state="dead").changed == 10
    scheduler.stop()


def test_recurring_jobs_that_run(scheduler_that_holds):
    """
    A bulk change cancels and pauses a running recurring job, like the verbs for a single job.

    It leaves a running one-time job unchanged.
    """
    scheduler, is_running, go_on = scheduler_that_holds
    scheduler.set("once", delay=0, handler="waits")
    scheduler.set("often", delay=0, every=HOUR, handler="waits")
    is_running(2)
    assert scheduler.bulk("pause", handler="waits").changed == 1
    assert scheduler.bulk("cancel", handler="waits", state="pending").matched == 0
    assert scheduler.bulk("cancel", handler="waits").changed == 1
    assert scheduler.get("often") is None
    assert scheduler.get("once").state is State.RUNNING
    go_on()


def test_running_jobs_are_asked_to_stop(scheduler_that_holds, until):
    """
    With `running=True` running jobs are counted and asked to stop, whether or not there are pending jobs.

    Dead letters are not changed.
    """
    scheduler, is_running, go_on = scheduler_that_holds
    scheduler.handler("fails", retry=ONCE)(lambda _: 1 / 0)
    scheduler.set("k dead", delay=0, handler="fails")
    until(lambda: scheduler.list(state="dead").jobs)
    for key in ("k 1", "k 2", "other"):
        scheduler.set(key, delay=0, handler="waits")
    scheduler.set("k often", delay=0, every=HOUR, handler="waits")
    scheduler.set("k later", delay=HOUR, handler="waits")
    is_running(4)
    dry = scheduler.bulk("cancel", "k", state="running", running=True, dry_run=True)
    assert (dry.matched, dry.changed, dry.stopping) == (3, 0, 0)
    assert scheduler.get("k 1").expires_at is None
    answer = scheduler.bulk("cancel", "k", state="running", running=True, cursor=dry.start)
    assert (answer.matched, answer.changed, answer.refused, answer.stopping) == (3, 3, 0, 3)
    assert scheduler.get("k often") is None
    again = scheduler.bulk("cancel", "k", running=True)
    # running jobs that have not stopped yet are asked again
    assert (again.matched, again.changed, again.stopping) == (3, 3, 2)
    go_on()
    until(lambda: scheduler.stats()["stopped"] == 3)
    until(lambda: states(scheduler) == ["k dead"])
    assert scheduler.stats()["succeeded"] == 1  # the other job, which was not asked to stop


@pytest.mark.parametrize("count", [1, 3])
def test_many_by_key_are_asked_to_stop(scheduler_that_holds, until, count):
    """
    Many running jobs can be asked to stop by their keys.

    Each request gets its own answer.
    """
    scheduler, is_running, go_on = scheduler_that_holds
    keys = [f"k {number}" for number in range(count)]
    for key in keys:
        scheduler.set(key, delay=0, handler="waits")
    is_running(count)
    assert {answer.outcome for answer in scheduler.cancel_many(keys)} == {Outcome.TOO_LATE}
    answers = scheduler.cancel_many([*keys, "none"], running=True)
    assert [answer.outcome for answer in answers] == [*[Outcome.STOPPING] * count, Outcome.NOT_FOUND]
    go_on()
    until(lambda: scheduler.stats()["stopped"] == count)


def test_the_order_of_many_answers(tmp_path, make, record):
    """
    The answers to a cancel of many jobs have the order of the given keys.

    This holds even if the answer for one job takes longer than the answers for later keys.
    """
    url, gate = f"sqlite:///{tmp_path / 'jobs.db'}", threading.Event()
    owner = make(url, options=SchedulerOptions(workers=1))

    @owner.handler("waits")
    def wait(payload):
        record(payload)
        gate.wait(300)

    owner.start()
    client = make(url)
    due, far = [f"{{due}} {n}" for n in range(5)], [f"far {n:04}" for n in range(1_500)]
    client.set_many([SetRequest(key, delay=0, handler="waits") for key in due])
    client.set_many([SetRequest(key, delay=HOUR, handler="waits") for key in far])
    record.wait(1)
    keys = [*due, "none", *far]
    answers = client.cancel_many(keys)
    gate.set()
    assert [answer.job.key if answer.job else "none" for answer in answers] == keys
    assert [answer.outcome for answer in answers[1:]] == [
        *[Outcome.CANCELLED] * 4,
        Outcome.NOT_FOUND,
        *[Outcome.CANCELLED] * 1_500,
    ]


@pytest.fixture
def scheduler_that_holds(url, make, record):
    """
    Return a started scheduler, a function that waits until *n* handlers run, and a function that releases them.
    """
    gate = threading.Event()
    made = make(url)

    @made.handler("waits")
    def wait(payload, firing):
        record(payload)
        gate.wait(300)
        firing.heartbeat()

    yield made.start(), record.wait, gate.set
    gate.set()


def test_a_job_that_changes_during_a_bulk_change(monkeypatch):
    """
    If another caller changes a job during a bulk change, the other caller's change stays.

    The bulk change counts the job as refused.
    """
    inner = make_store("memory://")
    with_store = AsyncScheduler(FaultyStore(inner))

    async def run():
        with_store.handler("h")(print)
        for key in ("a", "b", "c"):
            await with_store.set(key, delay=HOUR, handler="h")
        page = inner.page
        meanwhile = []

        def page_then_change(query):
            found = page(query)
            if not meanwhile:
                meanwhile.append(with_store._core.client.submit(change))
                meanwhile[0].result()
            return found

        change = MoveJobs(("b",), When(delay=2 * HOUR))
        monkeypatch.setattr(inner, "page", page_then_change)
        answers = []
        answer = await with_store.bulk("cancel", handler="h", on_progress=answers.append)
        assert (answer.matched, answer.changed, answer.refused) == (3, 2, 1)
        assert (await with_store.get("b")).generation == meanwhile[0].result()[0].job.generation
        await asyncio.sleep(0)
        assert answers == [answer]
        await with_store.stop()

    asyncio.run(run())


def test_a_bulk_change_that_was_interrupted(make):
    """
    If a commit of a bulk change fails, the change can be continued from its last progress report.

    This holds even if the commit took effect.
    """
    store = FaultyStore(make_store("memory://"))
    scheduler = make(store)
    jobs = fill(scheduler, 6500)  # the change sends the fourth thousand after it has reported the first
    start = scheduler.bulk("move", "job", shift=60, dry_run=True).start
    seen = []

    def then_fail(answer):
        seen.append(answer)
        if len(seen) == 1:
            store.fail("apply", after=True, is_transient=False)

    with pytest.raises(StoreError):
        scheduler.bulk("move", "job", shift=60, cursor=start, on_progress=then_fail)
    rest = scheduler.bulk("move", "job", shift=60, cursor=seen[-1].cursor)
    assert seen[-1].changed + rest.changed < 6500
    assert scheduler.bulk("move", "job", shift=60, cursor=start).matched == 0
    assert {scheduler.get(job.key).due_at - job.due_at for job in jobs} == {60_000}
    assert scheduler.cancel("job 0000").outcome is Outcome.CANCELLED
