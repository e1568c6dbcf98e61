"""
If the connection goes silent, every call on a store ends in time, because the client enforces the timeout.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from sessions import noted_sessions, session_of

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError
from tickwheel.observe.prometheus import Collector
from tickwheel.scheduler import Scheduler
from tickwheel.stores import Cursor, _listener, open_store
from tickwheel.stores.postgres._prepared import Prepared
from tickwheel.stores.postgres._queries import SQL

LEASE_S = 3
MARGIN_S = LEASE_S * 0.2
PATIENCE_S = 30.0
JOB = model.Job("key", 5, 7)

CALLS = {
    "now_ms": lambda store: store.now_ms(),
    "apply": lambda store: store.apply([model.Set(model.Job("new", 0, 7))]),
    "apply many": lambda store: store.apply([model.Set(model.Job(f"{i}", 0, 7)) for i in range(500)]),
    "get": lambda store: store.get("key"),
    "page": lambda store: store.page(model.JobQuery()),
    "count": lambda store: store.count(),
    "last_generation": lambda store: store.last_generation(),
    "due": lambda store: store.due(0, 100, None, 10),
    "overdue": lambda store: store.overdue([0], 100, 10),
    "look": lambda store: store.look([Cursor(0, 1, (0, 0), 0)], 100, 10, with_changes=True),
    "upcoming": lambda store: store.upcoming(0, 100, 10),
    "count_due": lambda store: store.count_due(0, 10, 10),
    "history": lambda store: store.history("key", None, 10),
    "latest_dead": lambda store: store.latest_dead(10),
    "prune": lambda store: store.prune(0, 10, 10, 10),
    "acquire": lambda store: store.acquire("owner"),
    "renew": lambda store: store.renew("owner"),
    "release": lambda store: store.release("owner"),
    "take_up": lambda store: store.take_up(0, 1, [("handler", None)], 10),
    "aside": lambda store: store.aside(),
    "count_paused": lambda store: store.count_paused(),
    "set_scope": lambda store: store.set_scope("handler:a", model.Pause(5, "me", ""), None),
    "scopes": lambda store: store.scopes(),
    "shards": lambda store: store.shards(),
    "report": lambda store: store.report("owner", {}),
    "nodes": lambda store: store.nodes(),
    "request_withdrawal": lambda store: store.request_withdrawal([JOB]),
    "withdrawal_requests": lambda store: store.withdrawal_requests([0]),
    "report_started": lambda store: store.report_started([JOB]),
    "attempts": lambda store: store.attempts([JOB]),
}


@pytest.mark.slow
def test_calls_on_silent_connections_end_in_time(line_and_url):
    """
    On silent connections, each method of a store raises a transient error in time.

    The next call works.
    """
    line, url = line_and_url
    with closing(open_store(f"{url}&lease_s={LEASE_S}")) as store:
        store.acquire("owner")
        wrong = {}
        for name, call in CALLS.items():
            store.now_ms()
            line.silence()
            start = time.monotonic()
            with pytest.raises(StoreError) as caught:
                call(store)
            took_s = time.monotonic() - start
            if not caught.value.is_transient or took_s >= LEASE_S * 0.8:
                wrong[name] = caught.value, took_s
            store.now_ms()
        assert not wrong


def test_metrics_without_the_store(line_and_url, until):
    """
    While the server does not answer, the metrics of the process are exported without the store's counts.
    """
    line, url = line_and_url
    registry = CollectorRegistry()
    scheduler = Scheduler(f"{url}&lease_s={LEASE_S}")
    try:
        registry.register(Collector(scheduler.stats))
        assert registry.get_sample_value("tickwheel_store_up") == 1
        line.cut()
        assert registry.get_sample_value("tickwheel_store_up") == 0
        assert registry.get_sample_value("tickwheel_fired_total") == 0
        assert registry.get_sample_value("tickwheel_jobs", {"state": "pending"}) is None
        line.mend()
        until(lambda: registry.get_sample_value("tickwheel_jobs", {"state": "pending"}) == 0)
    finally:
        scheduler.stop()


@pytest.mark.parametrize("name", ["page", "count_due", "prune"])
def test_a_long_read_has_more_time_than_a_call(postgres, database, name):
    """
    The timeout of a call that reads many rows is longer than the timeout of a call for one row.
    """
    psycopg = pytest.importorskip("psycopg")
    with (
        closing(open_store(f"{postgres.url(database)}&lease_s={2 * LEASE_S}")) as store,
        psycopg.connect(postgres.url(database)) as other,
    ):
        table = "tickwheel_history" if name == "prune" else "tickwheel_job"
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(CALLS[name](store)))
        waiting.start()
        for _ in range(2):  # the second call ends later than the other thread's call would have failed
            with pytest.raises(StoreError, match=r"lock|within"):
                (CALLS["history"] if name == "prune" else CALLS["get"])(store)
        other.rollback()
        waiting.join(PATIENCE_S)
        assert len(answers) == 1


def test_one_silent_connection_holds_up_no_other(line_and_url):
    """
    While one call waits on a silent connection, other calls are answered on new connections.
    """
    line, url = line_and_url
    with closing(open_store(f"{url}&lease_s=10")) as store:
        store.now_ms()
        line.silence()
        raised = []

        def ask():
            try:
                store.count()
            except StoreError as error:
                raised.append(error)

        waiting = threading.Thread(target=ask)
        waiting.start()
        before = line.opened
        while line.opened == before:  # once the line has opened another, the silent connection is in use
            store.now_ms()
        assert waiting.is_alive()
        waiting.join(PATIENCE_S)
        assert [error.is_transient for error in raised] == [True]


def test_jobs_fire_and_are_set_after_a_silence(line_and_url):
    """
    After its connections went silent, the only node recovers within seconds.

    It can set new jobs, and its recurring job runs again.
    """
    line, url = line_and_url
    with Scheduler(f"{url}&lease_s={LEASE_S}") as scheduler:
        ran = threading.Semaphore(0)
        scheduler.handler("tick")(lambda _: ran.release())
        scheduler.start()
        scheduler.set("series", every=0.2, handler="tick")
        assert ran.acquire(timeout=PATIENCE_S)
        line.silence()
        start = time.monotonic()
        try:
            scheduler.set("other", delay=60, handler="tick")
        except StoreError as error:
            assert error.is_transient  # the commit may have begun  # noqa: PT017  several errors may come
        assert time.monotonic() - start < LEASE_S
        while ran.acquire(blocking=False):
            pass
        assert ran.acquire(timeout=5.0)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_commit_that_is_cut_off_is_unknown(database, postgres_line, monkeypatch, is_plain):
    """
    If the connection goes silent during a commit, the error says that the outcome is unknown.
    """
    url = f"postgresql://tick@127.0.0.1:{postgres_line.port}/{database}?lease_s=1"
    with closing(open_store(url)) as store:
        send = Prepared.send

        def silencing(self, text, values):
            if text in ("COMMIT", SQL["set_one"]):
                postgres_line.silence()
            return send(self, text, values)

        monkeypatch.setattr(Prepared, "send", silencing)
        with pytest.raises(StoreError) as caught:
            store.apply([model.Set(model.Job("key", 0, 7, first_set_at=0 if is_plain else 1))])
        assert (caught.value.is_unknown, caught.value.is_transient) == (True, True)


def test_a_commit_that_no_standby_confirms_is_unknown(make_postgres):
    """
    If the wait for a synchronous standby is cancelled, the outcome of the commit is unknown.
    """
    server, raised = make_postgres(), []
    store = open_store(f"{server.url('postgres')}&lease_s=100")
    server.execute("ALTER SYSTEM SET synchronous_standby_names = 'none'")
    server.execute("SELECT pg_reload_conf()")

    def write():
        try:
            while True:  # the cancel takes effect a moment later
                store.apply([model.Set(model.Job("key", 0, 7))])
        except StoreError as error:
            raised.append((error.is_unknown, error.is_transient, "no standby has confirmed" in str(error)))

    thread = threading.Thread(target=write)
    thread.start()
    while not server.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
        assert thread.is_alive(), raised
    store.close()
    thread.join(PATIENCE_S)
    assert raised == [(True, True, True)]


def test_a_close_ends_the_statements_that_run(postgres, database):
    """
    If the store is closed while another thread waits for a statement, the server ends the statement.
    """
    store = open_store(f"{postgres.url(database)}&lease_s=3600")
    raised = []

    def wait():
        try:
            with store._connections.reading() as connection:
                connection.execute("SELECT pg_sleep(60)")
        except StoreError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    while postgres.execute(asleep) != [(1,)]:
        pass
    store.close()
    thread.join(PATIENCE_S)
    assert len(raised) == 1
    assert postgres.execute(asleep) == [(0,)]


@pytest.mark.parametrize("lease_s", [1, 3, 10, 3_600])
def test_the_server_ends_statements_before_the_lease(postgres, database, lease_s):
    """
    The server's own time limits are shorter than the lease and the client's timeout, so the server's error comes first.
    """
    url = f"{postgres.url(database)}&lease_s={lease_s}"
    with noted_sessions() as sessions, closing(open_store(url)) as store:
        session = session_of(store, sessions)
        asked = "SELECT setting::integer FROM pg_settings WHERE name = %s"
        names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        limits = {name: session.execute(asked, (name,)).fetchone()[0] for name in names}
        client_ms = session.call_s * 1000
        assert 0 < limits["lock_timeout"] < limits["statement_timeout"] < client_ms
        assert 0 < limits["idle_in_transaction_session_timeout"] <= client_ms <= lease_s * 800


def test_a_silent_subscription_is_replaced(line_and_url, monkeypatch):
    """
    If an owner's subscription goes silent, the owner gets notifications through a new subscription.
    """
    monkeypatch.setattr("tickwheel.stores._listener._CHECK_S", 0.0)
    line, url = line_and_url
    with closing(open_store(f"{url}&lease_s=1")) as owner:
        owner.acquire("owner")
        for _ in range(3):
            owner.wait_for_change(0.0)
        line.silence()
        give_up = time.monotonic() + PATIENCE_S
        before = line.opened
        while line.opened == before:
            assert time.monotonic() < give_up
            owner.wait_for_change(0.01)
        with closing(open_store(f"{url}&lease_s=1")) as caller:
            caller.apply([model.Set(model.Job("key", 0, 7))])
            while not owner.wait_for_change(1.0):
                assert time.monotonic() < give_up


class Deaf:
    """
    A subscription on which nothing arrives. The second of its checks reports that it is silent.
    """

    def __init__(self):
        self._ends = socket.socketpair()
        self.checks = 0

    def filenos(self):
        return [self._ends[0].fileno()]

    def receive(self):
        return False

    def check(self):
        self.checks += 1
        if self.checks > 1:
            raise OSError

    def close(self):
        for end in self._ends:
            end.close()


def test_a_long_wait_does_not_delay_checks(monkeypatch):
    """
    Even during a long wait, a subscription is checked often enough to detect its loss in the promised time.
    """
    assert 2 * _listener._CHECK_S < 5
    monkeypatch.setattr(_listener, "_CHECK_S", 0.01)
    made = []

    def connect():
        made.append(Deaf())
        return made[-1]

    with closing(_listener.Listener(connect)) as listener:
        listener.listen()
        while len(made) < 2:
            listener.wait(60.0)
    assert [each.checks for each in made] == [2, 0]


DROPPING = """
    import subprocess, sys, time
    sys.path.insert(0, sys.argv[1])
    from lines import Line
    from tickwheel.jobs.errors import StoreError
    from tickwheel.stores import open_store
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    line = Line(sys.argv[2])
    store = open_store(sys.argv[3].format(port=line.port))
    store.now_ms()
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    for _ in range(2):  # on a connection that is there, and on a new one
        start = time.monotonic()
        try:
            store.count()
        except StoreError as error:
            print(error.is_transient, time.monotonic() - start < 3)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    while True:
        try:
            print(store.count()["pending"])
            break
        except StoreError:
            pass
"""


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_dropped_packets_end_calls_in_time(request, kind):
    """
    If the network drops all packets to and from a server, calls raise transient errors in time.
    """
    alone = ["unshare", "-n" if os.geteuid() == 0 else "-rn"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*alone, "ip", "link"], stdout=subprocess.DEVNULL, check=False).returncode
    ):
        pytest.skip("packets cannot be dropped here: this user may make no network namespace")
    if kind == "postgres":
        end = request.getfixturevalue("postgres").folder / ".s.PGSQL.5432"
        url = f"postgresql://tick@127.0.0.1:{{port}}/{request.getfixturevalue('database')}?lease_s=3"
    else:
        end = request.getfixturevalue("redis_server").folder / "socket"
        url = "redis://127.0.0.1:{port}/0?prefix=dropped&lease_s=3"
    support = Path(__file__).parents[2] / "support"
    command = [*alone, sys.executable, "-c", textwrap.dedent(DROPPING), support, end, url]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert answer.stdout.split() == ["True", "True"] * 2 + ["0"], answer.stderr


@pytest.mark.parametrize("table", ["tickwheel_shard", "tickwheel_node"])
def test_a_silent_pipeline_costs_no_lease(postgres, database, until, table):
    """
    If a client's silent session holds locks on a node's leases, the node does not lose them.

    The node's next renewals end the session, which uses pipeline mode.
    """
    psycopg = pytest.importorskip("psycopg")
    waiting = "SELECT query FROM pg_stat_activity WHERE wait_event = 'ClientRead'"
    locking = f"SELECT FROM {table} FOR UPDATE"

    def renewed():
        try:
            return store.renew("owner")
        except StoreError:
            return None

    def renew_beside():
        with psycopg.connect(host=str(postgres.folder), user="tick", dbname=database) as silent:
            silent.execute("SET statement_timeout = 500")
            with silent.pipeline():
                silent.execute(locking)
                silent.pgconn.send_flush_request()
                silent.pgconn.flush()
                until(lambda: (locking,) in postgres.execute(waiting, database))  # the server has executed it
                kept.extend(until(renewed))
                silent.execute("SELECT 1").fetchone()

    with closing(open_store(f"{postgres.url(database)}&lease_s=1")) as store:
        held, kept = store.acquire("owner"), []
        with pytest.raises(psycopg.Error, match="terminat"):
            renew_beside()
        assert [(lease.shard, lease.epoch) for lease in kept] == [(lease.shard, lease.epoch) for lease in held]
