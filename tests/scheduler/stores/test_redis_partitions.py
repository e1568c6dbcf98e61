"""
A store in several partitions: where jobs go, and what works while one partition's master is unreachable.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from binascii import crc_hqx
from collections import Counter
from unittest import mock

import pytest
import redis_servers
from loads import loaded

from tickwheel.engine import _watcher
from tickwheel.engine._prefetch import Prefetcher
from tickwheel.jobs.model import Adopt, Begin, Cancel, HistoryRecord, Job, JobQuery, Set, Settle, State
from tickwheel.observe.events import OwnershipLost
from tickwheel.scheduler import Outcome, SetRequest, StoreError
from tickwheel.stores import open_store
from tickwheel.stores.redis import Partition
from tickwheel.stores.redis._batch import Batch
from tickwheel.stores.redis._partitioned import PartitionedRedisStore

NUMBERS = itertools.count()
PARTITIONS = 3
PATIENCE_S = 60.0
TIME_S = 5
"""Maximum number of seconds by which a due job may be overdue."""
ACKNOWLEDGED_S = 10
"""Maximum number of seconds from the loss of a master until its partition acknowledges a write again."""


@pytest.fixture
def redis_url(redis_server):
    """
    Return the URL of an empty store with three partitions.
    """
    return redis_server.url(f"?prefix=partitions-{next(NUMBERS)}&lease_s=2&partitions={PARTITIONS}")


@pytest.fixture
def cluster(make_redis):
    """
    Return a cluster of three masters without replicas. If one master is down, the other two continue.

    After a kill and a restart, a master still has all acknowledged writes.
    """
    own = ("--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "always")
    cluster = redis_servers.RedisCluster(make_redis, *own, replicas=0)
    yield cluster
    cluster.stop()


@pytest.mark.parametrize("total", [2, 3, 6, 16, 64])
@pytest.mark.parametrize("prefix", ["tickwheel", "a", "jobs of the shop"])
def test_hash_tags_are_spread_over_the_slots(prefix, total):
    """
    The hash tags of a store's partitions are spread evenly over the slots of a cluster.
    """
    tags = [Partition(number, total).tag(prefix) for number in range(total)]
    assert tags[0] == prefix
    ranges = [crc_hqx(tag.encode(), 0) % 16_384 * total // 16_384 for tag in tags]
    assert sorted(ranges) == list(range(total))


def test_slots_are_those_of_the_server(cluster):
    """
    The server computes the same hash slots as our code, and each of three masters has one of three partitions.
    """
    holders = {cluster.holder(Partition(number, 3).tag("tickwheel")).port for number in range(3)}
    assert len(holders) == 3


def test_the_number_of_partitions_is_kept(redis_server):
    """
    A store keeps its number of partitions.

    If a URL gives a different number, the error names the store's number.
    """
    url = redis_server.url(f"?prefix=kept-{next(NUMBERS)}")
    store = open_store(f"{url}&partitions=3")
    store.apply([Set(Job("key", 0, 5))])
    for wrong in ("", "&partitions=2", "&partitions=4"):
        with pytest.raises(StoreError, match=r"has partitions=3, and \d were asked for: write partitions=3, or move"):
            open_store(f"{url}{wrong}")
    again = open_store(f"{url}&partitions=3")
    assert again.get("key") == store.get("key")
    for each in (store, again):
        each.close()
    whole = redis_server.url(f"?prefix=kept-{next(NUMBERS)}")
    open_store(whole).close()
    with pytest.raises(StoreError, match="has partitions=1, and 3 were asked for"):
        open_store(f"{whole}&partitions=3")
    open_store(f"{whole}&partitions=1").close()


def test_nodes_share_the_jobs(make, record, redis_url, until):
    """
    Three nodes fire each job once and have equal numbers of shards. After a node leaves, the others fire its jobs.
    """
    nodes = [make(redis_url) for _ in range(3)]
    for number, node in enumerate(nodes):
        node.handler("h")(lambda payload, number=number: record((payload, number)))
        node.start()
    until(lambda: [len(node.stats()["shards"]) for node in nodes] == [5, 5, 5])
    for turn in range(4):
        requests = [SetRequest(f"{turn} {i}", delay=0.3, handler="h", payload=f"{turn} {i}") for i in range(50)]
        answers = nodes[turn % 3].set_many(requests)
        assert [answer.job.key for answer in answers] == [request.key for request in requests]
    record.wait(200)
    nodes[0].stop()
    until(lambda: sorted(len(node.stats()["shards"]) for node in nodes[1:]) == [7, 8])
    nodes[1].set_many([SetRequest(f"late {i}", delay=0.1, handler="h", payload=f"late {i}") for i in range(50)])
    fired = record.wait(250)
    assert Counter(payload for payload, _ in fired).most_common(1)[0][1] == 1
    assert {number for payload, number in fired if payload.startswith("late")} <= {1, 2}


def test_a_handler_that_comes_later(make, record, redis_url, until):
    """
    If a node is the first with a handler, it claims the jobs that wait for this handler in every partition.

    If the handler's jobs are paused, they are paused in all partitions.
    """
    poor, rich = make(redis_url), make(redis_url)
    poor.handler("other")(print)
    rich.handler("mail")(record)
    poor.start()
    poor.set_many([SetRequest(f"job {number}", delay=0, handler="mail", payload=number) for number in range(30)])
    until(lambda: sum(each["count"] for each in poor.stats()["waiting_for_handler"]) == 30)
    poor.pause_scope("handler:mail", note="why", by="somebody")
    rich.start()
    until(lambda: rich.stats()["shards"])
    assert [pause.scope for pause in rich.paused_scopes()] == ["handler:mail"]
    assert rich.stats()["paused"] == 30
    assert rich.resume_scope("handler:mail")
    assert sorted(record.wait(30)) == list(range(30))


def test_generations_after_a_migration_stored_a_high_one(redis_url):
    """
    After a migration has stored a job with a high generation, the partition gives out only higher generations.
    """
    store = open_store(redis_url)
    crowded = next(tag for tag in map(str, range(99)) if store.partition_of(tag) == 1)
    for number in range(20):
        store.apply([Set(Job(f"{{{crowded}}} {number}", 0, 5))])
    mark = store.last_generation()
    answers = store.apply([Set(Job(f"key {number}", 0, 5)) for number in range(30)])
    generations = [answer.job.generation for answer in answers]
    assert min(generations) > mark
    assert len(set(generations)) == 30
    store.apply([Adopt(Job("adopted", 1_000_000, 5))])
    after = store.apply([Set(Job(f"after {number}", 0, 5)) for number in range(30)])
    assert min(answer.job.generation for answer in after) > 1_000_000
    store.close()


def given(store):
    """
    Return the generations of twenty jobs in each partition.
    """
    keys = [key for number in range(PARTITIONS) for key in keys_of(store, number)[:20]]
    return [store.apply([Set(Job(key, 0, 5))])[0].job.generation for key in keys]


def keys_of(store, number):
    """
    Return some keys that are in partition *number*.
    """
    return [key for key in map(str, range(200)) if store.partition_of(key) == number]


def silent(make, store, url):
    """
    Return the partitions in which a job stays overdue for too long after another process has set it.
    """
    node = make(url)
    node.handler("h")(print)
    node.start()
    due = int((time.time() + 0.5) * 1000)
    store.apply([Set(Job(key, 0, due, handler="h")) for number in range(PARTITIONS) for key in keys_of(store, number)])
    while (found := store.page(JobQuery(limit=1_000)).jobs) and time.time() < due / 1000 + TIME_S:
        time.sleep(0.05)  # no signal reports that no node scans
    return {store.partition_of(job.key) for job in found}


def test_partitions_fire_in_time_and_share_no_generation(make, redis_url):
    """
    Every partition fires its jobs in time.

    No two partitions give out the same generation.
    """
    store = open_store(redis_url)
    assert len(set(given(store))) == 20 * PARTITIONS
    assert silent(make, store, redis_url) == set()
    store.close()


def test_a_generation_that_two_partitions_give_is_detected(redis_url):
    """
    If two partitions give out the same generations, the other tests of this module fail.
    """

    def draw(self):
        self._drawn += 1
        return self._seen + self._drawn

    store = open_store(redis_url)
    with mock.patch.object(Batch, "_next_generation", draw):
        assert len(set(given(store))) < 20 * PARTITIONS
    store.close()


def test_a_partition_that_is_not_scanned_is_detected(make, redis_url):
    """
    If a node does not prefetch jobs from one partition, these tests detect that the jobs of this partition are late.
    """
    store, own = open_store(redis_url), Prefetcher.own
    with mock.patch.object(
        Prefetcher, "own", lambda self, leases: own(self, [each for each in leases if each.shard % 3])
    ):
        assert silent(make, store, redis_url) == {0}
    store.close()


def test_pages(redis_url):
    """
    A listing covers all partitions in the order of keys, and has each job once, whatever the limit of a page.
    """
    store = open_store(redis_url)
    keys = [f"key {number:03}" for number in range(100)]
    store.apply([Set(Job(key, 0, number)) for number, key in enumerate(keys)])
    for limit in (1, 7, 100, 1_000):
        found, cursor = [], None
        while True:
            page = store.page(JobQuery(state=State.PENDING, cursor=cursor, limit=limit))
            assert len(page.jobs) <= limit
            found += [job.key for job in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == keys
    store.close()


def test_each_partition_prunes_its_history(redis_url):
    """
    Each partition prunes its own share of the history.
    """
    store = open_store(redis_url)
    epochs = {lease.shard: lease.epoch for lease in store.acquire("owner")}
    for number in range(60):
        key = f"key {number}"
        (answer,) = store.apply([Set(Job(key, 0, 5))])
        epoch = epochs[store.shard_of(key)]
        past = HistoryRecord(0, number, key, answer.job.generation, 1, "done", "n", "handler", "h", 5)
        store.apply([Begin(answer.job, epoch), Settle(answer.job, epoch, record=past)])
    while store.prune(0, 100, 12, 7):
        pass
    kept = [number for number in range(60) if store.history(f"key {number}", None, 1)]
    assert len(kept) == 12
    store.close()


def test_a_partition_without_notifications(make, record, redis_url, monkeypatch):
    """
    If one partition sends no notifications, requests to stop its jobs are found by polling.

    This holds even while another partition sends notifications.
    """
    monkeypatch.setattr(_watcher, "_NOTIFIED_S", 1.0)
    monkeypatch.setattr(PartitionedRedisStore, "heard", lambda _self: frozenset({0}))
    node, client, store = make(redis_url), make(redis_url), open_store(redis_url)
    stopped = threading.Event()

    @node.handler("h")
    async def run(payload):
        record(payload)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    node.start()
    asked, *_ = keys_of(store, 1)
    node.set(asked, delay=0, handler="h", payload="it runs")
    record.wait(1)
    assert client.cancel(asked, running=True).outcome is Outcome.STOPPING
    give_up, news = time.monotonic() + PATIENCE_S, keys_of(store, 0)
    while not stopped.wait(0.1):  # another partition sends notifications all the time
        assert time.monotonic() < give_up
        store.apply([Set(Job(news[0], 0, 2**42, handler="h"))])
    store.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_master_is_unreachable(make, record, cluster, events, how):
    """
    While one partition does not answer, jobs of the other partitions are set and fire in time.

    Writes to the silent partition raise transient errors. Its jobs fire when it answers again. Its running attempts are
    recorded as interrupted, and run again.
    """
    url = f"{cluster.url}lease_s=2&partitions=3"
    node = make(url)
    node.handler("h")(lambda payload: record((payload, time.time())))
    told = events(node)
    node.start()
    store = open_store(url)
    of = {number: keys_of(store, number) for number in range(PARTITIONS)}
    node.set_many([SetRequest(key, delay=6, handler="h", payload=key) for key in of[1][:10]])
    away = cluster.holder(Partition(1, 3).tag("tickwheel"))
    if how == "stopped":
        away.pause()
    else:
        away.stop(signal.SIGKILL)
    assert {event.shard % PARTITIONS for event in told.of(OwnershipLost)} == {1}
    due = {}
    for number in range(30):
        key = of[(0, 2)[number % 2]][number]
        due[key] = node.set(key, delay=0.2, handler="h", payload=key).job.due_at / 1000
        time.sleep(0.05)
    fired = dict(record.wait(30))
    assert set(fired) == set(due)
    assert all(0 <= at - due[key] < TIME_S for key, at in fired.items())
    with pytest.raises(StoreError) as caught:
        store.apply([Set(Job(of[1][20], 0, 5))])
    assert caught.value.is_transient
    if how == "stopped":
        away.resume()
    else:
        away.start()
    fired = dict(record.wait(40))
    assert set(of[1][:10]) <= set(fired)
    store.close()


@pytest.mark.parametrize("number", range(PARTITIONS))
def test_a_master_hangs(make, record, cluster, until, number):
    """
    While one partition's master hangs, the jobs of other partitions are claimed, fired and settled in time.
    """
    url = f"{cluster.url}lease_s=10&partitions=3"
    store = open_store(url)
    of = {part: keys_of(store, part) for part in range(PARTITIONS)}
    others = [part for part in range(PARTITIONS) if part != number]
    node = make(url)
    node.handler("h")(lambda payload: record((payload, time.time())))
    node.start()
    hung = cluster.holder(Partition(number, 3).tag("tickwheel"))
    due = time.time() + 2
    node.set_many([SetRequest(key, at=due, handler="h", payload=key) for part in of for key in of[part][:10]])
    hung.pause()
    soon = int(due * 1000) + 1_000
    for part in others:
        store.apply([Set(Job(of[part][20], 0, soon, handler="h", payload=b'"late"'))])
    fired = record.wait(22)
    assert {key for key, _ in fired} == {"late", *(key for part in others for key in of[part][:10])}
    at_least = {"late": soon / 1000}
    assert all(0 <= at - at_least.get(key, due) < TIME_S for key, at in fired)
    until(lambda: not any(store.get(key) for part in others for key in of[part][:10]))
    hung.resume()
    record.wait(32)
    store.close()


def test_a_master_is_lost_under_load(make_redis, until):
    """
    If one of three masters is killed, no write that had reached its replica is lost, and no job runs twice.

    Calls raise transient errors, until the replica takes over within ten seconds.
    """
    cluster = redis_servers.RedisCluster(make_redis)
    try:
        url = f"{cluster.url}lease_s=2&partitions=3"
        with loaded(f"{url}&replicas=1") as load:
            load.await_more(load.fired, 200, until)
            store = open_store(url)
            there = next(key for key in map("probe {}".format, range(99)) if store.partition_of(key) == 0)
            cluster.fail_over()
            lost_at = time.monotonic()
            until(lambda: store.apply([Set(Job(there, 0, 2**40 * 1000))]))
            assert time.monotonic() - lost_at < ACKNOWLEDGED_S
            until(lambda: store.apply([Cancel(there)]))
            store.close()
            cluster.await_successor()
            cluster.lost.start()  # it is now the replica of the promoted server
            load.await_more(load.fired, 200, until)
            load.end(until)
            assert load.wrongs() == {}
        assert all(error.is_transient for error in load.refused)
    finally:
        cluster.stop()
