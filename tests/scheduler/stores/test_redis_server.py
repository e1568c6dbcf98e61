"""
The Redis store with faults of the server, the connection or another node.
"""

from __future__ import annotations

import itertools
import signal
import socket
import sys
import threading
from contextlib import closing

import pytest
from writes import set_one

from tickwheel.errors import MissingExtraError
from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError, StoreFormatError
from tickwheel.stores import open_store
from tickwheel.stores.redis import _connections

NUMBERS = itertools.count()
PATIENCE_S = 30.0


@pytest.fixture
def server(make_redis):
    return make_redis("--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "local")


@pytest.fixture
def make(redis_server):
    """
    Return a function that opens stores of one prefix.

    The fixture closes them at the end.
    """
    opened = []
    prefix = f"server-{next(NUMBERS)}"

    def make_one(options="", on=redis_server, account=""):
        opened.append(open_store(on.url(f"?prefix={prefix}{options}", account)))
        return opened[-1]

    make_one.prefix = f"{{{prefix}}}"
    yield make_one
    for store in opened:
        store.close()


def test_an_unreachable_server():
    """
    If the server is unreachable, calls raise a transient error with a known outcome: nothing was written.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(StoreError, match="the connection failed") as caught:
            open_store(f"redis://127.0.0.1:{free.getsockname()[1]}/0")
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, False)


def test_many_connections(redis_server):
    """
    A store works, however many connections its process has opened before.

    The test opens 150 connections, because some client libraries keep count only up to a hundred.
    """
    connections = _connections.Connections(redis_server.url(), "redis", "{many}")
    for _ in range(150):
        connections.subscribe("{many}:news").disconnect()
    assert connections.call("PING") == b"PONG"
    connections.close()


def test_missing_driver(make, monkeypatch):
    """
    Without the driver the error names the extra that installs it.
    """
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtraError, match=r"redis is not installed: pip install 'tickwheel\[redis\]'"):
        make()


def test_newer_schema(redis_server, make):
    """
    A store of a newer version is refused.
    """
    make().close()
    redis_server.execute("HSET", f"{make.prefix}:meta", "version", 99)
    with pytest.raises(StoreFormatError, match="has schema version 99, and this tickwheel knows 1 to 5: upgrade"):
        make()


@pytest.mark.parametrize("change", [("HDEL", "layout"), ("HSET", "layout", "0123456789abcdef")])
def test_a_layout_before_the_first_release(redis_server, make, change):
    """
    A store whose data has an unknown layout is refused and stays unchanged.

    The error has the layout's version and a remedy.
    """
    with closing(make()) as store:
        set_one(store)
    meta = f"{make.prefix}:meta"
    redis_server.execute(change[0], meta, *change[1:])
    before = redis_server.execute("HGETALL", meta), redis_server.execute("HGETALL", f"{make.prefix}:jobs")
    said = r"never released \(schema version \d+, layout '\w+', not '\w+'\): run 'tickwheel export' with"
    with pytest.raises(StoreFormatError, match=said) as caught:
        make("&shards=99")
    assert not caught.value.is_transient
    assert before == (redis_server.execute("HGETALL", meta), redis_server.execute("HGETALL", f"{make.prefix}:jobs"))


@pytest.mark.parametrize("name", ["meta", "jobs", "due:0"])
def test_keys_of_another_program(redis_server, make, name):
    """
    If a key that the store needs has another type or belongs to another program, it stays unchanged.

    The error names the remedy.
    """
    redis_server.execute("SET", f"{make.prefix}:{name}", "theirs")
    with pytest.raises(StoreFormatError, match=r"holds something else .*: choose another prefix="):
        set_one(make("&shards=1"))
    assert redis_server.execute("GET", f"{make.prefix}:{name}") == b"theirs"


def test_no_memory(server, make):
    """
    If Redis is out of memory, setting a job raises a permanent error and stores nothing.

    Running jobs can still be settled.
    """
    store = make("&shards=1", server)
    (lease,) = store.acquire("owner")
    running, waiting = set_one(store, "running"), set_one(store, "waiting")
    store.apply([model.Begin(running, lease.epoch)])
    server.execute("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(StoreError, match=r"the server has no memory left .*: raise its maxmemory") as caught:
        set_one(store, "more", payload=b"x" * 1_000_000)
    assert not caught.value.is_transient
    assert store.get("more") is None
    answers = store.apply([model.Settle(running, lease.epoch), model.Begin(waiting, lease.epoch)])
    assert [answer.outcome for answer in answers] == ["settled", "begun"]
    assert store.apply([model.Settle(waiting, lease.epoch)])[0].outcome == "settled"
    assert len(store.renew("owner")) == 1
    server.execute("CONFIG", "SET", "maxmemory", "0")
    assert set_one(store, "more").key == "more"


def test_a_store_is_opened_without_memory(server, make):
    """
    If Redis is out of memory, another process can still open the store.

    The process can list, cancel, take over and fire jobs, which frees memory.
    """
    first = make("&shards=1", server)
    jobs = [set_one(first, key) for key in ("a", "b")]
    first.close()
    server.execute("SCRIPT", "FLUSH")  # as after a restart of the server
    server.execute("CONFIG", "SET", "maxmemory", "1mb")
    store = make("&shards=1", server)
    assert store.count()["pending"] == 2
    assert store.apply([model.Cancel("b")])[0].outcome == "cancelled"
    (lease,) = store.acquire("owner")
    for write in (model.Begin(jobs[0], lease.epoch), model.Settle(jobs[0], lease.epoch)):
        store.apply([write])
    assert store.count() == {"pending": 0, "running": 0, "dead": 0}
    with pytest.raises(StoreError, match="the server has no memory left"):
        set_one(store, "more")


def test_scripts_are_lost(redis_server, make):
    """
    Scripts that the server has lost are loaded again.
    """
    store = make()
    set_one(store)
    redis_server.execute("SCRIPT", "FLUSH")
    assert store.count()["pending"] == 1
    redis_server.execute("SCRIPT", "FLUSH")
    assert set_one(store, "more").key == "more"


def test_lost_connections(redis_server, make, until):
    """
    After the server has closed all connections, the next calls open new connections.

    No job is lost.
    """
    store = make()
    job = set_one(store)
    assert redis_server.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1
    assert until(lambda: store.get("key")) == job
    assert until(lambda: set_one(store, "more")).key == "more"


def test_replica(make_redis):
    """
    A write to a replica raises a transient error, not a permanent one, because the replica may be promoted.
    """
    primary = make_redis()
    replica = make_redis("--replicaof", f"127.0.0.1 {primary.port}")
    with pytest.raises(
        StoreError, match=r"the server is a replica and takes no writes .*: connect to its primary"
    ) as e:
        open_store(replica.url())
    assert e.value.is_transient
    replica.execute("REPLICAOF", "NO", "ONE")
    open_store(replica.url()).close()


def test_crash_of_the_server(server, make, until):
    """
    After a kill and a restart of the server, all acknowledged writes exist.

    The owner must claim its shards again, because the restarted server could be a promoted replica without the last
    lease.
    """
    store = make("&lease_s=120", server)  # the lease must outlast a slow restart of the server
    epochs = {lease.shard: lease.epoch for lease in store.acquire("owner")}
    jobs = [set_one(store, f"{i}") for i in range(20)]
    store.apply([model.Begin(job, epochs[store.shard_of(job.key)]) for job in jobs[:10]])
    server.stop(signal.SIGKILL)
    with pytest.raises(StoreError) as caught:
        set_one(store, "meanwhile")
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, False)
    server.start()
    assert until(store.count) == {"pending": 10, "running": 10, "dead": 0}
    assert store.renew("owner") == []
    later = store.acquire("owner")
    assert min(lease.epoch for lease in later) > max(epochs.values())
    assert sum(lease.rescued for lease in later) == 10
    answers = store.apply([model.Settle(job, epochs[store.shard_of(job.key)]) for job in jobs[:10]])
    assert {answer.outcome for answer in answers} == {model.Outcome.NOT_OWNER}
    other = make("", server)
    set_one(other, "news")
    assert until(lambda: store.wait_for_change(PATIENCE_S))


def rewrite_log(server, until):
    """
    Make the server rewrite its log, and wait until this is done.
    """
    server.execute("BGREWRITEAOF")
    until(lambda: not server.execute("INFO", "persistence")["aof_rewrite_in_progress"])


def test_server_is_killed_under_load(server, make, until):
    """
    A server that syncs its log to disk before each answer keeps every acknowledged job if it is killed during writes.
    """
    make("", server)
    answered, lost = set(), []

    def write(name):
        try:
            store = make("", server)
            for batch in itertools.count():
                keys = [f"{name} {batch} {i}" for i in range(10)]
                store.apply([model.Set(model.Job(key, 0, 0, b"x" * 100)) for key in keys])
                answered.update(keys)
                seen.set()
        except StoreError as error:
            lost.append(error)

    for turn in range(3):
        seen = threading.Event()
        threads = [threading.Thread(target=write, args=(f"{turn} {name}",)) for name in "ab"]
        for thread in threads:
            thread.start()
        seen.wait(PATIENCE_S)
        server.stop(signal.SIGKILL)
        for thread in threads:
            thread.join(PATIENCE_S)
        server.start()
        rewrite_log(server, until)  # otherwise a part of the torn log comes back: see docs/durable.md
    store = make("", server)
    assert all(error.is_transient for error in lost)
    assert len(lost) == 6
    assert len(answered) >= 30
    assert [key for key in answered if store.get(key) is None] == []
    count = store.count()["pending"]
    assert count % 10 == 0  # whole batches
    assert count >= len(answered)


def test_server_that_stands_still(server, make, until):
    """
    If the server does not answer in time, the error says that the outcome of the write is unknown.
    """
    store = make("&lease_s=1", server)
    job = set_one(store)
    server.pause()
    with pytest.raises(StoreError, match="the connection failed") as caught:
        store.apply([model.Cancel("key")])
    with pytest.raises(StoreError):
        store.get("key")
    server.resume()
    assert caught.value.is_transient
    assert until(lambda: set_one(store, "more")).generation > job.generation


def test_server_that_loads(server, make, until):
    """
    While the server loads its data, calls raise a transient error, and nothing is written.
    """
    server.execute("EVAL", "for i = 1, 5000 do redis.call('SET', 'filler:' .. i, i) end", 0)
    server.execute("BGREWRITEAOF")  # while it loads such a file, it answers after each kilobyte
    until(lambda: not server.execute("INFO", "persistence")["aof_rewrite_in_progress"])
    server.stop()
    server.settings += ("--key-load-delay", "400", "--loading-process-events-interval-bytes", "1024")
    starting = threading.Thread(target=server.start)
    starting.start()
    errors = []
    while True:
        try:
            make("", server)
            break
        except StoreError as error:
            errors.append(error)
    starting.join()
    assert any("still loading its data" in str(error) for error in errors), errors
    assert all((error.is_transient, error.is_unknown) == (True, False) for error in errors)


def test_node_of_a_cluster(make_redis, until):
    """
    In a cluster, the store works on the node that holds the store's hash slot.

    At any other node, the error gives the right address.
    """
    ports = [free_port(), free_port()]
    holder, other = (make_redis("--cluster-enabled", "yes", "--cluster-port", port) for port in ports)
    slot = holder.execute("CLUSTER", "KEYSLOT", "{tickwheel}:jobs")
    holder.execute("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    other.execute("CLUSTER", "MEET", "127.0.0.1", holder.port, ports[0])
    until(lambda: str(holder.port).encode() in other.execute("CLUSTER", "NODES"))
    assert 0 <= slot <= 16383
    store = until(lambda: open_store(holder.url()))
    (job,) = [set_one(store)]
    assert store.get("key") == job
    store.close()
    refusal = until(lambda: refused_by(other))
    assert f"127.0.0.1:{holder.port}" in refusal
    assert "open it by redis+cluster://" in refusal


def free_port():
    """
    Return a port on which no process listens.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def refused_by(server):
    """
    Return the error that a node raises for a store that another node of the cluster holds.
    """
    try:
        open_store(server.url()).close()
    except StoreError as error:
        if error.is_transient:
            raise
        return str(error)
    return None


def test_conflicting_batches_all_succeed(make):
    """
    If threads write large batches to the same few keys at once, all batches succeed.
    """
    first = make("&shards=1")
    stores, generations = (first, first, make()), []

    def write(store):
        for turn in range(15):
            writes = [model.Set(model.Job(f"{i % 10}", 0, turn)) for i in range(300)]
            generations.extend(answer.job.generation for answer in store.apply(writes))

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(generations) == len(set(generations)) == 3 * 15 * 300
    assert first.count() == {"pending": 10, "running": 0, "dead": 0}
