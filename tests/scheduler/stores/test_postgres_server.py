"""
The PostgreSQL store during faults of the server, the connection or another node.
"""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack, suppress

import pytest
from sessions import noted_sessions, session_of
from writes import set_one

from tickwheel.engine._watcher import Watcher
from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError, StoreFormatError
from tickwheel.scheduler import Scheduler
from tickwheel.stores import Shard, open_store
from tickwheel.stores.postgres._prepared import Prepared
from tickwheel.stores.postgres._queries import SQL
from tickwheel.testing.store_suite._base import changes_of

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

PATIENCE_S = 30.0


def test_no_such_database(postgres):
    """
    If the database does not exist, the error names it and the remedy.
    """
    with pytest.raises(StoreError, match=r"there is no such database .*: create it, or name another") as caught:
        open_store(postgres.url("nowhere"))
    assert not caught.value.is_transient


def test_a_silent_host(postgres, database):
    """
    A host that accepts connections but never answers is skipped, and the next host in the URL is used.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1,{postgres.folder}&port={silent.getsockname()[1]},5432"
        store = open_store(f"postgresql:///{database}?host={hosts}&user=tick&connect_timeout=2")
        assert set_one(store).key == "key"
        store.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("&service=nosuch", "the driver refuses an option .*nosuch.*: mend the option of the URL"),
        ("&sslmode=bogus", "the driver refuses an option .*bogus"),
        ("&options=-c%20search_path%3Dnosuch", "there is no such schema .*: create the one that search_path names"),
    ],
)
def test_options_that_the_driver_cannot_apply(open_database, options, said):
    """
    If the driver cannot apply an option, a permanent error names the option.
    """
    with pytest.raises(StoreError, match=said) as caught:
        open_database(options)
    assert not caught.value.is_transient


def test_dropped_tables(postgres, database, open_database):
    """
    If the tables are dropped under an open store, the error says that they are missing, not that access is forbidden.
    """
    store = open_database()
    postgres.execute("DROP TABLE tickwheel_job", database)
    with pytest.raises(StoreError, match=r"a table of the store is missing .*: let search_path lead to the tables"):
        store.get("key")


def test_wrong_password(postgres, database):
    """
    A wrong password is a permanent error, which does not show the password.
    """
    postgres.guard("guarded", "right")
    url = f"postgresql://guarded:hush-hush@/{database}?host={postgres.folder}"
    with pytest.raises(StoreError, match="the server refuses this user") as caught:
        open_store(url)
    assert not caught.value.is_transient
    assert "hush" not in str(caught.value)
    assert "guarded:***@" in str(caught.value)


def test_an_unreachable_server(tmp_path):
    """
    If the server is unreachable, opening the store raises a transient error.
    """
    with pytest.raises(StoreError, match="the connection failed") as caught:
        open_store(f"postgres:///db?host={tmp_path}&user=tick")
    assert caught.value.is_transient


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("&shards=many", "shards is 'many' in .*: write a whole number in 0..256"),
        ("&shards=1000", "shards is '1000'"),
        ("&lease_s=-1", "lease_s is '-1'"),
        ("&lease_s=0", r"lease_s is '0' in .*: write a whole number in 1\.\.3600"),
        (f"&shards={'9' * 5000}", "shards is '99999999999999999999' in"),
        ("&colour=blue", "cannot be understood .*colour.*: write postgres://"),
    ],
)
def test_wrong_options(open_database, options, message):
    """
    The error for an unknown option names it.
    """
    with pytest.raises(StoreError, match=message):
        open_database(options)


class TooSlowError(Exception):
    """
    An exception that a signal handler raises, as task queues do to stop slow tasks.
    """


@pytest.mark.needs("signal.setitimer")
@pytest.mark.parametrize("options", ["", "&pooler=transaction"])
def test_a_signal_in_the_middle_of_a_read(postgres, database, open_database, until, options):
    """
    If a signal handler's exception interrupts a read, no unusable connection stays in the pool.
    """

    def too_slow(*_):
        raise TooSlowError

    store = open_database(options)
    job = set_one(store)
    before = signal.signal(signal.SIGALRM, too_slow)
    try:
        with psycopg.connect(postgres.url(database)) as other:
            other.execute("LOCK TABLE tickwheel_job IN ACCESS EXCLUSIVE MODE")
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(TooSlowError):
                store.get("key")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert [store.get("key") for _ in range(3)] == [job] * 3
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    until(lambda: postgres.execute(waiting, database) == [(0,)])


@pytest.mark.parametrize(
    ("statement", "is_done"), [("BEGIN", True), ("jobs_read", True), ("COMMIT", False), ("set_one", False)]
)
def test_ctrl_c_around_a_transaction(open_database, monkeypatch, statement, is_done):
    """
    If Ctrl-C interrupts a write just before or after a statement of its transaction, no transaction stays open.
    """
    with noted_sessions() as sessions:
        store = open_database()
    send, signals, text = Prepared.send, [KeyboardInterrupt()], SQL.get(statement, statement)

    def interrupted(self, sql, values):
        if sql == text and signals and not is_done:
            raise signals.pop()
        answer = send(self, sql, values)
        if sql == text and signals:
            raise signals.pop()
        return answer

    monkeypatch.setattr(Prepared, "send", interrupted)
    is_plain = statement == "set_one"  # only a plain set is a single statement
    with pytest.raises(KeyboardInterrupt):
        store.apply([model.Set(model.Job("lost", 0, 7), if_generation=None if is_plain else 5)])
    idle = [each for each in sessions if not each.closed]
    assert {each.info.transaction_status for each in idle} <= {0}
    assert not any(each.pgconn.pipeline_status for each in idle)
    assert store.get("lost") is None
    set_one(store)
    assert store.count()["pending"] == 1


def test_a_start_that_fails_keeps_no_shard(postgres, database, monkeypatch):
    """
    A node whose start fails releases all its shards to the other nodes.
    """
    scheduler = Scheduler(postgres.url(database))

    def start(_watcher):
        what = "can't start new thread"
        raise RuntimeError(what)

    monkeypatch.setattr(Watcher, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        scheduler.start()
    assert {shard.owner for shard in scheduler.shards()} == {None}
    scheduler.stop()


def test_a_key_that_postgres_cannot_store(open_database):
    """
    A key with a NUL character raises a permanent error.

    Other keys still work.
    """
    store = open_database()
    with pytest.raises(StoreError, match="a value cannot be stored") as caught:
        set_one(store, "nul \0 byte")
    assert not caught.value.is_transient
    assert set_one(store).key == "key"


def test_lost_connections(postgres, open_database, until):
    """
    After the server has ended all sessions, calls raise transient errors until new sessions are open.

    No job is lost.
    """
    store = open_database()
    (job,) = [set_one(store)]
    store.count()
    ours = "FROM pg_stat_activity WHERE application_name = 'tickwheel'"
    until(lambda: len(postgres.execute(f"SELECT pid {ours}")) >= 2)  # a background thread opens the second session
    postgres.execute(f"SELECT pg_terminate_backend(pid) {ours}")
    assert until(lambda: store.get("key")) == job
    assert until(lambda: set_one(store, "more")).key == "more"
    assert until(store.count)["pending"] == 2


def test_lost_connections_that_waited(postgres, open_database):
    """
    If the server has ended all idle sessions, the first call fails and closes all of them.

    Later calls open new sessions and succeed.
    """
    store = open_database()
    with ExitStack() as lent:
        for _ in range(4):
            lent.enter_context(store._connections.reading())
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tickwheel'")
    with pytest.raises(StoreError) as caught:
        store.count()
    assert caught.value.is_transient
    assert [store.get("key") for _ in range(4)] == [None] * 4


def test_crash_of_the_server(postgres, open_database, until):
    """
    After a crash and a restart of the server, all acknowledged writes exist.

    The owner keeps its epochs.
    """
    store = open_database("&lease_s=120")  # the lease must outlast a slow restart of the server
    leases = store.acquire("owner")
    jobs = [set_one(store, f"{i}") for i in range(20)]
    epochs = {lease.shard: lease.epoch for lease in leases}
    store.apply([model.Begin(job, epochs[store.shard_of(job.key)]) for job in jobs[:10]])
    postgres.stop(signal.SIGQUIT)
    with pytest.raises(StoreError) as caught:
        set_one(store, "meanwhile")
    assert caught.value.is_transient
    postgres.start()
    assert until(store.count) == {"pending": 10, "running": 10, "dead": 0}
    renewed = until(lambda: store.renew("owner"))
    assert {lease.shard: lease.epoch for lease in renewed} == epochs
    answers = store.apply([model.Settle(job, epochs[store.shard_of(job.key)]) for job in jobs[:10]])
    assert {answer.outcome for answer in answers} == {model.Outcome.SETTLED}
    assert store.wait_for_change(0.0) in (True, False)
    other = open_database()
    set_one(other, "news")
    assert until(lambda: store.wait_for_change(PATIENCE_S))


def test_a_claim_between_two_leases(postgres, database, open_database):
    """
    An attempt may begin after the lease of its owner has expired. If another node then takes over, it recovers the job.
    """
    store = open_database("&shards=1&listen=poll")
    (lease,) = store.acquire("owner")
    job = set_one(store)
    postgres.execute("UPDATE tickwheel_shard SET lease_until = 1", database)
    assert store.shards() == [Shard(0, None, lease.epoch)]
    # A claim that does not find its job makes the store apply the whole batch on the slow path, row by row.
    ghost = model.Job("ghost", job.generation + 1, 0)
    answers = store.apply([model.Begin(job, lease.epoch), model.Begin(ghost, lease.epoch)])
    assert answers[0].outcome is model.Outcome.BEGUN
    (taken,) = open_database("&listen=poll").acquire("heir")
    assert (taken.rescued, taken.epoch > lease.epoch) == (1, True)
    assert store.get("key").state is model.State.PENDING


def test_node_that_is_paused_in_a_transaction(open_database, until):
    """
    If a node is suspended within a transaction, the server ends the transaction after the node's lease has expired.

    Otherwise other nodes could not take over the shards.
    """
    paused, heir = open_database("&shards=1&lease_s=1"), open_database("&lease_s=1")
    (lease,) = paused.acquire("paused")
    job = set_one(paused)
    taken = []

    def pause():
        with paused._connections.writing() as connection:
            connection.execute("SELECT 1 FROM tickwheel_shard FOR UPDATE")
            taken.extend(until(lambda: heir.acquire("heir")))
            connection.execute("SELECT 1")

    with pytest.raises(StoreError) as caught:
        pause()
    assert caught.value.is_transient
    assert [taken_lease.epoch > lease.epoch for taken_lease in taken] == [True]
    assert [answer.outcome for answer in paused.apply([model.Begin(job, lease.epoch)])] == [model.Outcome.NOT_OWNER]


def test_claims_rewrite_in_place(postgres, database, open_database, until):
    """
    A claim changes no index, even if all jobs on a page are claimed.

    PostgreSQL counts such updates as HOT (heap-only tuples).
    """
    store = open_database("&shards=1")
    (lease,) = store.acquire("owner")
    jobs = [answer.job for answer in store.apply([model.Set(model.Job(f"{i}", 0, i)) for i in range(500)])]
    store.apply([model.Begin(job, lease.epoch) for job in jobs])
    store.close()
    counts = until(
        lambda: [
            row
            for row in postgres.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tickwheel_job'", database
            )
            if row[0]
        ]
    )
    assert counts == [(500, 500)]


def test_retries_after_a_lease(open_database, monkeypatch):
    """
    If an owner's lease may have expired, the owner can still write retries of a job.

    Each retry is announced to the shard's owner, which may be another node by then.
    """
    store = open_database("&shards=1")
    (lease,) = store.acquire("owner")
    job = set_one(store)
    monkeypatch.setattr(store, "_surely_owned", frozenset)
    for attempt in (1, 2, 3):
        store.apply([model.Begin(job, lease.epoch)])
        (answer,) = store.apply([model.Settle(job, lease.epoch, model.Settled.AGAIN, attempt)])
        assert answer.outcome is model.Outcome.SETTLED
        job = answer.job
    assert changes_of(store, 0, lease.epoch, 10, 0).changed == [job] * 3


def test_a_server_that_does_not_flush_may_lose_writes(open_database, make_postgres):
    """
    If a server flushes each commit to its disk, no acknowledged write is lost.

    Otherwise the store reports which writes may be lost, and names the remedy.
    """
    assert open_database().abilities.loss_window == ""
    careless = make_postgres("fsync=off", "full_page_writes=off")
    store = open_store(careless.url("postgres"))
    store.close()
    assert "set fsync = on; " in store.abilities.loss_window
    assert store.abilities.loss_window.endswith("set full_page_writes = on")


def test_what_a_failover_may_lose(postgres_pair, caplog, until):
    """
    With an asynchronous standby, a scheduler warns that a failover may lose writes.

    The scheduler warns at its start, or once the standby becomes asynchronous.
    """
    open_store(postgres_pair.url).close()
    assert caplog.messages == []  # a client does not warn
    with Scheduler(postgres_pair.url) as scheduler:
        assert "may lose answered writes that the standby has not yet received" in caplog.text
        assert scheduler.stats()["loss_window"].endswith("set synchronous_standby_names")
    postgres_pair.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    postgres_pair.primary.execute("SELECT pg_reload_conf()")
    with Scheduler(f"{postgres_pair.url}lease_s=1") as scheduler:
        assert scheduler.stats()["loss_window"] == ""
        caplog.clear()
        # as a primary without a standby does
        postgres_pair.primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
        postgres_pair.primary.execute("SELECT pg_reload_conf()")
        until(lambda: scheduler.stats()["loss_window"].endswith("set synchronous_standby_names"))
    assert caplog.text.count("may lose") == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
def test_a_silent_server_is_detected(make_postgres):
    """
    A silent server on a TCP connection is detected within seconds, unless the URL sets other limits.
    """
    number = os.getpid()
    # an address of this machine on which no server listens
    address = f"127.54.{number >> 8 & 255}.{number & 255}"
    make_postgres(f"listen_addresses={address}")
    for given, idle_s in ("", 5), ("&keepalives_idle=60", 60):
        with noted_sessions() as sessions:
            store = open_store(f"postgresql://tick@{address}/postgres?shards=1{given}")
            session = session_of(store, sessions)
        with socket.socket(fileno=os.dup(session.fileno())) as end:
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
            assert [end.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [idle_s, 2, 3, 2_000]
        store.close()


def truncate(postgres, database):
    """
    Empty all tables of tickwheel while nodes use them.
    """
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.url(database), autocommit=True) as connection:
        names = connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'tickwheel%'")
        statement = f"TRUNCATE {', '.join(name for (name,) in names)}"
        for _ in range(100):
            with suppress(psycopg.errors.DeadlockDetected):  # a deadlock with a node that has locked two of the tables
                connection.execute(statement)
                return
        pytest.fail("a hundred deadlocks")


def test_emptied_tables(postgres, database, until, caplog):
    """
    After the tables were emptied, new jobs fire.

    No new job gets a generation that was given out before.
    """
    url, ran = f"{postgres.url(database)}&lease_s=2", []
    with Scheduler(f"{url}&shards=5") as one, Scheduler(f"{url}&shards=20") as two:
        for node in (one, two):
            node.handler("h")(ran.append)
            node.start()
        one.set("lost", delay=3_600, handler="h")
        before = one.set("key", delay=0, handler="h", payload="before").job.generation
        until(lambda: ran == ["before"])
        epochs = {shard.epoch for shard in one.shards()}
        truncate(postgres, database)
        assert one.stats()["pending"] in {0, 1}
        keys = [f"after {number}" for number in range(40)]
        generations = [
            until(lambda key=key: one.set(key, delay=0, handler="h", payload=key)).job.generation for key in keys
        ]
        until(lambda: set(keys) <= set(ran))
        assert min(generations) > before + 2**32
        until(lambda: len(one.shards()) == 20)
        until(lambda: all(shard.owner and shard.epoch > max(epochs) + 2**32 for shard in one.shards()))
        assert one.get("lost") is None
        until(lambda: one.stats()["pending"] == one.stats()["running"] == 0)
    assert "its tables were emptied, and are made again" in caplog.text
    with Scheduler(url) as again:
        assert again.stats()["pending"] == 0


def test_a_start_on_emptied_tables(open_database, postgres, database):
    """
    A store that starts on emptied tables raises an error.

    The error says that the schema's version is missing, and names the remedy.
    """
    open_database().close()
    truncate(postgres, database)
    with pytest.raises(StoreFormatError, match=r"emptied: drop its tables and sequences that are named tickwheel_\*"):
        open_database()
