"""
Declaring a manifest makes its jobs match the program.

A declaration loses no run that is due or missed.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import threading

import pytest

from tickwheel.scheduler import (
    AsyncScheduler,
    DeadLetter,
    InvalidJobError,
    Outcome,
    RetryPolicy,
    Schedule,
    SetRequest,
    State,
    StoreError,
    task,
)
from tickwheel.stores import MemoryStore, make_store
from tickwheel.testing import InlineScheduler, ManualClock

HOUR = 3_600
NUMBERS = itertools.count()
STORES = ["memory", "sqlite", "postgres", "redis", "partitions"]


def url_of(kind, request, tmp_path):
    """
    Return the URL of an empty store of the given *kind*, or of a service.
    """
    if kind == "http":
        return request.getfixturevalue("service_url")
    if kind in {"memory", "sqlite"}:
        return "memory://" if kind == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    if kind == "postgres":
        return request.getfixturevalue("postgres_url")
    server, partitions = request.getfixturevalue("redis_server"), 3 if kind == "partitions" else 1
    return server.url(f"?prefix=declare-{next(NUMBERS)}&partitions={partitions}")


@pytest.fixture(params=STORES)
def any_url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    return url_of(request.param, request, tmp_path)


@pytest.fixture(params=[kind for kind in STORES if kind != "memory"])
def durable_url(request, tmp_path):
    """
    Return the URL of an empty store that outlives its process, for each kind of store.
    """
    return url_of(request.param, request, tmp_path)


@pytest.fixture(params=[*STORES, "http"])
def client(request, make, tmp_path):
    """
    Return a scheduler that was not started, on each kind of store and on a service.
    """
    return make(url_of(request.param, request, tmp_path))


def hourly(*keys, every=HOUR, **fields):
    """
    Return a schedule with the given *fields* for each of *keys*.
    """
    return [Schedule(key, every=every, handler="h", **fields) for key in keys]


def shown(answer):
    """
    Return the outcome of each key in *answer*.
    """
    return {key: outcome.value for key, outcome in answer.outcomes.items()}


def test_a_program_that_starts_often(client):
    """
    The first declaration creates the jobs.

    An equal declaration writes nothing, and a changed one writes only the differences.
    """
    first = client.declare(hourly("b", "a"), manifest="billing")
    assert (first.manifest, first.outcome, first.revision) == ("billing", Outcome.CHANGED, None)
    assert [job.key for job in first.jobs] == ["b", "a"]
    assert shown(first) == {"b": "created", "a": "created"}
    before = client.list().jobs
    assert [(job.key, job.manifest) for job in before] == [("a", "billing"), ("b", "billing")]
    for spelling in ("1h", "PT60M", 3600.0):
        again = client.declare(hourly("a", "b", every=spelling), manifest="billing")
        assert (again.outcome, shown(again)) == (Outcome.UNCHANGED, {"a": "unchanged", "b": "unchanged"})
    assert client.list().jobs == before
    changed = client.declare([*hourly("c", "b"), *hourly("d", payload=[1])], manifest="billing")
    assert shown(changed) == {"c": "created", "b": "unchanged", "d": "created", "a": "cancelled"}
    assert changed.jobs[0].job == client.get("c")
    assert changed.jobs[-1].job == before[0]
    assert client.get("a") is None
    assert [job.key for job in client.list(manifest="billing").jobs] == ["b", "c", "d"]
    assert shown(client.declare(hourly("b", every=7200), manifest="billing"))["b"] == "changed"


def test_a_dry_run(client):
    """
    A dry run returns the same answer as the declaration, with each job before and after, and writes nothing.
    """
    client.declare(hourly("stays", "goes", "alters"), manifest="m")
    before = client.list().jobs
    wanted = [*hourly("stays", "comes"), *hourly("alters", every=2 * HOUR, payload=1)]
    tried = client.declare(wanted, manifest="m", dry_run=True)
    assert client.list().jobs == before
    jobs = {job.key: job for job in tried.jobs}
    assert {job.key for job in before} == {key for key, job in jobs.items() if job.before is not None}
    assert (jobs["comes"].before, jobs["goes"].job) == (None, None)
    assert (jobs["alters"].before.payload, jobs["alters"].job.payload) == (b"null", b"1")
    done = client.declare(wanted, manifest="m")
    assert (done.outcome, shown(done)) == (tried.outcome, shown(tried))
    again = client.declare(wanted, manifest="m", dry_run=True)
    assert (again.outcome, set(shown(again).values())) == (Outcome.UNCHANGED, {"unchanged"})


def test_keys_of_others(client):
    """
    A declaration adopts a job that belongs to no manifest, without changing it.

    If a key belongs to another manifest, the declaration is refused, and the error names both manifests.
    """
    own = client.set("k", every=HOUR, handler="h", payload=1).job
    taken = client.declare([*hourly("k", payload=1), *hourly("other")], manifest="first")
    assert shown(taken) == {"k": "unchanged", "other": "created"}
    job = client.get("k")
    assert (job.manifest, job.generation, job.due_at) == ("first", own.generation, own.due_at)
    before = client.list().jobs
    for dry_run in (True, False):
        with pytest.raises(InvalidJobError, match=r"'k'.*'first'"):
            client.declare(hourly("a", "k", "z"), manifest="second", dry_run=dry_run)
    assert client.list().jobs == before
    with pytest.raises(InvalidJobError, match="'first'"):
        client.set("k", every=HOUR, handler="h", manifest="second")
    assert client.set("k", every=HOUR, handler="h", payload=2).job.manifest == "first"
    client.set("loose", every=HOUR, handler="h")
    assert shown(client.declare(hourly("k", payload=2), manifest="first")) == {"k": "unchanged", "other": "cancelled"}
    assert client.get("loose") is not None


def test_revisions(client):
    """
    A declaration with an older revision than the last declaration changes nothing, unless it is a rollback.

    A declaration without a revision keeps the newest known revision.
    """
    assert client.declare(hourly("new"), manifest="m", revision=7).revision == 7
    before = client.list().jobs
    for revision in (6, 1, 0):
        answer = client.declare(hourly("old"), manifest="m", revision=revision)
        assert (answer.outcome, answer.revision, answer.jobs) == (Outcome.SUPERSEDED, 7, ())
    assert client.list().jobs == before
    assert client.declare(hourly("new"), manifest="m", revision=7).outcome is Outcome.UNCHANGED
    assert client.declare(hourly("new", "any"), manifest="m").revision == 7
    assert client.declare(hourly("old"), manifest="m", revision=6).outcome is Outcome.SUPERSEDED
    back = client.declare(hourly("old"), manifest="m", revision=5, rollback=True)
    assert (back.revision, shown(back)) == (5, {"old": "created", "any": "cancelled", "new": "cancelled"})
    assert client.declare(hourly("next"), manifest="m", revision=6).revision == 6


def test_an_empty_list(client):
    """
    An empty list is refused unless it is allowed explicitly.

    If it is allowed, it cancels only the jobs of this manifest.
    """
    client.declare(hourly("a", "b"), manifest="m")
    client.declare(hourly("c"), manifest="other")
    with pytest.raises(InvalidJobError, match="allow_empty=True"):
        client.declare([], manifest="m")
    assert shown(client.declare([], manifest="m", allow_empty=True)) == {"a": "cancelled", "b": "cancelled"}
    assert client.declare([], manifest="m", allow_empty=True).outcome is Outcome.UNCHANGED
    assert [job.key for job in client.list().jobs] == ["c"]


@pytest.mark.parametrize(
    ("schedules", "fields", "value"),
    [
        ([Schedule("a", delay=5, handler="h")], {}, "every"),
        ([*hourly("a"), *hourly("a")], {}, "'a'"),
        (hourly("a", mode="keep"), {}, "mode"),
        (hourly("a", mode="restart"), {}, "mode"),
        (hourly("a", max_wait=5), {}, "max_wait"),
        (hourly("a", if_generation=0), {}, "if_generation"),
        (hourly("a", manifest="other"), {}, "manifest"),
        (hourly("a", every=-1), {}, "every"),
        (hourly(""), {}, "key"),
        (["a"], {}, "schedule"),
        (Schedule("a", every=5, handler="h"), {}, "schedules"),
        ("ab", {}, "schedules"),
        (hourly("a"), {"manifest": ""}, "manifest"),
        (hourly("a"), {"manifest": "x" * 256}, "manifest"),
        (hourly("a"), {"manifest": "é" * 128}, "manifest"),
        (hourly("a"), {"manifest": "a\0b"}, "manifest"),
        (hourly("a"), {"manifest": None}, "manifest"),
        (hourly("a"), {"revision": -1}, "revision"),
        (hourly("a"), {"revision": True}, "revision"),
        (hourly("a"), {"revision": "7"}, "revision"),
        (hourly("a"), {"revision": 2**53}, "revision"),
        (hourly("a"), {"rollback": True}, "rollback"),
        (hourly("a"), {"rollback": 1, "revision": 1}, "rollback"),
        (hourly("a"), {"dry_run": None}, "dry_run"),
        ([], {"allow_empty": 1}, "allow_empty"),
    ],
)
def test_invalid_declarations(make, schedules, fields, value):
    """
    An invalid declaration is refused before it changes anything.

    The error names the fault.
    """
    client = make("memory://")
    with pytest.raises(InvalidJobError, match=value):
        client.declare(schedules, **{"manifest": "m"} | fields)
    assert client.list().jobs == ()


def test_a_manifest_is_of_recurring_jobs(make):
    """
    A one-time job belongs to no manifest.

    If it replaces a job of a manifest, the key leaves the manifest.
    """
    client = make("memory://")
    with pytest.raises(InvalidJobError, match="manifest"):
        client.set("once", delay=5, handler="h", manifest="m")
    client.declare(hourly("a"), manifest="m")
    client.set("a", delay=5, handler="h")
    assert client.get("a").manifest is None
    assert shown(client.declare(hourly("a"), manifest="m")) == {"a": "replaced"}
    client.cancel("a")
    assert shown(client.declare(hourly("a"), manifest="m")) == {"a": "created"}


def test_a_call_of_a_task(make):
    """
    A schedule may be given as a call of a task. The task determines handler, payload and policy.

    The schedule equals a schedule in which these fields are given explicitly.
    """

    @task(name="report", retry=RetryPolicy(attempts=2))
    def report(region: str, days: int = 7) -> None: ...

    client = make("memory://")
    first = client.declare([Schedule("k", report.of("north", days=1), every=HOUR)], manifest="m")
    job = first.jobs[0].job
    assert (job.handler, job.payload) == (report.name, b'{"region":"north","days":1}')
    assert job.retry.attempts == 2
    same = Schedule("k", handler=report.name, payload={"days": 1, "region": "north"}, every=HOUR, retry=job.retry)
    assert shown(client.declare([same], manifest="m")) == {"k": "unchanged"}
    assert shown(client.declare([Schedule("k", report.of("south"), every=HOUR)], manifest="m")) == {"k": "changed"}
    with pytest.raises(InvalidJobError, match="payload"):
        client.declare([Schedule("k", report.of("south"), every=HOUR, payload=1)], manifest="m")
    with pytest.raises(InvalidJobError, match="of"):
        client.declare([Schedule("k", report, every=HOUR)], manifest="m")


def test_names(client):
    """
    A manifest may have any name of valid length.

    A list of jobs can be filtered by exactly that name.
    """
    names = ["m", "m/2", "..", "a b?c#d%41", "é" * 127, "x" * 255, "'; --", "M"]
    for number, name in enumerate(names):
        client.declare(hourly(f"key {number}"), manifest=name)
    for number, name in enumerate(names):
        assert [job.key for job in client.list(manifest=name).jobs] == [f"key {number}"]
        assert client.declare(hourly(f"key {number}"), manifest=name).outcome is Outcome.UNCHANGED


def test_a_series_that_has_ended_stays_ended():
    """
    A series that has made its last run is not created again by the next declaration, unless its rule has changed.
    """
    clock, ran = ManualClock(), []
    scheduler = InlineScheduler(clock)
    scheduler.handler("h")(ran.append)
    scheduler.start()
    until = clock.wall_ns() / 1e9 + 1.5 * HOUR
    wanted = [
        *hourly("twice", max_runs=2, payload="twice"),
        *hourly("until", until=until, payload="until"),
        *hourly("both", max_runs=9, until=until, payload="both"),
    ]
    scheduler.declare(wanted, manifest="m")
    for _ in range(6):
        clock.advance(HOUR)
        last = scheduler.declare(wanted, manifest="m")
    assert shown(last) == dict.fromkeys(["twice", "until", "both"], "finished")
    assert last.outcome is Outcome.UNCHANGED
    assert sorted(ran) == ["both", "twice", "twice", "until"]
    other = hourly("twice", max_runs=2, payload="twice", misfire="all")
    assert shown(scheduler.declare(other, manifest="m")) == {"twice": "finished"}, "the same runs"
    assert shown(scheduler.declare(hourly("twice", max_runs=3), manifest="m")) == {"twice": "created"}
    scheduler.cancel("twice")
    assert shown(scheduler.declare(hourly("twice", max_runs=3), manifest="m")) == {"twice": "finished"}
    assert shown(scheduler.declare(hourly("twice"), manifest="m")) == {"twice": "created"}
    scheduler.cancel("twice")
    assert shown(scheduler.declare(hourly("twice"), manifest="m")) == {"twice": "created"}
    scheduler.stop()


def test_the_number_of_remembered_rules_is_bounded(make):
    """
    A manifest remembers the latest rules of its jobs, but only a limited number, and only rules with `max_runs`.
    """
    store = MemoryStore()
    client = make(store)
    for turn in range(20):
        client.declare([*hourly(f"run {turn}", max_runs=1), *hourly("any")], manifest="m")
    (manifest,) = store.manifests()
    assert (manifest.rules.count("max_runs"), manifest.rules.count("run 19"), manifest.version) == (1, 1, 20)


def test_missed_runs_and_retries_survive():
    """
    A declaration leaves missed runs, retries, pauses and dead letters as they are, like setting the same job again.
    """
    clock, ran, results = ManualClock(), [], []
    scheduler = InlineScheduler(clock)
    scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=600_000, jitter=0))(
        lambda _, firing: (ran.append(firing.attempt), results.pop(0) if results else None)[1]
    )
    declare = lambda: shown(scheduler.declare(hourly("k"), manifest="m"))["k"]  # noqa: E731  the same each time
    assert declare() == "created"
    clock.jump(HOUR + 60)  # no process fires
    assert declare() == "unchanged"
    scheduler.start()
    clock.advance(1)
    assert ran == [1], "a run that was missed"
    scheduler.pause("k")
    assert declare() == "unchanged"
    assert scheduler.get("k").pause is not None
    scheduler.resume("k")
    results.append(DeadLetter("no"))
    clock.advance(HOUR)
    assert scheduler.get("k").state is State.DEAD
    assert declare() == "dead"
    assert scheduler.get("k").state is State.DEAD
    scheduler.stop()


def test_while_a_run_is_under_way(make, any_url):
    """
    A declaration does not wait for a running attempt, and does not disturb it.

    If the declaration changes or removes the job, this takes effect after the attempt.
    """
    begun, go_on, ended = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
    node, client = make(any_url), make(any_url) if "memory" not in any_url else None
    client = client or node

    @node.handler("h")
    def handler(_payload):
        begun.release()
        assert go_on.wait(60)
        ended.release()

    node.start()
    try:
        client.declare(hourly("stays", "alters", "goes", delay=0), manifest="m")
        for _ in range(3):
            assert begun.acquire(timeout=60)
        wanted = [*hourly("stays"), *hourly("alters", payload=2)]
        answer = client.declare(wanted, manifest="m")
        assert shown(answer) == {"stays": "unchanged", "alters": "changed", "goes": "cancelled"}
        assert shown(client.declare(wanted, manifest="m")) == {"stays": "unchanged", "alters": "unchanged"}
        assert client.get("goes") is None
    finally:
        go_on.set()
    for _ in range(3):
        assert ended.acquire(timeout=60)


def test_two_at_once(make, any_url):
    """
    If two programs declare a manifest at the same time, the result is exactly one of the two declarations.
    """
    clients = [make(any_url) for _ in range(2)] if "memory" not in any_url else [make(any_url)] * 2
    lists = [hourly(*"abcd", payload=1), hourly(*"cdef", every=7200, payload=2)]
    keys = [["a", "b", "c", "d"], ["c", "d", "e", "f"]]
    for client in clients:
        client.list()
    for turn in range(5):
        barrier = threading.Barrier(2)

        def declare(number, barrier=barrier):
            barrier.wait()
            clients[number].declare(lists[number], manifest="m")

        threads = [threading.Thread(target=declare, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        jobs = clients[0].list(manifest="m").jobs
        payloads = {job.payload for job in jobs}
        assert len(payloads) == 1, turn
        assert [job.key for job in jobs] == keys[int(payloads.pop()) - 1], turn
        clients[0].declare([], manifest="m", allow_empty=True)


def test_many_that_start_at_once(make, any_url):
    """
    If many nodes declare the same manifest at once, each job is created once, with one generation.
    """
    clients = [make(any_url) for _ in range(4)] if "memory" not in any_url else [make(any_url)] * 4
    barrier, answers = threading.Barrier(4), []

    def declare(client):
        client.list()
        barrier.wait()
        answers.append(client.declare(hourly(*"abc"), manifest="m", revision=1))

    threads = [threading.Thread(target=declare, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    created = [key for answer in answers for key, outcome in shown(answer).items() if outcome == "created"]
    assert len(answers) == 4
    assert sorted(created) == ["a", "b", "c"]


def test_a_declaration_between_two_partitions(request, make, tmp_path, monkeypatch):
    """
    If two declarations write the partitions of a store at the same time, each change is in one of the two answers.

    No change is missing or reported twice.
    """
    url = url_of("partitions", request, tmp_path)
    store = make_store(url)
    client, other = make(store), make(url)
    keys = [f"key {number}" for number in range(20)]
    client.declare(hourly("gone", *keys[:10]), manifest="m")
    last = store.partitions[-1]
    theirs = []

    def overtaken(writes):
        if not theirs:
            theirs.append(other.declare(hourly(*keys), manifest="m"))
        return apply(writes)

    apply = last.apply
    monkeypatch.setattr(last, "apply", overtaken)
    mine = client.declare(hourly(*keys), manifest="m")
    assert {mine.outcome, theirs[0].outcome} == {Outcome.CHANGED}
    changed = [key for answer in (mine, *theirs) for key, found in shown(answer).items() if found != "unchanged"]
    assert sorted(changed) == sorted(["gone", *keys[10:]])
    assert {job.key for job in client.list(manifest="m").jobs} == set(keys)


def test_one_commit(make, any_url, monkeypatch):
    """
    A declaration is one commit per partition, however many jobs it has.

    If the store fails, all of these jobs are written or none.
    """
    store = make_store(any_url)
    client = make(store)
    client.declare(hourly("first"), manifest="m")
    parts = list(getattr(store, "partitions", ())) or [store]
    batches = []

    def watched(apply):
        def call(writes):
            batches.append(len(writes))
            return apply(writes)

        return call

    for part in parts:
        monkeypatch.setattr(part, "apply", watched(part.apply))
    keys = [f"key {number}" for number in range(1_100)]
    answer = client.declare(hourly(*keys), manifest="m")
    assert set(list(answer.outcomes.values())[:-1]) == {Outcome.CREATED}
    assert len(batches) == len(parts)
    assert sum(batches) == len(parts) + 1_101

    def fails(_writes):
        message = "no"
        raise StoreError(message, "none")

    for part in parts:
        monkeypatch.setattr(part, "apply", fails)
    with pytest.raises(StoreError):
        client.declare(hourly("other"), manifest="m")
    monkeypatch.undo()
    assert len(client.list(manifest="m", limit=1_000).jobs) == 1_000
    assert client.get("other") is None


KILLED = """
import os, signal, sys
from tickwheel.scheduler import Schedule, Scheduler
from tickwheel.stores.postgres import _batch as postgres
from tickwheel.stores.sqlite import _batch as sqlite

def hourly(*keys, payload):
    return [Schedule(key, every=3600, handler="h", payload=payload) for key in keys]

scheduler = Scheduler(sys.argv[1])
scheduler.declare(hourly(*"abcdefgh", payload=1), "m")
end = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sqlite.astuple = postgres.asdict = end  # within the transaction, once the jobs are written
store = scheduler._core.client.store
if parts := getattr(store, "partitions", ()):
    parts[-1].apply = end  # once the other partitions have committed
elif "redis" in store.url:
    store.apply = end
scheduler.declare(hourly(*"efghijkl", payload=2), "m")
"""


def test_killed_between(make, durable_url):
    """
    If a program is killed during a declaration, a store without partitions has either all old or all new jobs.

    A store with partitions may have some of both. The next declaration completes the change.
    """
    answer = subprocess.run([sys.executable, "-c", KILLED, durable_url], capture_output=True, timeout=60, check=False)
    assert answer.returncode == -signal.SIGKILL, answer.stderr
    client = make(durable_url)
    found = {job.key: job.payload for job in client.list(manifest="m").jobs}
    if "partitions=3" in durable_url:
        assert set("efgh") <= found.keys() <= set("abcdefghijkl")
        assert len(set(found.values())) == 2
    else:
        assert found == dict.fromkeys("abcdefgh", b"1")
    client.declare(hourly(*"efghijkl", payload=2), manifest="m")
    found = {job.key: job.payload for job in client.list(manifest="m").jobs}
    assert found == dict.fromkeys("efghijkl", b"2")


def test_other_declarations_that_never_end(make, monkeypatch):
    """
    If other programs keep declaring the same manifest, a declaration gives up after some tries, with an error.
    """
    store = make_store("memory://")
    client = make(store)
    manifests, number = store.manifests, itertools.count()

    def read(name):
        found = manifests(name)
        rival.declare(hourly(f"rival {next(number)}"), manifest="m")
        return found

    class Rival:
        def declare(self, schedules, manifest):
            monkeypatch.setattr(store, "manifests", manifests)
            client.declare(schedules, manifest=manifest)
            monkeypatch.setattr(store, "manifests", read)

    rival = Rival()
    monkeypatch.setattr(store, "manifests", read)
    with pytest.raises(StoreError, match=r"\d+ times") as caught:
        client.declare(hourly("mine"), manifest="m")
    assert caught.value.is_transient
    assert client.get("mine") is None


def test_only_a_declaration_cancels(make, file_url):
    """
    Only a declaration cancels jobs of a manifest.

    Starting a scheduler, registering a handler or setting a job does not.
    """
    client = make(file_url)
    client.declare(hourly("a", "b"), manifest="m")
    node = make(file_url)
    node.handler("h")(print)
    node.start()
    node.set_many([SetRequest("a", every=HOUR, handler="h")])
    assert [job.key for job in client.list(manifest="m").jobs] == ["a", "b"]


def test_asyncio():
    """
    The asynchronous scheduler has the same `declare` as the synchronous scheduler.
    """

    async def main():
        async with AsyncScheduler("memory://") as scheduler:
            scheduler.handler("h")(print)
            first = await scheduler.declare(hourly("a"), manifest="m", revision=2)
            second = await scheduler.declare(hourly("b"), manifest="m", revision=3)
            late = await scheduler.declare(hourly("a"), manifest="m", revision=2)
            return shown(first), shown(second), late.outcome

    found = asyncio.run(main())
    assert found == ({"a": "created"}, {"b": "created", "a": "cancelled"}, Outcome.SUPERSEDED)
