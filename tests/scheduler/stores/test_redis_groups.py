"""
One Redis store on several servers: a cluster, and a primary watched by sentinels.
"""

from __future__ import annotations

import threading
import time

import pytest
import redis_servers
from processes import free_port
from writes import set_one

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import Scheduler
from tickwheel.stores import masked, open_store

ACKNOWLEDGED_S = 10.0
"""Maximum number of seconds from the loss of a master until a write is acknowledged again."""


@pytest.fixture
def cluster(make_redis):
    """
    Return three masters with a replica each.
    """
    cluster = redis_servers.RedisCluster(make_redis)
    yield cluster
    cluster.stop()


@pytest.fixture(params=["cluster", "sentinels"])
def group(request, make_redis):
    """
    Return servers that form one store, for each kind of group.
    """
    kind = redis_servers.RedisCluster if request.param == "cluster" else redis_servers.RedisSentinels
    group = kind(make_redis)
    yield group
    group.stop()


def test_a_lost_primary(group, until):
    """
    After the loss of its primary, the store finds the promoted replica, which has all data.

    It acknowledges a write within ten seconds. All earlier errors are transient, and no generation is used twice.
    """
    careful, store = open_store(f"{group.url}replicas=1"), open_store(group.url)
    jobs = [set_one(careful, f"key {number}") for number in range(100)]
    group.fail_over()
    lost_at = time.monotonic()
    job = until(lambda: set_one(store, "after"))
    assert time.monotonic() - lost_at < ACKNOWLEDGED_S
    assert [store.get(each.key) for each in jobs] == jobs
    assert job.generation > max(each.generation for each in jobs) + 100
    until(lambda: careful.get("key 0"))
    with pytest.raises(StoreError, match="0 of 1 replicas"):
        set_one(careful, "alone")  # its only replica is now the primary
    for each in (careful, store):
        each.close()


def test_another_store_object_finds_it_at_once(group, until):
    """
    A store that is opened after a failover finds the new primary, even if some hosts in its URL no longer exist.
    """
    store = open_store(group.url)
    set_one(store, "before")
    group.fail_over()
    assert until(lambda: set_one(store, "after"))
    other = until(lambda: open_store(group.url))
    assert {job.key for job in other.page(model.JobQuery()).jobs} >= {"after"}
    for each in (store, other):
        each.close()


def test_calls_while_a_slot_moves(cluster):
    """
    While a cluster moves the store's hash slot to another node, calls raise transient errors and are not executed.

    Afterwards calls go to the slot's new node.
    """
    store = open_store(cluster.url)
    before = {key: set_one(store, key) for key in ("one", "two")}
    source = cluster.holder()
    slot = source.execute("CLUSTER", "KEYSLOT", "{tickwheel}")
    target = next(node for node in cluster.masters() if node is not source)
    cluster.begin_move(slot, source, target)
    with pytest.raises(StoreError, match="the cluster is moving this store") as caught:
        set_one(store, "between")
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, False)
    with pytest.raises(StoreError):
        store.get("one")
    cluster.end_move(slot, source, target)
    assert set_one(store, "after").generation > before["two"].generation
    assert {job.key: job for job in store.page(model.JobQuery()).jobs if job.key in before} == before
    assert cluster.holder() is target
    assert store.get("between") is None
    store.close()


def test_writes_of_another_process_wake_the_owner(cluster, until):
    """
    If another process sets a job, the owner wakes up, both before and after the store's hash slot moves.

    Only the slot's master and its replicas forward notifications.
    """
    url = f"{cluster.url}prefix=news"
    owner, other = open_store(url), open_store(url)
    owner.acquire("owner")
    source = cluster.holder("news")
    slot = source.execute("CLUSTER", "KEYSLOT", "{news}")
    target = next(node for node in cluster.masters() if node is not source)
    assert is_heard(owner, other, until)
    cluster.begin_move(slot, source, target)
    cluster.end_move(slot, source, target)
    while owner.wait_for_change(1.5):
        pass  # the owner learns that the slot has moved, and subscribes at the new node
    owner.acquire("owner")  # all leases have ended, because another server answers
    assert is_heard(owner, other, until)
    for each in (owner, other):
        each.close()


def is_heard(owner, other, until):
    """
    Return True if *owner* wakes up from its wait when *other* sets a job.
    """
    heard = threading.Event()
    listening = threading.Thread(target=lambda: owner.wait_for_change(30) and heard.set())
    listening.start()
    until(lambda: set_one(other) and heard.wait(0.5))
    listening.join()
    return heard.is_set()


def test_jobs_fire_after_a_failover(group, until):
    """
    A scheduler continues through a failover.

    Jobs set before and after it fire, and none fires early.
    """
    fired = {}
    done = threading.Event()
    with Scheduler(f"{group.url}lease_s=1") as scheduler:

        @scheduler.handler("work")
        def work(payload, firing):
            fired.setdefault(payload, time.time() - firing.job.due_at / 1000)
            if payload == "last":
                done.set()

        scheduler.start()
        scheduler.set("first", delay=0.2, handler="work", payload="first")
        scheduler.set("later", delay=4.0, handler="work", payload="later")
        group.fail_over(is_replicated=True)  # another test covers writes that were not replicated
        until(lambda: scheduler.set("last", delay=4.5, handler="work", payload="last"))
        assert done.wait(redis_servers.PATIENCE_S)
    assert set(fired) == {"first", "later", "last"}
    assert min(fired.values()) >= 0


def test_replicas_that_are_missing(make_redis):
    """
    A write that too few replicas confirm raises an error.

    The error says that the write may be lost, and names a remedy.

    The primary has stored the write.
    """
    server = make_redis()
    store = open_store(server.url("?replicas=1&prefix=alone"))
    with pytest.raises(
        StoreError, match=r"0 of 1 replicas have the write within 1\.6 s: see to the replicas"
    ) as caught:
        set_one(store)
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, True)
    assert store.get("key").key == "key"
    store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+cluster://", "'' is not a host.*: write redis\\+cluster://user:password@host:port,host:port"),
        ("redis+cluster://a:1,,b:2", "'' is not a host"),
        ("redis+cluster://a:x", "'a:x' is not a host"),
        ("redis+cluster://a/3", "a cluster has database 0 only"),
        ("redis+sentinel://a,b", r"does not name the primary .*: add \?master=name"),
        ("redis+cluster://a?master=b", "has the option 'master'"),
        ("redis://a?replicas=many", "replicas is 'many'"),
    ],
)
def test_wrong_urls(url, message):
    """
    The error for an invalid URL says how to write the URL.
    """
    pytest.importorskip("redis")
    with pytest.raises(StoreError, match=message):
        open_store(url)


def test_no_host_answers():
    """
    If no host answers, the error is transient, and shows neither the server's nor the sentinels' password.
    """
    pytest.importorskip("redis")
    ports = [free_port() for _ in range(2)]
    url = f"redis+sentinel://u:secret@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}?master=m&sentinel_password=secret"
    with pytest.raises(StoreError, match="the connection failed") as caught:
        open_store(url)
    assert caught.value.is_transient
    assert "secret" not in f"{caught.value} {masked(url)}"


def test_no_sentinel_knows_it(make_redis):
    """
    If no sentinel knows the service, the error names the service.
    """
    sentinel = make_redis("--sentinel")
    with pytest.raises(StoreError, match="no sentinel knows a master named 'nosuch'"):
        open_store(f"redis+sentinel://127.0.0.1:{sentinel.port}?master=nosuch")
