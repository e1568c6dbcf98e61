"""
The number of a store's shards is raised in place.

At the same time, nodes that know only the old number of shards write, wait and run jobs.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys

import pytest

from tickwheel.jobs import model
from tickwheel.scheduler import Scheduler, SetRequest
from tickwheel.scheduler.migration import Migration
from tickwheel.stores import make_store, open_store
from tickwheel.testing.store_machine import run_store_machine
from tickwheel.testing.store_suite._base import changes_of

NUMBERS = itertools.count()
EVER = 2**63 - 1


@pytest.fixture
def lease_s():
    """
    Return a lease length in seconds that is longer than most stalls.

    It is for tests that do not wait for a lease to expire.
    """
    return 6


@pytest.fixture(params=["postgres", "redis"])
def address(request, lease_s):
    """
    Return the address of an empty store, to which options can be appended, for each kind of store.
    """
    if request.param == "postgres":
        server, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")
        yield f"{server.url(database)}&lease_s={lease_s}"
    else:
        server = request.getfixturevalue("redis_server")
        yield server.url(f"?prefix=growing-{next(NUMBERS)}&lease_s={lease_s}")
        server.execute("FLUSHALL")


@pytest.fixture
def make(address):
    """
    Return a function that opens the store with at least *shards* shards.

    The fixture closes all stores at the end.
    """
    opened = []

    def make_one(shards=0):
        opened.append(open_store(f"{address}&shards={shards}"))
        return opened[-1]

    yield make_one
    for store in opened:
        store.close()


def set_jobs(store, name, count=40):
    """
    Set some jobs, and return them.
    """
    return [answer.job for answer in store.apply([model.Set(model.Job(f"{name}{i}", 0, i)) for i in range(count)])]


def where(leases, store):
    """
    Return the shard in which each job is due, by key. Only the shards of *leases* are searched.
    """
    found = [(job.key, shard) for shard in leases for job in store.due(shard, EVER, None, 1_000)]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_jobs_stay_where_they_are(make):
    """
    A store keeps the largest number of shards that was ever requested.

    Pending jobs stay in their shards, and new jobs use all shards.
    """
    store = make(3)
    jobs = set_jobs(store, "old")
    grown = make(7)
    assert len(grown.shards()) == len(make(2).shards()) == len(make().shards()) == 7
    assert {grown.shard_of(f"{i}") for i in range(100)} == set(range(7))
    leases = {lease.shard: lease.epoch for lease in grown.acquire("owner")}
    places = where(leases, grown)
    assert places == {job.key: store.shard_of(job.key) for job in jobs}
    moved = [answer.job for answer in grown.apply([model.Move(job.key, 5) for job in jobs[:20]])]
    places |= {job.key: grown.shard_of(job.key) for job in moved}
    assert where(leases, grown) == places
    assert set(places.values()) > set(range(3))
    begins = [model.Begin(job, leases[places[job.key]]) for job in (*moved, *jobs[20:])]
    assert {answer.outcome for answer in grown.apply(begins)} == {model.Outcome.BEGUN}
    assert {answer.outcome for answer in grown.apply([model.Settle(each.job, each.epoch) for each in begins])} == {
        model.Outcome.SETTLED
    }
    assert grown.count() == {"pending": 0, "running": 0, "dead": 0}


def test_old_and_new_nodes_share_a_store(make):
    """
    Nodes that were opened with the old and with the new number of shards share a store.

    They fire each other's jobs, and are notified of each other's writes.
    """
    old, new = make(4), make(9)
    for store, name in ((old, "old"), (new, "new"), (old, "old"), (new, "new"), (old, "old")):
        leases = store.acquire(name)
    assert len(leases) == 4  # 4 of 9 shards: the node whose name sorts first has 5
    held = {"old": old.acquire("old"), "new": new.acquire("new")}
    stores = {"old": old, "new": new}
    owners = {lease.shard: (name, lease.epoch) for name, leases in held.items() for lease in leases}
    assert len(owners) == 9
    for shard, (name, epoch) in owners.items():
        changes_of(stores[name], shard, epoch, EVER, None)
    jobs = {job.key: job for store in (old, new) for job in set_jobs(store, f"by {store is old}")}
    for key in list(jobs)[::2]:  # each key is set again, through the other store
        (answer,) = (new if "True" in key else old).apply([model.Set(model.Job(key, 0, 7))])
        jobs[key] = answer.job
    places = where(owners, old)
    assert set(places) == set(jobs)
    told = {
        job.key
        for shard, (name, epoch) in owners.items()
        for job in changes_of(stores[name], shard, epoch, EVER, 0).changed
    }
    for key, shard in places.items():
        name, epoch = owners[shard]
        # the store may have written the job itself, which needs no notification
        is_own = stores[name].shard_of(key) == shard
        assert is_own or key in told
        for write, outcome in (
            (model.Begin(jobs[key], epoch), model.Outcome.BEGUN),
            (model.Settle(jobs[key], epoch, model.Settled.AGAIN, 1, 9), model.Outcome.SETTLED),
        ):
            assert stores[name].apply([write])[0].outcome is outcome
    assert set(where(owners, new)) == set(jobs)
    assert {answer.outcome for answer in new.apply([model.Cancel(key) for key in jobs])} == {model.Outcome.CANCELLED}
    assert old.count() == {"pending": 0, "running": 0, "dead": 0}


@pytest.mark.parametrize("seed", [3, 41, None])  # 41: seed 41 recovers a job that was paused while it ran
def test_random_writes_while_it_grows(address, seed):
    """
    However often the store is opened with more shards, it answers random writes in the same way as a simple model.
    """
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    print(f"seed {seed}")  # noqa: T201 - a failure must be repeatable
    shards = itertools.count(2, 3)

    def opened(_store=None):
        return make_store(f"{address}&shards={min(next(shards), 200)}")

    assert run_store_machine(opened, seed, 1_500, opened).takeovers > 0


FIRES = r"""
import os, sys, time
from tickwheel.scheduler import Scheduler
scheduler = Scheduler(sys.argv[1])
@scheduler.handler("h")
def h(payload):
    os.write(1, b"%d\n" % payload)
    if payload == 7:
        time.sleep(3600)
scheduler.start()
print("started", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("lease_s", [2])
def test_a_node_is_killed_while_the_store_grows(make, address, until):
    """
    If a node that knows only the old number of shards is killed, other nodes run all jobs.
    """
    make(4)
    runs, there = [], []
    with Scheduler(f"{address}&shards=16") as node:
        node.handler("h")(runs.append)
        former = subprocess.Popen([sys.executable, "-c", FIRES, address], stdout=subprocess.PIPE, text=True)
        try:
            assert former.stdout.readline() == "started\n"
            node.set_many([SetRequest(f"{i}", delay=0.02 * i, handler="h", payload=i) for i in range(100)])
            there = [int(former.stdout.readline()) for _ in range(8)]
            node.start()
            make(32)
        finally:
            former.kill()
            there += [int(line) for line in former.communicate()[0].split()]
        until(lambda: not node.list().jobs)
    assert {*runs, *there} == set(range(100))
    assert len(runs) == len(set(runs))


def test_a_store_that_has_grown_can_be_moved(make, tmp_path):
    """
    A migration also moves jobs that were set before the store got more shards.
    """
    jobs = set_jobs(make(3), "old")
    source, target = make(8), make_store(f"sqlite:///{tmp_path}/jobs.db")
    target.open()
    try:
        report = Migration(source, target).run()
        assert (report.moved, report.left, report.is_complete) == (len(jobs), 0, True)
    finally:
        target.close()
