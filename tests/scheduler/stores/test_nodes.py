"""
The promises that hold when several nodes share a store.

They are tested with real servers, on every store that permits several nodes.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from writes import set_one

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError
from tickwheel.observe.events import OwnershipLost
from tickwheel.scheduler import LeaseEndedError, Outcome, Progress, Scheduler, SchedulerOptions, SetRequest
from tickwheel.stores import make_store, open_store
from tickwheel.testing.store_suite._base import changes_of

NUMBERS = itertools.count()
PATIENCE_S = 30.0
HOUR_MS = 3_600_000


@pytest.fixture
def postgres_url(postgres, database):
    return f"{postgres.url(database)}&"


@pytest.fixture
def redis_url(redis_server):
    """
    Return the URL of an empty Redis store, under a new prefix.
    """
    yield redis_server.url(f"?prefix=nodes-{next(NUMBERS)}&")
    redis_server.execute("FLUSHALL")


@pytest.fixture(params=["postgres_url", "redis_url"])
def address(request):
    """
    Return the address of an empty store, to which options can be appended, for each kind of store.
    """
    return request.getfixturevalue(request.param)


@pytest.fixture
def make(address):
    """
    Return a function that opens nodes on one store.

    The fixture closes them at the end.
    """
    opened = []

    def make_one(options=""):
        opened.append(open_store(address + options))
        return opened[-1]

    yield make_one
    for store in opened:
        store.close()


def test_new_store_has_sixteen_shards(make):
    """
    A new store has sixteen shards, whichever node opens it first.
    """
    store = make()
    assert len(store.acquire("owner")) == len(store.shards()) == 16
    assert {store.shard_of(f"{i}") for i in range(500)} == set(range(16))


def test_shards_are_shared(make):
    """
    A new node gets its share of the shards when the node that owns all of them renews its leases.

    When the new node stops, it releases its shards.
    """
    first, second = make("shards=4"), make()
    assert len(first.acquire("first")) == 4
    assert second.acquire("second") == []
    kept = first.renew("first")
    assert len(kept) == 2
    taken = second.acquire("second")
    assert {lease.shard for lease in kept}.isdisjoint(lease.shard for lease in taken)
    assert len(taken) == 2
    second.release("second")
    assert len(first.acquire("first")) == 4


def test_every_node_is_listed_with_its_report(make):
    """
    All clients can read each node's last report until that node releases its leases.

    Only nodes can report.
    """
    first, second, third = make("shards=4"), make(), make()
    for name, store in (("first", first), ("second", second)):
        store.acquire(name)
        store.report(name, {"fired": len(name), "lately": {"p50_ms": 0.5}})
    second.report("nobody", {"fired": 1})
    assert [(node.owner, node.figures) for node in third.nodes()] == [
        ("first", {"fired": 5, "lately": {"p50_ms": 0.5}}),
        ("second", {"fired": 6, "lately": {"p50_ms": 0.5}}),
    ]
    now = third.now_ms()
    assert all(node.heard_at <= now < node.until for node in third.nodes())
    first.renew("first")
    first.report("first", {"fired": 7})
    assert [node.figures["fired"] for node in third.nodes()] == [7, 6]
    second.release("second")
    assert [node.owner for node in third.nodes()] == ["first"]


def test_a_killed_node_is_listed_for_a_while(make):
    """
    A killed node stays in the list of nodes for a while, with its last report and an expired lease.
    """
    killed, other = make("shards=2&lease_s=1"), make("lease_s=1")
    killed.acquire("killed")
    killed.report("killed", {"fired": 3})
    (seen,) = other.nodes()
    while other.now_ms() <= seen.until:
        pass  # the store's clock has to reach the end of the lease
    assert len(other.acquire("other")) == 2
    gone, here = other.nodes()
    assert (gone.owner, gone.figures, gone.until) == ("killed", {"fired": 3}, seen.until)
    assert (here.owner, here.figures) == ("other", None)


@pytest.mark.parametrize(("shards", "nodes"), [(4, 3), (5, 3), (2, 3)])
def test_no_node_has_two_more_than_another(make, shards, nodes):
    """
    The numbers of shards of any two nodes differ by at most one.
    """
    stores = [make(f"shards={shards}") for _ in range(nodes)]
    for _ in range(3):
        for number, store in enumerate(stores):
            store.renew(f"node {number}")
            store.acquire(f"node {number}")
    held = [len(store.renew(f"node {number}")) for number, store in enumerate(stores)]
    assert sum(held) == shards
    assert max(held) - min(held) <= 1


def test_epochs_are_unique(make):
    store = make("shards=5")
    first = [lease.epoch for lease in store.acquire("owner")]
    store.release("owner")
    second = [lease.epoch for lease in store.acquire("owner")]
    assert len({*first, *second}) == 10
    assert min(second) > max(first)


def test_node_that_does_not_renew(make, until):
    """
    If a node is suspended until its lease expires, it loses its shards, and its writes are rejected when it continues.
    """
    paused, heir = make("shards=2&lease_s=1"), make("lease_s=1")
    epochs = {lease.shard: lease.epoch for lease in paused.acquire("paused")}
    job = set_one(paused)
    epoch = epochs[paused.shard_of("key")]
    paused.apply([model.Begin(job, epoch)])
    taken = until(lambda: leases if len(leases := heir.acquire("heir")) == 2 else None)
    assert sum(lease.rescued for lease in taken) == 1
    assert [answer.outcome for answer in paused.apply([model.Settle(job, epoch)])] == [model.Outcome.NOT_OWNER]
    assert paused.renew("paused") == []
    assert heir.get("key").state is model.State.PENDING
    assert heir.get("key").attempt == 1


@pytest.fixture
def set_clock_back(request, address):
    """
    Return a function that makes a store look as if its server's clock had been set back by an hour.
    """
    if address.startswith("redis"):
        server, place = request.getfixturevalue("redis_server"), f"{{{address.partition('prefix=')[2].rstrip('&')}}}"

        def set_back(shards):
            for shard in range(shards):
                server.execute("HINCRBY", f"{place}:shard:{shard}", "until", HOUR_MS)
            for node in server.execute("ZRANGE", f"{place}:nodes", 0, -1):
                server.execute("ZINCRBY", f"{place}:nodes", HOUR_MS, node)
                till, heard_at, figures = server.execute("HGET", f"{place}:reports", node).decode().split(" ", 2)
                later = f"{int(till) + HOUR_MS} {int(heard_at) + HOUR_MS} {figures}"
                server.execute("HSET", f"{place}:reports", node, later)

    else:
        server, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")

        def set_back(_shards):
            for table, column in (("shard", "lease_until"), ("node", "seen_until"), ("node", "heard_at")):
                later = f"UPDATE tickwheel_{table} SET {column} = {column} + {HOUR_MS}"  # noqa: S608 - the test's own words
                server.execute(later, database)

    return set_back


def test_a_clock_that_was_set_back(make, until, set_clock_back):
    """
    If the server's clock is set back, a lease that was granted earlier still expires after at most its length.

    A living node keeps its lease.
    """
    dead, alive, looker = make("shards=4&lease_s=1"), make("lease_s=1"), make()
    dead.acquire("dead")
    for owner, node in [("alive", alive), ("dead", dead), ("alive", alive)]:
        node.renew(owner)
        kept = node.acquire(owner)
        node.report(owner, {"fired": 1})
    assert len(kept) == 2
    set_clock_back(4)
    began = alive.now_ms()

    def all_owned():
        renewed = alive.renew("alive")
        assert {(lease.shard, lease.epoch) for lease in renewed} >= {(lease.shard, lease.epoch) for lease in kept}
        return len(alive.acquire("alive")) == 4

    until(all_owned)
    now = alive.now_ms()
    assert now - began >= 1_000
    nodes = {node.owner: node for node in looker.nodes()}
    assert nodes["dead"].until < now <= nodes["alive"].until <= now + 1_000
    assert max(node.heard_at for node in nodes.values()) <= now
    assert dead.renew("dead") == []


def test_a_lease_is_not_cut_by_a_node_with_a_shorter_one(make):
    """
    Nodes whose leases have different lengths do not shorten each other's leases.
    """
    long, short = make("shards=2&lease_s=60"), make("lease_s=1")
    (lease, _) = long.acquire("long")
    short.acquire("short")
    short.renew("short")
    assert [node.until for node in short.nodes() if node.owner == "long"] == [lease.until]
    assert {shard.until for shard in short.shards() if shard.owner == "long"} == {lease.until}


def test_a_set_after_the_lease_has_expired(make, until):
    """
    If a node sets a job after its lease has expired unnoticed, the new owner of the shard learns of the job.
    """
    zombie, heir = make("shards=1&lease_s=1"), make("lease_s=1")
    zombie.acquire("zombie")
    (lease,) = until(lambda: heir.acquire("heir"))
    changes_of(heir, 0, lease.epoch, 10, None)
    set_one(zombie, due_at=5)
    assert [job.key for job in changes_of(heir, 0, lease.epoch, 10, 0).changed] == ["key"]


def test_two_schedulers_of_one_process(address, until):
    """
    Two schedulers in one process have the same host and process id.

    However, they are two owners, and share the shards.
    """
    with Scheduler(f"{address}shards=4&lease_s=1") as first, Scheduler(f"{address}lease_s=1") as second:
        for scheduler in (first, second):
            scheduler.start()
        until(lambda: [len(each.stats()["shards"]) for each in (first, second)] == [2, 2])
        stats = first.stats(), second.stats()
        assert sorted(stats[0]["shards"] + stats[1]["shards"]) == [0, 1, 2, 3]
        assert stats[0]["owner"] != stats[1]["owner"]
        assert stats[0]["owner"].rpartition(":")[0] == stats[1]["owner"].rpartition(":")[0]


def test_one_query_for_all_shards(address, until, monkeypatch):
    """
    An owner finds the writes of other clients with one query for all its shards, not with one query for each shard.
    """
    store, looks, others, fired = make_store(address), [], [], set()
    look = store.look
    monkeypatch.setattr(
        store, "look", lambda cursors, *at, **with_: looks.append(len(cursors)) or look(cursors, *at, **with_)
    )
    monkeypatch.setattr(store, "due", lambda *of: others.append(of))
    with Scheduler(store) as scheduler, closing(Scheduler(address)) as client:
        scheduler.handler("h")(fired.add)
        scheduler.start()
        until(lambda: len(scheduler.stats()["shards"]) == 16 and looks)
        looks.clear()
        keys = {f"{number}" for number in range(200)}
        client.set_many([SetRequest(key, delay=0, handler="h", payload=key) for key in keys])
        until(lambda: fired == keys)
    assert set(looks) == {16}
    assert others == []


def test_a_node_joins_while_every_shard_is_busy(address, until):
    """
    If a node joins while attempts run, each attempt runs once, and stays on its node.

    A cancel through the new node gets the answer that the attempt has already started.
    """
    runs, goes_on = [], threading.Event()
    stores = [make_store(f"{address}shards=4&lease_s=6") for _ in range(2)]
    nodes = [Scheduler(store, options=SchedulerOptions(workers=12)) for store in stores]
    for number, node in enumerate(nodes):

        @node.handler("h", concurrency=9)
        def work(payload, number=number):
            runs.append((payload, number))
            goes_on.wait(PATIENCE_S)

    first, second = nodes
    lost = []
    first.subscribe(lambda event: lost.append(event) if isinstance(event, OwnershipLost) else None)
    with first, second:
        first.start()
        for keys in (range(9), range(9, 16)):
            for key in keys:
                first.set(f"{key}", delay=0, handler="h", payload=key)
            until(lambda: len(runs) == 9)
        begun = {job.key for job in first.list(state="running").jobs}
        assert {stores[0].shard_of(key) for key in begun} == {0, 1, 2, 3}
        second.start()
        until(lambda: len([each for each in second.stats()["shards"] if each < 4]) == 2)
        until(lambda: len([each for each in first.stats()["shards"] if each < 4]) == 2)
        assert second.cancel(f"{runs[0][0]}").outcome is model.Outcome.TOO_LATE
        goes_on.set()
        until(lambda: not first.list().jobs)
        until(lambda: len(first.stats()["shards"]) == 2)
    assert sorted(key for key, _ in runs) == list(range(16))
    assert {number for key, number in runs if f"{key}" in begun} == {0}
    assert len(lost) >= 2
    assert all(event.is_handed_over for event in lost)


def test_pulled_jobs_after_another_node_took_over(address, until):
    """
    If a node loses its shards, it ends the leases of its pull workers. Later calls of these workers raise an error.

    The new owner fires the jobs again.
    """
    store, is_awake = make_store(f"{address}shards=1&lease_s=3"), threading.Lock()

    def while_awake(ask):
        def asked(owner):
            with is_awake:
                return ask(owner)

        return asked

    store.renew, store.acquire = while_awake(store.renew), while_awake(store.acquire)
    paused, heir = Scheduler(store), Scheduler(address)
    with paused.start(), heir:
        paused.set("k", delay=0, target="pull", handler="q")
        (lease,) = paused.lease("q", wait=60, seconds=600)
        with is_awake:
            store.release(paused.stats()["owner"])  # as if its lease had ended
            heir.start()
            (again,) = heir.lease("q", wait=60)
            assert (again.job.key, again.attempt) == ("k", 2)
            heir.ack(again.fire_id)
        until(lambda: paused.stats()["shards"] == [] and paused.stats()["in_flight"] == 0)
        assert paused.stats()["pull"] == {}
        for ask in (lambda: paused.extend(lease.fire_id, 600), lambda: paused.ack(lease.fire_id)):
            with pytest.raises(LeaseEndedError, match="another process has taken its shard over"):
                ask()
        assert heir.get("k") is None


BEGINS_AND_HANGS = """
import sys, time
from tickwheel.scheduler import Scheduler, SchedulerOptions
scheduler = Scheduler(sys.argv[1], options=SchedulerOptions(owner="pod:1"))
@scheduler.handler("h")
def h(payload):
    print("begun", flush=True)
    time.sleep(3600)
scheduler.start()
scheduler.set("key", delay=0, handler="h")
time.sleep(3600)
"""


def test_restarted_in_place(address, record, until):
    """
    If a container is restarted in place, with the same host name and process id, it fires the interrupted jobs again.
    """
    url = f"{address}shards=2&lease_s=1"
    with subprocess.Popen([sys.executable, "-c", BEGINS_AND_HANGS, url], stdout=subprocess.PIPE, text=True) as former:
        assert former.stdout.readline() == "begun\n"
        former.kill()
    with Scheduler(url, options=SchedulerOptions(owner="pod:1")) as scheduler:
        scheduler.handler("h")(record)
        scheduler.start()
        record.wait(1)
        until(lambda: scheduler.get("key") is None)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres_url", "redis_url"])
def test_start_again_after_a_lost_answer(kind, request, record, tmp_path):
    """
    If the answer that grants a lease is lost during the start, the start can be repeated, and jobs fire at once.
    """
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    store = make_store(urls.get(kind) or request.getfixturevalue(kind))
    acquire = store.acquire

    def losing(owner):
        acquire(owner)
        store.acquire = acquire
        what = "the line broke"
        raise StoreError(what, "try again", is_transient=True)

    store.acquire = losing
    scheduler = Scheduler(store)
    scheduler.handler("h")(record)
    with pytest.raises(StoreError, match="the line broke"):
        scheduler.start()
    with scheduler:
        scheduler.set("key", delay=0, handler="h", payload=1)
        assert record.wait(1) == [1]


FORKS = r"""
import os
from tickwheel.scheduler import Scheduler
scheduler = Scheduler("memory://")
child = os.fork()
os.write(1, f"{scheduler.start().stats()['owner']}\n".encode())
if child:
    os.waitpid(child, 0)
os._exit(0)
"""


@pytest.mark.needs("os.fork")
def test_forked_before_the_start():
    """
    Processes that were forked from a scheduler before its start become owners with different names.
    """
    answer = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert len(set(answer.stdout.split())) == 2


def test_progress_on_another_node(address, until):
    """
    A process that does not fire reads a job's progress from the report of the node that runs the job.
    """
    ended = threading.Event()
    owner, client = Scheduler(f"{address}lease_s=3"), Scheduler(address)

    @owner.handler("h")
    def handler(_payload, firing):
        firing.progress(0.4, "page 12")
        assert ended.wait(60)

    with client, owner.start():
        client.set("k", delay=0, handler="h")
        until(lambda: client.progress("k") == Progress(0.4, "page 12"))
        ended.set()
        until(lambda: client.get("k") is None)
        until(lambda: client.progress("k") is None)


def test_a_job_on_another_node_can_be_stopped(address, until):
    """
    A node can stop a job that another node runs. Afterwards no node retries the job.
    """
    begun, ended = threading.Event(), threading.Event()
    owner, client = Scheduler(f"{address}lease_s=30"), Scheduler(address)

    @owner.handler("h")
    async def handler(_payload):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with owner.start(), client:
        client.set("k", delay=0, handler="h")
        assert begun.wait(60)
        assert client.cancel("k", running=True).outcome is Outcome.STOPPING
        assert client.cancel("k", running=True).outcome in {Outcome.STOPPING, Outcome.NOT_FOUND}
        assert ended.wait(60)
        until(lambda: client.get("k") is None)
        until(lambda: owner.stats()["stopped"] == 1)
        assert (owner.stats()["fired"], owner.stats()["retried"]) == (1, 0)
