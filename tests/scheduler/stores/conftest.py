"""
The suites explain their assertions, and a real PostgreSQL or Redis runs for each test that asks for one.
"""

from __future__ import annotations

import itertools
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tickwheel.scheduler.stores.postgres import _schema as postgres_schema
from tickwheel.scheduler.stores.sqlite import _schema as sqlite_schema

HERE = str(Path(__file__).parent)
if HERE not in sys.path:  # what the tests of stores share is beside them
    sys.path.insert(0, HERE)

from processes import find, given_to_nobody, lent  # noqa: E402 - as the path has it

PATIENCE_S = 60.0
NUMBERS = itertools.count()


class Postgres:
    """
    A server in a folder of its own, reached through a Unix socket there.
    """

    def __init__(self, folder, *settings, standby_of=None, backup_of=None):
        self.folder = folder
        self._settings = [word for setting in settings for word in ("-c", setting)]
        self._as = given_to_nobody(folder)
        self._process = None
        data, trusted = folder / "data", ("-U", "tick", "-A", "trust")
        command = [find("initdb"), "-D", data, *trusted, "-E", "UTF8", "--no-locale", "-N"]
        if standby_of is not None:
            source = f"host={standby_of.folder} user=tick application_name=standby"
            command = [find("pg_basebackup"), "-D", data, "-d", source, "-c", "fast", "-R", "-N"]
        if backup_of is not None:
            source = f"host={backup_of.folder} user=tick"
            command = [find("pg_basebackup"), "-D", data, "-d", source, "-c", "fast", "-N"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._as)
        if backup_of is not None:
            (data / "recovery.signal").touch()
            self._settings += ["-c", "restore_command=false"]  # all that it needs is in the backup

    def guard(self, user, password):
        """
        Make a user who must give a password.
        """
        self.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text()}")
        self.execute("SELECT pg_reload_conf()")

    def start(self):
        """
        Start it, and wait until it answers.
        """
        import psycopg  # noqa: PLC0415 - only where there is a server

        with (self.folder / "log").open("wb") as log:
            command = [find("postgres"), "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses="]
            command += self._settings
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < give_up
                time.sleep(0.05)  # a server says nowhere else that it is up
            else:
                return

    def stop(self, how=signal.SIGINT):
        """
        Stop it: SIGINT ends all sessions first, SIGQUIT is a crash.
        """
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def signal(self, how):
        """
        Send it a signal, and wait for nothing.
        """
        self._process.send_signal(how)

    def execute(self, statement, database="postgres"):
        """
        Execute *statement*, and return its rows.
        """
        import psycopg  # noqa: PLC0415 - only where there is a server

        with psycopg.connect(host=str(self.folder), user="tick", dbname=database, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def url(self, database):
        """
        Return what a store is opened by.
        """
        return f"postgresql:///{database}?host={self.folder}&user=tick"


class PostgresPair:
    """
    A primary and a standby that streams from it, under one address.
    """

    def __init__(self, make_postgres, *, is_synchronous=False):
        self.primary = make_postgres()
        self.standby = make_postgres(standby_of=self.primary)
        if is_synchronous:
            self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.primary.execute("SELECT pg_reload_conf()")
        hosts = f"{self.primary.folder},{self.standby.folder}"
        self.url = f"postgresql:///postgres?host={hosts}&user=tick&target_session_attrs=read-write&"

    def has_all(self):
        """
        Return whether the standby has replayed all that the primary has written.
        """
        ((written,),) = self.primary.execute("SELECT pg_current_wal_lsn()")
        ((has,),) = self.standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'")
        return has

    def detach(self):
        """
        Cut the standby off.
        """
        self.standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.execute("SELECT pg_reload_conf()")
        give_up = time.monotonic() + PATIENCE_S
        while self.standby.execute("SELECT pid FROM pg_stat_wal_receiver"):
            assert time.monotonic() < give_up
            time.sleep(0.02)  # a server says nowhere else that it has let go

    def fail_over(self):
        """
        Lose the primary, and promote the standby.
        """
        self.primary.stop(signal.SIGQUIT)
        assert self.standby.execute("SELECT pg_promote()") == [(True,)]


@pytest.fixture(scope="session")
def make_postgres():
    """
    Return what starts a server with the settings given; all are stopped in the end.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    if not (find("initdb") and find("postgres")):
        pytest.skip("PostgreSQL is not installed: there is no initdb and no postgres")
    yield from lent(Postgres)


@pytest.fixture(scope="session")
def postgres(make_postgres):
    """
    Return a running server.
    """
    return make_postgres()


def listens(path):
    """
    Return whether somebody listens on the Unix socket at *path*, which is there a moment before.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


class Pgbouncer:
    """
    A pooler of transactions before a server, reached through a Unix socket in a folder of its own.
    """

    def __init__(self, folder, server, *settings):
        self.folder = folder
        self._as = given_to_nobody(folder)
        lines = ["[databases]", f"* = host={server.folder} user=tick", "[pgbouncer]", "pool_mode = transaction"]
        lines += [f"unix_socket_dir = {folder}", "listen_port = 6432", "auth_type = any", *settings]
        (folder / "pgbouncer.ini").write_text("\n".join(lines))
        self._process = None

    def start(self):
        """
        Start it, and wait until it listens.
        """
        with (self.folder / "log").open("wb") as log:
            command = [find("pgbouncer"), self.folder / "pgbouncer.ini"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        give_up = time.monotonic() + PATIENCE_S
        while not listens(self.folder / ".s.PGSQL.6432"):
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < give_up
            time.sleep(0.02)  # it says nowhere else that it is up

    def stop(self):
        """
        Stop it at once.
        """
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)

    def url(self, database):
        """
        Return what a store is opened by.
        """
        return f"postgresql:///{database}?host={self.folder}&port=6432&user=tick"


@pytest.fixture(scope="session")
def make_pgbouncer(postgres):
    """
    Return what starts a pooler before the server, with the settings given; all are stopped in the end.
    """
    if not find("pgbouncer"):
        pytest.skip("PgBouncer is not installed: there is no pgbouncer")
    yield from lent(lambda folder, *settings: Pgbouncer(folder, postgres, *settings))


@pytest.fixture
def postgres_pair(make_postgres):
    """
    Return a primary and its standby, which replicates asynchronously.
    """
    return PostgresPair(make_postgres)


@pytest.fixture
def database(postgres):
    """
    Return the name of an empty database, which is dropped in the end.
    """
    name = f"empty_{next(NUMBERS)}"
    postgres.execute(f"CREATE DATABASE {name}")
    yield name
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Redis:
    """
    A server in a folder of its own, reached through a Unix socket there and a free port of the loopback.
    """

    def __init__(self, folder, *settings):
        self.folder = folder
        self.settings = settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process = None

    def start(self):
        """
        Start it, and wait until it answers.
        """
        import redis  # noqa: PLC0415 - only where there is a server

        own = ("--dir", self.folder, "--unixsocket", self.folder / "socket", "--bind", "127.0.0.1", "--port", self.port)
        with (self.folder / "log").open("ab") as log:
            (self.folder / "settings").touch()  # where a sentinel keeps what it learns
            command = [find("redis-server"), self.folder / "settings", *own, "--save", "", *self.settings]
            self._process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.execute("PING")
            except redis.AuthenticationError:
                return
            except redis.ConnectionError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < give_up
                time.sleep(0.01)  # a server says nowhere else that it is up
            else:
                return

    def stop(self, how=signal.SIGTERM):
        """
        Stop it: SIGTERM lets it end well, SIGKILL is a crash.
        """
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def pause(self):
        """
        Suspend it.
        """
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        """
        Let it go on.
        """
        self._process.send_signal(signal.SIGCONT)

    def execute(self, *command, database=0, **account):
        """
        Execute *command*, and return the reply.
        """
        import redis  # noqa: PLC0415 - only where there is a server

        with redis.Redis(port=self.port, db=database, **account) as client:
            return client.execute_command(*command)

    def url(self, options="", account=""):
        """
        Return what a store is opened by.
        """
        return f"redis://{account}127.0.0.1:{self.port}/0{options}"


@pytest.fixture(scope="session")
def make_redis():
    """
    Return what starts a server with the settings given; all are stopped in the end.
    """
    pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    if not find("redis-server"):
        pytest.skip("Redis is not installed: there is no redis-server")
    yield from lent(Redis)


@pytest.fixture(scope="session")
def redis_server(make_redis):
    """
    Return a running server that syncs each answer.
    """
    return make_redis("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=["postgres", "redis"])
def server_url(request):
    """
    Return the URL of an empty store on a server, of each kind in turn.
    """
    if request.param == "redis":
        return request.getfixturevalue("redis_server").url(f"?prefix=test{id(request)}")
    return request.getfixturevalue("postgres").url(request.getfixturevalue("database"))


@pytest.fixture
def go_back():
    """
    Return what brings a store back to an earlier schema: what later migrations added is taken away again.
    """

    def go_back_to(kind, version, execute):
        schema, undo = UNDO[kind]
        assert max(undo) == len(schema.MIGRATIONS), f"write into UNDO how to undo {kind}'s last migration"
        for number in range(max(undo), version, -1):
            for statement in undo[number].split("; "):
                execute(statement)
        execute(f"UPDATE tickwheel_schema SET version = {version}")  # noqa: S608 - a number of the test's own

    return go_back_to


UNDO = {
    "sqlite": (
        sqlite_schema,
        {
            7: "DROP TABLE tickwheel_history",
            8: "DROP TABLE tickwheel_scope",
            9: "DROP TABLE tickwheel_level; ALTER TABLE tickwheel_job DROP COLUMN instant",
            10: "ALTER TABLE tickwheel_history DROP COLUMN note",
            11: "DROP TABLE tickwheel_shelf; DROP TABLE tickwheel_filter",
        },
    ),
    "postgres": (
        postgres_schema,
        {
            10: "DROP TABLE tickwheel_history",
            11: "ALTER TABLE tickwheel_node DROP COLUMN heard_at, DROP COLUMN figures",
            12: "DROP TABLE tickwheel_scope",
            13: "ALTER TABLE tickwheel_history DROP COLUMN note",
            14: "ALTER TABLE tickwheel_shard DROP COLUMN lease_ms; ALTER TABLE tickwheel_node DROP COLUMN lease_ms",
        },
    ),
}
"""What undoes each migration, from the first one on before which a test goes back."""
