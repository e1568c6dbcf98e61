"""
The PostgreSQL store passes the contract suite, on a real server.
"""

import pytest

from tickwheel.stores.postgres import PostgresStore
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite


class PostgresTests:
    """
    Makes stores, each in its own database.
    """

    shards = 1

    @pytest.fixture(autouse=True)
    def _server(self, postgres):
        self.server = postgres
        self.made = {}
        yield
        for url in set(self.made.values()):
            postgres.take_back(url.partition("///")[2].partition("?")[0])

    def make_store(self) -> PostgresStore:
        return self.opened_by(self.server.url(self.server.lend_made()))

    def opened_by(self, url: str) -> PostgresStore:
        """
        Return a store in the database of *url*.
        """
        store = PostgresStore(url, url=url, shards=self.shards)
        self.made[store] = url
        return store


class TestPostgresStore(PostgresTests, StoreSuite):
    """
    The contract suite on one store object.
    """


class TestShardedPostgresStore(PostgresTests, StoreSuite):
    """
    The contract suite on one store object with several shards.
    """

    shards = 5


class TestSharedPostgresStore(PostgresTests, SharedStoreSuite):
    """
    The contract suite on two store objects that share several shards.
    """

    shards = 6

    def make_peer(self, store: PostgresStore) -> PostgresStore:
        """
        Return another store in the same database.
        """
        return self.opened_by(self.made[store])
