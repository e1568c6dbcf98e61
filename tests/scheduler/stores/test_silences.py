"""
If a server is silent for longer than a lease, no living node loses a shard.
"""

from __future__ import annotations

import pytest

from tickwheel.stores import open_store


@pytest.fixture
def nodes(server_url):
    """
    Return two open stores, and the epoch of each shard.

    The owner of each store holds two shards, with leases of one second.
    """
    between = "&" if "?" in server_url else "?"
    stores = [open_store(f"{server_url}{between}shards=4&lease_s=1") for _ in range(2)]
    for _ in range(2):
        for name, store in zip("ab", stores, strict=True):
            store.renew(name)
            store.acquire(name)
    held = [{lease.shard: lease.epoch for lease in store.renew(name)} for name, store in zip("ab", stores, strict=True)]
    assert [len(each) for each in held] == [2, 2]
    yield stores, held
    for store in stores:
        store.close()


def has_expired(store):
    """
    Return True if all leases have expired.
    """
    return all(shard.owner is None for shard in store.shards())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_living_nodes_keep_their_shards(nodes, until, order):
    """
    Each node keeps its shards under the same epochs, whichever node gets the first answer after the silence.
    """
    stores, held = nodes
    until(lambda: has_expired(stores[0]))
    for _ in range(2):
        for number in order:
            name = "ab"[number]
            stores[number].renew(name)
            leases = stores[number].acquire(name)
            assert {lease.shard: lease.epoch for lease in leases} == held[number]
            assert [lease.rescued for lease in leases] == [0, 0]


def test_shards_of_a_node_that_died_in_the_silence(nodes, until):
    """
    A node that died during the silence loses its shards soon after the silence ends.
    """
    stores, held = nodes
    until(lambda: has_expired(stores[0]))
    assert {lease.shard for lease in stores[0].acquire("a")} == set(held[0])

    def taken():
        leases = {lease.shard: lease.epoch for lease in stores[0].acquire("a")}
        return leases if len(leases) == 4 else None

    leases = until(taken)
    assert {shard: leases[shard] for shard in held[0]} == held[0]
    assert all(leases[shard] > epoch for shard, epoch in held[1].items())
    assert stores[1].renew("b") == []
