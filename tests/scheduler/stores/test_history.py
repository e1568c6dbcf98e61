"""
The history in each store: its cost, the records of interrupted attempts, and two processes that prune the history.
"""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from sqlite_files import noted_connections, statements_of

from tickwheel.jobs import model
from tickwheel.observe.events import JobSucceeded
from tickwheel.scheduler import HistoryOptions, SchedulerOptions, SetRequest
from tickwheel.stores import open_store
from tickwheel.stores.postgres._prepared import Prepared
from tickwheel.stores.postgres._queries import SQL
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.testing.store_suite._history import record_of

FAR = 2**40


@pytest.fixture
def served(request, server_url):
    """
    Return the URL of an empty store of one shard on a server.

    Also return a function that makes the lease of the store's owner expire.
    """
    if server_url.startswith("redis"):
        server, prefix = request.getfixturevalue("redis_server"), server_url.partition("prefix=")[2]
        return f"{server_url}&shards=1", lambda: server.execute("HSET", f"{{{prefix}}}:shard:0", "until", "1")
    server, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")
    return f"{server_url}&shards=1", lambda: server.execute("UPDATE tickwheel_shard SET lease_until = 1", database)


def test_an_interrupted_attempt_names_its_owner(served):
    """
    If an owner loses its lease during an attempt, the history gets exactly one record, with that owner's name.
    """
    url, end_lease = served
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        (lease,) = store.acquire("the first")
        begun = [
            store.apply([model.Set(model.Job(key, 0, due_at, target=target, handler='"h" \u00e9/'))])[0].job
            for key, due_at, target in (("a", 5, "handler"), ("b", -(2**40) - 7, "webhook"), ("c", FAR, "log"))
        ]
        store.apply([model.Begin(job, lease.epoch) for job in begun])
        end_lease()
        assert other.acquire("a second")[0].rescued == 3  # its name sorts before "the first", so it gets the shard
        for job in begun:
            (record,) = other.history(job.key, None, 9)
            expected = record_of(job, "cut_off", by="the first", at=record.at, number=record.number)
            assert record == expected
        settle = model.Settle(begun[0], lease.epoch, record=record_of(begun[0], "succeeded"))
        assert store.apply([settle])[0].outcome is model.Outcome.NOT_OWNER
        assert len(other.history("a", None, 9)) == 1


def test_two_processes_prune_the_history(served):
    """
    If two processes prune the history at the same time, each old record is deleted once, and recent records stay.
    """
    url, _ = served
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        (lease,) = store.acquire("the first")
        job = store.apply([model.Set(model.Job("key", 0, 0))])[0].job
        for start in range(0, 600, 100):
            firings = [
                (
                    model.Begin(job, lease.epoch),
                    model.Settle(job, lease.epoch, model.Settled.AGAIN, record=record_of(job, at=at)),
                )
                for at in range(start, start + 100)
            ]
            store.apply([write for firing in firings for write in firing])
        gone = []

        def prune(each):  # repeated, because a call deletes nothing while the other process prunes
            while len(each.history("key", None, 101)) > 100:
                gone.append(each.prune(0, 100, 10**6, 20))

        threads = [threading.Thread(target=prune, args=(each,)) for each in (store, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(gone) == 500
        assert [record.at for record in store.history("key", None, 1_000)] == list(range(599, 499, -1))


def test_a_success_costs_no_statement(tmp_path):
    """
    Settling a one-time job without a history record runs no statement on SQLite's history table.

    Each record that is written costs one statement.
    """
    with noted_connections() as made, closing(SqliteStore(tmp_path / "jobs.db")) as store:
        store.open()
        (lease,) = store.acquire("owner")

        def of_settles(*, is_recorded):
            jobs = [answer.job for answer in store.apply([model.Set(model.Job(f"k{i}", 0, i)) for i in range(9)])]
            store.apply([model.Begin(job, lease.epoch) for job in jobs])
            record = (lambda job: record_of(job, "succeeded")) if is_recorded else lambda _job: None
            settles = [model.Settle(job, lease.epoch, record=record(job)) for job in jobs]
            statements = statements_of(made, lambda: store.apply(settles))
            of_history = [statement for statement in statements if "tickwheel_history" in statement]
            return (len(statements) - len(of_history), len(of_history))

        others, of_history = of_settles(is_recorded=False)
        assert of_history == 0
        assert of_settles(is_recorded=True) == (others, 9)


def test_a_success_costs_no_statement_on_a_server(postgres, database, monkeypatch):
    """
    A batch of acknowledgements without history records runs no statement on PostgreSQL's history table.

    A batch with history records runs one such statement, however many records it has.
    """
    psycopg = pytest.importorskip("psycopg")
    statements, execute, send = [], psycopg.Connection.execute, Prepared.send

    def noting(self, query, *values, **more):
        statements.append(str(query))
        return execute(self, query, *values, **more)

    def noting_prepared(self, text, values):
        statements.append(text)
        return send(self, text, values)

    with closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        (lease,) = store.acquire("owner")

        def of_settles(*, is_recorded):
            jobs = [answer.job for answer in store.apply([model.Set(model.Job(f"k{i}", 0, i)) for i in range(9)])]
            store.apply([model.Begin(job, lease.epoch) for job in jobs])
            statements.clear()
            record = (lambda job: record_of(job, "succeeded")) if is_recorded else lambda _job: None
            with monkeypatch.context() as patch:
                patch.setattr(psycopg.Connection, "execute", noting)
                patch.setattr(Prepared, "send", noting_prepared)
                store.apply([model.Settle(job, lease.epoch, record=record(job)) for job in jobs])
            return sum("tickwheel_history" in statement for statement in statements)

        assert of_settles(is_recorded=False) == 0
        assert statements == [SQL["turn"]]
        assert postgres.execute("SELECT count(*) FROM tickwheel_history", database) == [(0,)]
        assert of_settles(is_recorded=True) == 1
        assert postgres.execute("SELECT count(*) FROM tickwheel_history", database) == [(9,)]


@pytest.mark.parametrize(("keep", "left"), [("none", []), ("usual", []), ("all", ["succeeded", "created"])])
def test_what_a_success_records(server_url, make, events, keep, left):
    """
    A one-time job that succeeds leaves no record, unless all records are kept.
    """
    scheduler = make(server_url, options=SchedulerOptions(history=HistoryOptions(keep=keep)))
    told, keys = events(scheduler), [f"k{number}" for number in range(9)]
    scheduler.handler("h")(lambda _: None)
    scheduler.start()
    scheduler.set_many([SetRequest(key, delay=0, handler="h") for key in keys])
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == len(keys))
    for key in keys:
        assert [record.outcome for record in scheduler.history(key)] == left
