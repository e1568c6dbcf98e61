"""
A migration moves jobs between any two stores.

However the migration ends, no job is lost or fires twice.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.jobs.message import with_message_id
from tickwheel.scheduler import Schedule, Scheduler
from tickwheel.scheduler.migration import Migration, SameStoreError, identity_of
from tickwheel.stores import open_store
from tickwheel.testing.store_suite._columns import jobs_of_their_own

NUMBERS = itertools.count()
PATIENCE_S = 30.0
STEPS = ("parked", "staged", "removed", "activated")
PAIRS = [pair for pair in itertools.product(("sqlite", "postgres", "redis"), repeat=2) if pair != ("redis", "redis")]
PAIRS += [("redis", "partitions"), ("partitions", "redis")]
DUE, FAR = 1_000, 10**14
BATCH = 7

KILLED_AT = """
import os, signal, sys
from tickwheel.scheduler.migration import Migration
from tickwheel.stores import open_store

source, target, step, turn = sys.argv[1:]
seen = 0

def on_step(name):
    global seen
    seen += name == step
    if seen == int(turn):
        os.kill(os.getpid(), signal.SIGKILL)

Migration(open_store(source), open_store(target), batch=7, on_step=on_step).run()
"""


@pytest.fixture
def lease_s():
    """
    Return a lease length that is longer than most stalls.

    It is for tests that do not wait for a lease to expire.
    """
    return 6


@pytest.fixture
def new_url(request, tmp_path, lease_s):
    """
    Return a function that returns the URL of a new, empty store of the requested kind.
    """

    def make(kind):
        name = f"migration_{next(NUMBERS)}"
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/{name}.db"
        if kind in {"redis", "partitions"}:
            partitions = 3 if kind == "partitions" else 1
            options = f"?prefix={name}&lease_s={lease_s}&partitions={partitions}"
            return request.getfixturevalue("redis_server").url(options)
        server = request.getfixturevalue("postgres")
        database = server.lend()
        request.addfinalizer(lambda: server.take_back(database))
        return f"{server.url(database)}&lease_s={lease_s}"

    return make


@pytest.fixture
def stores(request, new_url):
    """
    Return two open stores and their URLs, of the kinds that the test names.
    """
    urls = [new_url(kind) for kind in getattr(request, "param", ("sqlite", "sqlite"))]
    opened = [open_store(url) for url in urls]
    yield (*opened, *urls)
    for store in opened:
        with suppress(StoreError):
            store.close()


def fill(store):
    """
    Set jobs of every kind in *store*, and return the stored jobs by key.
    """
    leases = {lease.shard: lease.epoch for lease in owned(store)}
    jobs = [model.Job(f"due {i:02}", 0, DUE + i, b"%d" % i, handler="h", trace="t", first_set_at=5) for i in range(20)]
    jobs += [model.Job(f"far {i}", 0, FAR + i, expires_at=FAR + 50, recurrence="every 5 s") for i in range(5)]
    store.apply([model.Set(job) for job in jobs])
    for key, how in (("dead", model.Settled.DEAD), ("retried", model.Settled.AGAIN)):
        job = store.apply([model.Set(model.Job(key, 0, FAR, target="log"))])[0].job
        epoch = leases[store.shard_of(key)]
        store.apply([model.Begin(job, epoch), model.Settle(job, epoch, how, 3, error="it \x01 broke")])
    begun = store.apply([model.Set(model.Job("begun", 0, DUE))])[0].job
    store.apply([model.Begin(begun, leases[store.shard_of("begun")])])
    return fill_paused(store)


def fill_paused(store):
    """
    Set paused jobs that would be due (a one-time job, a series and a running job), and return all stored jobs by key.
    """
    leases = {lease.shard: lease.epoch for lease in owned(store)}
    for key, recurrence in (("paused", None), ("paused series", "every 5 s"), ("paused run", "every 5 s")):
        job = store.apply([model.Set(model.Job(key, 0, DUE, recurrence=recurrence, attempt=2, error="why"))])[0].job
        if key == "paused run":
            store.apply([model.Begin(job, leases[store.shard_of(key)])])
        pause = model.SetPause(key, "ops", 'the mail server\n"moves" ✈', over=model.ANY_ATTEMPT)
        assert store.apply([pause])[0].outcome is model.Outcome.PAUSED
    store.release("filler")
    return {job.key: job for job in everything(store)}


def is_due(job):
    """
    Return True if the function `fire` would fire *job*.
    """
    return job.due_at < FAR and job.pause is None


def owned(store, owner="filler"):
    """
    Acquire the leases on all shards for *owner*, and return them.

    The function waits until the leases of a killed owner have expired.
    """
    shards = {store.shard_of(str(i)) for i in range(2_000)}
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        with suppress(StoreInUseError):
            leases = store.acquire(owner)
            if {lease.shard for lease in leases} == shards:
                return leases
            store.release(owner)
        time.sleep(0.02)  # leases run out by the store's clock
    pytest.fail("the shards never came free")


def everything(store):
    """
    Return all jobs.
    """
    jobs, cursor = [], None
    while True:
        page = store.page(model.JobQuery(cursor=cursor, limit=50))
        jobs += page.jobs
        cursor = page.cursor
        if cursor is None:
            return jobs


def fire(store):
    """
    Fire due jobs as a scheduler does, and return the fire ids by key.
    """
    fired = []
    for lease in owned(store, "a scheduler"):
        jobs = store.due(lease.shard, FAR - 1, None, 1_000)
        for job, answer in zip(jobs, store.apply([model.Begin(job, lease.epoch) for job in jobs]), strict=True):
            assert answer.outcome is model.Outcome.BEGUN
            fired.append((job.key, job.generation))
        store.apply([model.Settle(job, lease.epoch) for job in jobs])
    store.release("a scheduler")
    return fired


def as_moved(job):
    """
    Return *job* as a migration leaves it: without generation and running state, but with its message id.
    """
    state = model.State.PENDING if job.state is model.State.RUNNING else job.state
    return replace(with_message_id(job), generation=0, state=state)


@pytest.mark.parametrize("stores", PAIRS, indirect=True, ids="-".join)
def test_all_jobs_are_moved(stores):
    """
    Pending and dead jobs arrive unchanged, and the source is empty.

    New generations in the target are above those of the source. A handler whose jobs are paused is also paused there.
    """
    source, target, _, _ = stores
    before = fill(source)
    source.set_scope("handler:h", model.Pause(5, "ops", "the mail server", "handler:h"), None)
    report = Migration(source, target, batch=BATCH).run()
    assert (report.moved, report.left, report.is_complete) == (len(before), 0, True)
    after = {job.key: job for job in everything(target)}
    assert {key: as_moved(job) for key, job in after.items()} == {key: as_moved(job) for key, job in before.items()}
    assert all(after[key].generation > before[key].generation for key in before)
    assert source.count() == {"pending": 0, "running": 0, "dead": 0}
    assert target.scopes() == source.scopes() != []
    assert target.apply([model.Set(model.Job("new", 0, FAR))])[0].job.generation > max(
        job.generation for job in before.values()
    )


@pytest.mark.parametrize(
    "stores", [("sqlite", "partitions"), ("partitions", "postgres"), ("postgres", "redis")], indirect=True, ids="-".join
)
def test_manifests_are_moved(stores):
    """
    A job that belongs to a manifest still belongs to it after the move.

    If the target has no record of a manifest, the migration copies the record from the source.
    """
    source, target, *urls = stores
    series = [Schedule(f"key {number}", every=3_600, target="log", max_runs=number + 1) for number in range(9)]
    schedulers = [Scheduler(url) for url in urls]
    schedulers[0].declare(series, "m", revision=7)
    schedulers[0].declare([Schedule("other", every=5, target="log")], "other", revision=7)
    schedulers[1].declare([Schedule("another", every=5, target="log")], "other", revision=3)
    for key in ("key 3", "key 4"):
        schedulers[0].cancel(key)
    report = Migration(source, target, batch=BATCH).run()
    assert (report.moved, report.left, report.is_complete) == (8, 0, True)
    answer = schedulers[1].declare(series, "m", revision=7)
    left = ("key 3", "key 4")
    assert answer.outcomes == {each.key: "finished" if each.key in left else "unchanged" for each in series}
    assert (answer.outcome, answer.revision) == ("unchanged", 7)
    assert schedulers[1].declare(series, "m", revision=6).outcome == "superseded"
    assert [job.key for job in schedulers[1].list(manifest="other").jobs] == ["another", "other"]
    assert schedulers[1].declare([Schedule("other", every=5, target="log")], "other", revision=3).outcomes == {
        "other": "unchanged",
        "another": "cancelled",
    }
    for scheduler in schedulers:
        scheduler.stop()


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_more_shards(new_url, kind):
    """
    If jobs move to a store with more shards on the same server, they spread over these shards, and each job fires once.
    """
    with closing(open_store(f"{new_url(kind)}&shards=2")) as source:
        before = fill(source)
        with closing(open_store(f"{new_url(kind)}&shards=64")) as target:
            report = Migration(source, target, batch=BATCH).run()
            assert (report.moved, report.left, report.is_complete) == (len(before), 0, True)
            after = {job.key: as_moved(job) for job in everything(target)}
            assert after == {key: as_moved(job) for key, job in before.items()}
            leases = owned(target, "a scheduler")
            found = [job.key for lease in leases for job in target.due(lease.shard, FAR - 1, None, 100)]
            assert len(leases) == 64
            assert len({target.shard_of(key) for key in found}) > 2
            fired = Counter(key for key, _ in fire(target))
            assert fired == Counter(key for key, job in before.items() if is_due(job))


@pytest.mark.slow
@pytest.mark.parametrize("lease_s", [2])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stores", [pair for pair in PAIRS if len({*pair}) == 2], indirect=True, ids="-".join)
def test_killed_between_steps(stores, step):
    """
    If a migration is killed at any step, and both stores then fire their due jobs, each due job fires exactly once.

    The migration is then resumed, and moves all other jobs.
    """
    source, target, *urls = stores
    before = fill(source)
    command = [sys.executable, "-c", KILLED_AT, *urls, step, str(random.randint(1, 3))]
    assert subprocess.run(command, check=False, timeout=PATIENCE_S * 2).returncode == -signal.SIGKILL
    fired = [*fire(target), *fire(source)]
    report = Migration(source, target, batch=BATCH).run()
    assert report.is_complete
    fired += fire(target)
    assert Counter(key for key, _ in fired) == Counter(key for key, job in before.items() if is_due(job))
    staying = {key: as_moved(job) for key, job in before.items() if not is_due(job)}
    assert {job.key: as_moved(job) for job in everything(target)} == staying
    assert everything(source) == []


@pytest.mark.parametrize("stores", PAIRS, indirect=True, ids="-".join)
def test_pauses_outlast_every_break(stores):
    """
    A migration moves all pauses with their time, author and reason, even if it is interrupted after each step.
    """
    source, target, _, _ = stores
    before = {key: as_moved(job) for key, job in fill_paused(source).items()}
    for step in STEPS:
        with pytest.raises(SystemExit):
            Migration(source, target, batch=1, on_step=lambda name, last=step: name == last and sys.exit()).run()
        assert [*fire(source), *fire(target)] == []
    report = Migration(source, target, batch=1).run()
    assert (report.left, report.changed, report.others, report.is_complete) == (0, 0, [], True)
    assert {job.key: as_moved(job) for job in everything(target)} == before
    assert (source.count_paused(), target.count_paused()) == (0, 3)


def test_a_half_moved_job_of_an_earlier_version(stores):
    """
    If a version of tickwheel without pauses has left a job half moved, a later migration completes the move.
    """
    source, target, _, _ = stores
    words = json.dumps([identity_of(source), identity_of(target), "pending", "why", 0])
    error = f"on its way to another store; if no 'tickwheel migrate' runs, run it again: {words}"
    source.apply([model.Adopt(model.Job("old", 0, FAR, state=model.State.DEAD, error=error))])
    report = Migration(source, target).run()
    assert (report.moved, report.finished, report.is_complete) == (1, 1, True)
    assert (target.get("old").state, target.get("old").error) == ("pending", "why")


class Parking:
    """
    Wraps a store, and changes the writes by which a migration parks (reserves) jobs.

    The test passes the function that changes a write.
    """

    def __init__(self, store, change):
        self._store = store
        self._change = change

    def __getattr__(self, name):
        return getattr(self._store, name)

    def apply(self, writes):
        """
        Apply *writes*. If they reserve jobs for the migration, change them first.
        """
        is_parking = any(isinstance(write, model.Begin) for write in writes)
        return self._store.apply([self._change(write) for write in writes] if is_parking else writes)


def test_a_job_that_cannot_be_parked(stores):
    """
    If the source refuses to claim a job, the migration reports this job.

    All other jobs are moved, and the migration ends.
    """
    source, target, _, _ = stores
    source.apply([model.Set(model.Job(key, 0, FAR)) for key in ("a", "b", "c")])

    def refuse(write):
        is_stuck = isinstance(write, (model.Begin, model.Settle)) and write.job.key == "b"
        return replace(write, job=replace(write.job, generation=0)) if is_stuck else write

    report = Migration(Parking(source, refuse), target, batch=2).run()
    assert (report.moved, report.others, report.left) == (2, ["b"], 1)


def test_a_lost_lease_leaves_jobs_paused(stores):
    """
    If another owner takes over the source just before the migration reserves a paused job, the job stays paused.
    """
    source, target, _, _ = stores
    source.apply([model.Set(model.Job("a", 0, DUE)), model.SetPause("a", "ops", "why")])

    def lose(write):
        return replace(write, epoch=2**40) if isinstance(write, (model.Begin, model.Settle)) else write

    with pytest.raises(StoreInUseError, match="another owner has taken the source over"):
        Migration(Parking(source, lose), target).run()
    pause = source.get("a").pause
    assert (pause.by, pause.note) == ("ops", "why")
    assert Migration(source, target).run().is_complete
    assert target.get("a").pause == pause


def test_a_resume_during_a_migration_holds(stores):
    """
    If a caller resumes or pauses a job just before the migration reserves it, the caller's change is kept.
    """
    source, target, _, _ = stores
    source.apply([*(model.Set(model.Job(key, 0, FAR)) for key in ("a", "b")), model.SetPause("a", "ops")])
    meddling = [[model.Resume("a"), model.SetPause("b", "ops", "why")]]

    def meddle(write):
        for writes in (meddling.pop() for _ in meddling[:]):
            source.apply(writes)
        return write

    assert Migration(Parking(source, meddle), target).run().is_complete
    assert target.get("a").pause is None
    assert target.get("b").pause.note == "why"


@pytest.mark.parametrize("stores", [("sqlite", "sqlite"), ("postgres", "redis")], indirect=True, ids="-".join)
def test_any_write_fails_once(stores):
    """
    If any write to either store fails once, before or after its effect, the next run completes the migration.
    """
    source, target, _, _ = stores
    for turn in itertools.count(1):
        before = fill(source)
        broken = Breaking(turn)
        try:
            Migration(broken.over(source), broken.over(target), batch=50).run()
        except StoreError:
            assert Migration(source, target, batch=50).run().is_complete
        found = {job.key: as_moved(job) for job in everything(target)}
        assert found == {key: as_moved(job) for key, job in before.items()}
        target.apply([model.Cancel(key) for key in before])
        if broken.calls < turn:
            break
    assert turn > 10


class Breaking:
    """
    Makes one write fail. The test chooses the number of this write.

    If the number is odd, the write fails before it takes effect. Otherwise it fails afterwards.
    """

    def __init__(self, turn):
        self.turn = turn
        self.calls = 0

    def over(self, store):
        """
        Return *store*, changed so that one write fails.
        """
        outer = self

        class Store:
            def __getattr__(self, name):
                return getattr(store, name)

            def apply(self, writes):
                outer.calls += 1
                if outer.calls == outer.turn and outer.turn % 2:
                    raise StoreError("it failed", "try again", is_transient=True, is_unknown=True)
                answers = store.apply(writes)
                if outer.calls == outer.turn:
                    raise StoreError("it failed", "try again", is_transient=True, is_unknown=True)
                return answers

        return Store()


@pytest.mark.parametrize("stores", [("sqlite", "sqlite"), ("redis", "sqlite")], indirect=True, ids="-".join)
def test_a_live_owner_prevents_a_migration(stores):
    """
    If the source has a live owner, a migration waits for a limited time and then raises an error.

    The source stays unchanged.
    """
    source, target, url, _ = stores
    before = fill(source)
    other = open_store(url)
    owned(other, "a scheduler")
    with pytest.raises(StoreInUseError, match="stop"):
        Migration(source, target, wait_s=0).run()
    assert {job.key: as_moved(job) for job in everything(source)} == {key: as_moved(job) for key, job in before.items()}
    assert everything(target) == []
    assert len(other.renew("a scheduler")) == len({source.shard_of(str(i)) for i in range(2_000)})
    other.close()


def test_changes_during_a_migration_hold(stores):
    """
    If a caller sets, replays or cancels a job in either store while the migration moves it, this change is kept.
    """
    source, target, _, _ = stores
    source.apply([model.Set(model.Job(key, 0, FAR, b"old")) for key in ("a", "b", "c", "d", "e")])
    meddled = set()

    def meddle(step):
        if step in meddled:
            return
        meddled.add(step)
        if step == "parked":
            source.apply([model.Set(model.Job("a", 0, FAR, b"new")), model.Cancel("b")])
        elif step == "staged":
            source.apply([model.Replay("c", FAR + 1)])
        elif step == "removed":
            target.apply([model.Set(model.Job("d", 0, FAR, b"new")), model.Cancel("e")])

    report = Migration(source, target, on_step=meddle).run()
    assert report.is_complete
    found = {job.key: (job.payload, job.due_at) for job in everything(target)}
    assert found == {"a": (b"new", FAR), "c": (b"old", FAR + 1), "d": (b"new", FAR)}
    assert everything(source) == []


@pytest.mark.parametrize("stores", PAIRS, indirect=True, ids="-".join)
def test_callers_that_continue_do_not_prevent_the_end(stores):
    """
    A migration ends although callers continue to set new jobs in the source.

    The migration reports these new jobs. If it is run again, it moves them.
    """
    source, target, _, _ = stores
    numbers = itertools.count()

    def go_on(step):
        if step == "activated":
            source.apply([model.Set(model.Job(f"meanwhile {next(numbers):03}", 0, FAR))])

    source.apply([model.Set(model.Job(f"before {number}", 0, FAR)) for number in range(5)])
    first = Migration(source, target, on_step=go_on).run()
    assert (first.late, first.left, first.conflicts, first.others, first.is_complete) == (1, 1, [], [], True)
    second = Migration(source, target).run()
    assert (second.moved, second.late, second.left, second.is_complete) == (1, 0, 0, True)
    assert len(everything(target)) == 5 + next(numbers)
    assert everything(source) == []


@pytest.mark.parametrize("stores", PAIRS, indirect=True, ids="-".join)
def test_conflicts_stay(stores):
    """
    If a key has live jobs in both stores, paused or not, it is reported, and neither job is changed.

    A dead letter in the target is replaced.
    """
    source, target, _, _ = stores
    source.apply([model.Set(model.Job(key, 0, FAR, b"old")) for key in ("both", "dead", "free")])
    pause = source.apply([model.SetPause("both", "ops", "why")])[0].job.pause
    target.apply([model.Set(model.Job("both", 0, FAR, b"new"))])
    target.apply([model.Adopt(model.Job("dead", 0, FAR, state=model.State.DEAD))])
    report = Migration(source, target).run()
    assert (report.conflicts, report.moved, report.left, report.is_complete) == (["both"], 2, 1, True)
    assert [(job.key, job.payload, job.pause) for job in everything(source)] == [("both", b"old", pause)]
    assert target.get("both").pause is None
    assert {job.key: job.payload for job in everything(target)} == {"both": b"new", "dead": b"old", "free": b"old"}
    target.apply([model.Cancel("both")])
    assert Migration(source, target).run().moved == 1
    assert target.get("both").pause == pause


def test_one_store_under_two_names(stores):
    """
    If a migration gets one store under two names, it recognises this, and the store stays unchanged.
    """
    source, _, url, _ = stores
    before = fill(source)
    again = open_store(url)
    with pytest.raises(SameStoreError, match="are one store: name two"):
        Migration(source, again).run()
    again.close()
    assert len(everything(source)) == len(before)


def test_another_migration_is_left_alone(stores, new_url):
    """
    A migration reports jobs that an unfinished migration to a third store has begun to move, and leaves them alone.

    These jobs are moved when the unfinished migration is resumed.
    """
    source, target, _, _ = stores
    third = open_store(new_url("sqlite"))
    before = fill(source)
    with pytest.raises(SystemExit):
        Migration(source, third, on_step=lambda name: name == "staged" and sys.exit()).run()
    report = Migration(source, target).run()
    assert (report.moved, sorted(report.others)) == (0, sorted(before))
    report = Migration(source, third).run()
    assert (report.moved, report.finished, report.is_complete) == (len(before), len(before), True)
    third.close()


@pytest.mark.parametrize("stores", [("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")], indirect=True)
def test_each_column_is_moved(stores):
    """
    If one column of a job has a value other than its default, the job has the same value in the target store.

    This holds for jobs that are due soon and for jobs that are due in the far future.
    """
    source, target, _, _ = stores
    now = source.now_ms()
    wanted = {}
    for due_at in (now + 60_000, now + 30 * 86_400_000):
        for name, job in jobs_of_their_own(due_at):
            wanted[f"{name} {due_at}"] = replace(job, key=f"{name} {due_at}")
    answers = source.apply([model.Set(job) for job in wanted.values()])
    sent_as = {answer.job.key: with_message_id(answer.job).sent_as for answer in answers}
    assert Migration(source, target, batch=BATCH).run().is_complete
    assert {key: replace(target.get(key), generation=0) for key in wanted} == {
        key: replace(job, sent_as=sent_as[key]) for key, job in wanted.items()
    }
