"""
The SQLite store passes the contract suite.
"""

import itertools

import pytest

from tickwheel.stores.sqlite import SqliteStore
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite


class SqliteTests:
    """
    Makes stores, each on a new file of the test.
    """

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    def make_store(self) -> SqliteStore:
        return SqliteStore(next(self.paths))


class TestSqliteStore(SqliteTests, StoreSuite):
    """
    The contract suite, with one store object on the file.
    """


class TestSharedSqliteStore(SqliteTests, SharedStoreSuite):
    """
    The contract suite, with two store objects on one file.
    """

    def make_peer(self, store: SqliteStore) -> SqliteStore:
        """
        Return another store on the same file.
        """
        return SqliteStore(store.path)
