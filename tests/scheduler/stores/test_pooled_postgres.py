"""
The PostgreSQL store behind a pooler that assigns a server session to one transaction at a time.
"""

from __future__ import annotations

import threading
from urllib.parse import quote

import psycopg
import pytest

from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import Scheduler
from tickwheel.stores import make_store, open_store
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite

PATIENCE_S = 30.0


class PooledTests:
    """
    Makes stores, each in its own database. The connections of all stores share two sessions of the server.
    """

    shards = 1

    @pytest.fixture(autouse=True)
    def _pooler(self, postgres, make_pgbouncer):
        self.server, self.pooler = postgres, make_pgbouncer("default_pool_size = 2")
        self.made = {}
        yield
        self.pooler.stop()
        for name in set(self.made.values()):
            postgres.take_back(name)

    def make_store(self):
        return self.opened_by(self.server.lend())

    def opened_by(self, name):
        """
        Return a store in the database *name*. It listens on a separate connection to the server.
        """
        listen = quote(self.server.url(name), safe="")
        store = make_store(f"{self.pooler.url(name)}&pooler=transaction&shards={self.shards}&listen={listen}")
        self.made[store] = name
        return store


class TestPooledStore(PooledTests, StoreSuite):
    """
    The contract suite on one store object.
    """


class TestSharedPooledStore(PooledTests, SharedStoreSuite):
    """
    The contract suite on two store objects that share several shards.
    """

    shards = 6

    def make_peer(self, store):
        """
        Return another store in the same database.
        """
        return self.opened_by(self.made[store])


@pytest.fixture(scope="module")
def pooler(make_pgbouncer):
    """
    Return a pooler that refuses startup settings (the default of most poolers).
    """
    return make_pgbouncer()


def test_a_pooler_that_refuses_settings(pooler, database):
    """
    Opening the store fails if the pooler refuses the session's settings and the option `pooler=` is missing.

    This is a permanent error that names the remedy.
    """
    with pytest.raises(StoreError, match="add pooler=transaction to the URL") as caught:
        open_store(pooler.url(database))
    assert not caught.value.is_transient


def test_a_pooler_that_drops_settings(make_pgbouncer, database):
    """
    If the pooler has silently dropped the settings of a session, the store does not use the session.
    """
    pooler = make_pgbouncer("ignore_startup_parameters = options")
    with pytest.raises(StoreError, match=r"drops the settings .* add pooler=transaction") as caught:
        open_store(pooler.url(database))
    assert not caught.value.is_transient


def test_settings_come_with_each_transaction(pooler, database):
    """
    With `pooler=transaction`, the store's settings apply within each of its transactions.

    No setting is left in the session for the pooler's next client.
    """
    store = open_store(f"{pooler.url(database)}&pooler=transaction&lease_s=7")
    names = ("idle_in_transaction_session_timeout", "enable_seqscan", "synchronous_commit", "lock_timeout")
    ask = " UNION ALL ".join(f"SELECT current_setting('{name}')" for name in names)
    with store._connections.reading() as connection:
        assert [row[0] for row in connection.execute(ask)] == ["1400ms", "off", "on", "1120ms"]
    with psycopg.connect(pooler.url(database), prepare_threshold=None) as other:
        assert [row[0] for row in other.execute(ask)] == ["0", "on", "on", "0"]
    store.close()


@pytest.mark.parametrize("is_direct", [False, True])
def test_jobs_of_others_are_fired(pooler, postgres, database, is_direct):
    """
    If another process sets a due job, the job fires soon.

    The node either polls or listens on a direct connection to the server.
    """
    url = f"{pooler.url(database)}&pooler=transaction"
    if is_direct:
        url += f"&listen={quote(postgres.url(database), safe='')}"
    fired = threading.Event()
    with Scheduler(url) as owner, Scheduler(url) as client:
        owner.handler("h")(lambda _: fired.set())
        owner.start()
        listens = "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN tickwheel' AND datname = current_database()"
        assert bool(postgres.execute(listens, database)) is is_direct
        client.set("k", delay=0, handler="h")
        assert fired.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("pooler=session", "write transaction, or leave it out"),
        ("listen=no", "write poll, or the URL of the server itself"),
    ],
)
def test_unknown_values_of_options(options, expected):
    """
    An unknown value of an option raises an error before any connection is made.
    """
    with pytest.raises(StoreError, match=expected):
        make_store(f"postgres://host/jobs?{options}")


def test_the_password_of_the_server_itself_is_masked():
    """
    The URL of the direct connection has its own password, and no message shows this password.
    """
    store = make_store("postgres://a:one@host/jobs?pooler=transaction&listen=postgres%3A%2F%2Fa%3Atwo%40host%2Fjobs")
    assert store.url == "postgres://a:***@host/jobs?pooler=transaction&listen=***"
