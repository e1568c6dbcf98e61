"""
A Redis Cluster moves the store's hash slot to another master under load, and back.
"""

from __future__ import annotations

import pytest
from loads import loaded
from redis_servers import RedisCluster


@pytest.fixture
def cluster(make_redis):
    cluster = RedisCluster(make_redis, replicas=0)
    yield cluster
    cluster.stop()


def move_slot(cluster, load, until, *, is_slow):
    """
    Move the store's hash slot to another master.

    If *is_slow* is True, pause halfway until a call has failed.
    """
    source = cluster.holder()
    target = next(node for node in cluster.masters() if node is not source)
    slot = source.execute("CLUSTER", "KEYSLOT", "{tickwheel}")
    cluster.begin_move(slot, source, target)
    assert cluster.move_keys(slot, source, target, 10)
    if is_slow:
        load.await_more(load.refused, 1, until)
    cluster.end_move(slot, source, target)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_slot_moves_under_load_and_back(cluster, until, partitions):
    """
    While the store's hash slot moves, no acknowledged write is lost, and no job fires early or after its cancel.

    Refused calls raise transient errors with a known outcome. No attempt begins twice. An attempt that cannot be
    settled is
    recorded as interrupted, and its job runs again.
    """
    with loaded(f"{cluster.url}shards=4&lease_s=2&partitions={partitions}") as load:
        for is_slow in (True, False):
            load.await_more(load.fired, 200, until)
            move_slot(cluster, load, until, is_slow=is_slow)
        load.await_more(load.fired, 200, until)
        load.end(until)
        assert load.wrongs() == {}
    assert {(error.is_transient, error.is_unknown) for error in load.refused} == {(True, False)}
    assert all("the cluster is moving this store" in f"{error}" for error in load.refused)
