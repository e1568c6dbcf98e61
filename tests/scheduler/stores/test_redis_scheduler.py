"""
Schedulers on one Redis: nodes that join and leave, and a store on which each call fails once.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter

import pytest

from tickwheel.observe.events import OwnershipGained
from tickwheel.scheduler import SchedulerOptions, SetRequest, StoreError
from tickwheel.stores import open_store
from tickwheel.testing.faulty_store import FaultyStore

NUMBERS = itertools.count()
CALLS = ("apply", "due", "changes", "renew", "acquire", "now_ms", "count", "wait_for_change")


@pytest.fixture
def redis_url(redis_server):
    """
    Return the URL of an empty store.
    """
    return redis_server.url(f"?prefix=scheduler-{next(NUMBERS)}&lease_s=2")


def test_nodes_share_the_jobs(make, record, redis_url, until):
    """
    Three nodes fire each job once, whichever node sets the job.

    This holds even after a node leaves.
    """
    nodes = [make(redis_url) for _ in range(3)]
    for number, node in enumerate(nodes):
        node.handler("h")(lambda payload, number=number: record((payload, number)))
        node.start()
    # running jobs are not handed over
    until(lambda: sorted(len(node.stats()["shards"]) for node in nodes) == [5, 5, 6])
    for turn in range(4):
        requests = [SetRequest(f"{turn} {i}", delay=0.3, handler="h", payload=f"{turn} {i}") for i in range(50)]
        nodes[turn % 3].set_many(requests)
    record.wait(200)
    nodes[0].stop()
    nodes[1].set_many([SetRequest(f"late {i}", delay=0.1, handler="h", payload=f"late {i}") for i in range(50)])
    fired = record.wait(250)
    assert Counter(payload for payload, _ in fired).most_common(1)[0][1] == 1
    assert {number for payload, number in fired if payload.startswith("late")} <= {1, 2}


@pytest.mark.parametrize("how", ["flushed", "restarted"])
def test_a_server_that_lost_everything(make, make_redis, until, caplog, how):
    """
    After a server has lost all data, new jobs fire.

    No new job gets a generation that was given out before.
    """
    server = make_redis()
    opened = open_store(server.url("?shards=2"))
    opened.close()
    url, ran = server.url("?shards=5&lease_s=2"), []
    nodes = [make(url).start() for _ in range(2)]
    for node in nodes:
        node.handler("h")(ran.append)
    nodes[0].set("lost", delay=3_600, handler="h")
    before = [nodes[0].set("key", delay=0, handler="h", payload="before").job.generation]
    until(lambda: ran == ["before"])
    epochs = {shard.epoch for shard in nodes[0].shards()}
    if how == "flushed":
        server.execute("FLUSHALL")
    else:
        server.stop(signal.SIGKILL)
        server.start()
    until(lambda: nodes[1].set("key", delay=0, handler="h", payload="at once"))
    until(lambda: "at once" in ran)
    after = [node.set(f"{number}", delay=0, handler="h", payload=number).job for number, node in enumerate(nodes)]
    until(lambda: {0, 1} <= set(ran))
    assert min(job.generation for job in after) > max(before) + 2**32
    shards = nodes[0].shards()
    assert len(shards) == 5
    assert min(shard.epoch for shard in shards if shard.owner) > max(epochs) + 2**32
    assert nodes[0].get("lost") is None
    assert "is empty, and is made again: all jobs that were in it are lost" in caplog.text


def test_all_shards_are_listed(make, events, redis_url):
    """
    Every node lists all shards with their owners, epochs and the times at which their leases end.

    A client that fires nothing lists the same.
    """
    nodes = [make(redis_url, options=SchedulerOptions(owner=name)) for name in ("one", "two")]
    asker, told = make(redis_url), events(nodes[1])
    nodes[0].start()
    nodes[1].start()
    told.of(OwnershipGained)  # the first node gives up its surplus when it renews
    assert {shard.owner for shard in asker.shards()} == {node.stats()["owner"] for node in nodes}
    for node in (*nodes, asker):
        shards = node.shards()
        now = time.time() * 1000
        assert [shard.number for shard in shards] == list(range(16))
        assert all(abs(shard.until - now) < 60_000 for shard in shards)
        assert len({shard.epoch for shard in shards}) == 16
    nodes[1].stop()
    assert "two" not in {shard.owner.partition(":")[0] for shard in asker.shards() if shard.owner}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_fails_once(make, record, redis_url, call, after):
    """
    If any call fails once, before or after it takes effect, every job still fires exactly once.
    """
    store = FaultyStore(open_store(redis_url))
    scheduler = make(store)
    scheduler.handler("h")(record)
    scheduler.set_many([SetRequest(f"{i}", delay=0.3, handler="h", payload=i) for i in range(10)])
    store.fail(call, after=after, is_unknown=after and call == "apply")
    try:
        scheduler.start()
    except StoreError:
        scheduler.start()
    store.fail(call, after=after, is_unknown=after and call == "apply")
    assert sorted(record.wait(10)) == list(range(10))
    scheduler.set("last", delay=0.2, handler="h", payload="last")
    assert record.wait(11)[-1] == "last"
    assert len(record.items) == 11
