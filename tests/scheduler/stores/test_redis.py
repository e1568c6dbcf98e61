"""
The Redis store passes the contract suite, on a real server.
"""

import itertools

import pytest

from tickwheel.jobs.model import Adopt, Job, State
from tickwheel.stores import open_store
from tickwheel.stores._open import make_store
from tickwheel.stores.redis import RedisStore
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite

NUMBERS = itertools.count()


class RedisTests:
    shards = 1
    partitions = 1

    @pytest.fixture(autouse=True)
    def _server(self, redis_server):
        self.server = redis_server
        self.made = {}
        yield
        redis_server.execute("FLUSHALL")

    def make_store(self) -> RedisStore:
        """
        Return a store with a new prefix.
        """
        return self.opened_by(
            self.server.url(f"?prefix=store%20{next(NUMBERS)}&shards={self.shards}&partitions={self.partitions}")
        )

    def opened_by(self, url: str) -> RedisStore:
        store = make_store(url)
        self.made[store] = url
        return store


class TestRedisStore(RedisTests, StoreSuite):
    """
    The contract suite on one store object.
    """


class TestShardedRedisStore(RedisTests, StoreSuite):
    """
    The contract suite on one store object with several shards.
    """

    shards = 5


class TestPartitionOfRedisStore(RedisTests, StoreSuite):
    """
    The contract suite on one of several partitions.
    """

    shards = 5
    partitions = 3

    test_a_wait_without_a_change_lasts = None
    """Disabled: all partitions share one listener, which belongs to the partitioned store."""

    def make_store(self):
        """
        Return the second partition of a store with a new prefix.
        """
        return super().make_store().partitions[1]


class TestPartitionedRedisStore(RedisTests, StoreSuite):
    """
    The contract suite on one store object with several partitions.

    Tests of limits per partition are not run.
    """

    shards = 5
    partitions = 3

    test_pruned_by_number = None
    """Disabled: each partition keeps its own number of history records."""


class TestSharedPartitionedRedisStore(RedisTests, SharedStoreSuite):
    """
    The contract suite on two store objects that share several partitions.
    """

    shards = 6
    partitions = 3

    def make_peer(self, store):
        """
        Return another store object with the same prefix.
        """
        return self.opened_by(self.made[store])


class TestSharedRedisStore(RedisTests, SharedStoreSuite):
    """
    The contract suite on two store objects that share several shards.
    """

    shards = 6

    def make_peer(self, store: RedisStore) -> RedisStore:
        """
        Return another store object with the same prefix.
        """
        return self.opened_by(self.made[store])


def test_unix_socket(redis_server):
    """
    A URL can name the Unix socket of the Redis server.
    """
    store = open_store(f"unix://{redis_server.folder}/socket?db=3")
    assert isinstance(store, RedisStore)
    assert store.count()["pending"] == 0
    store.close()
    assert redis_server.execute("DBSIZE", database=3) == 1
    redis_server.execute("FLUSHALL")


def test_dead_jobs_of_a_former_version(redis_server):
    """
    Dead jobs of a former version are listed like all other dead jobs.

    That version did not record in which order jobs died.
    """
    store = open_store(redis_server.url("?prefix=former"))
    jobs = [Job(f"job {number}", 5, 1_000 + number, state=State.DEAD, error="it broke") for number in range(3)]
    store.apply([Adopt(job) for job in jobs])
    redis_server.execute("DEL", "{former}:dead_due")
    assert [job.key for job in store.latest_dead(2)] == ["job 2", "job 1"]
    redis_server.execute("ZREM", "{former}:dead_due", "job 2")
    assert [job.key for job in store.latest_dead(5)] == ["job 2", "job 1", "job 0"]
    store.close()
    redis_server.execute("FLUSHALL")
