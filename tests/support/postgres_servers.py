"""
PostgreSQL for tests and proofs: one server, a primary with a standby, and a pooler.
"""

from __future__ import annotations

import itertools
import re
import signal
import socket
import subprocess
import time

from processes import PATIENCE_S, find, given_to_nobody, wait_until_up

EMPTY = (
    """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    """,
    "SET lock_timeout = '5s'",
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)
"""
Statements that empty a database. Dropping it and making a new one would cost a wait for a checkpoint.
"""
USED = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
        + (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)
        + (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^(pg_|public$|information_schema$)')
"""
SHAPE = """
    SELECT md5(string_agg(line, ' ' ORDER BY line)) FROM (
        SELECT concat(relname, relkind, relowner, relacl, reloptions, attname, atttypid, attnotnull) AS line
        FROM pg_class LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
        WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT concat(conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT concat(proname, prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT concat(tgrelid::regclass, tgname) FROM pg_trigger
        UNION ALL SELECT concat(nspname, nspacl) FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)'
    ) AS lines
"""
"""Statement that hashes a database's tables, indexes, sequences, constraints, functions, triggers and rights."""
VERSION = "INSERT INTO tickwheel_schema VALUES ({}, '{}')"
RESTS = 4
"""
Minimum number of emptied databases that are not lent again yet. Former schedulers may still connect to them.
"""


class Postgres:
    """
    A server in a folder, reached through a Unix socket there.
    """

    def __init__(self, folder, *settings, standby_of=None, backup_of=None):
        self.folder = folder
        self._settings = [word for setting in settings for word in ("-c", setting)]
        self._as = given_to_nobody(folder)
        self._process = None
        self._numbers = itertools.count()
        self._given_back, self._made = [], []
        self._shape, self._emptied, self._is_unused = None, "", ""
        self._sessions = {}
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
            self._settings += ["-c", "restore_command=false"]  # the backup has everything that the standby needs

    def guard(self, user, password):
        """
        Create a user who has to give a password.
        """
        self.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text()}")
        self.execute("SELECT pg_reload_conf()")

    def start(self):
        """
        Start the server, and wait until it answers.
        """
        with (self.folder / "log").open("wb") as log:
            command = [find("postgres"), "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses="]
            command += self._settings
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        wait_until_up(self._process, self.folder / "log", self._answers)

    def stop(self, how=signal.SIGINT):
        """
        Stop the server.

        SIGINT ends all sessions first. SIGQUIT is a crash.
        """
        for name in list(self._sessions):
            self.leave(name)
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def signal(self, how):
        """
        Send a signal to the server, and do not wait for its effect.
        """
        self._process.send_signal(how)

    def _answers(self):
        import psycopg  # noqa: PLC0415 - only where there is a server

        try:
            return bool(self.execute("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def execute(self, statement, database="postgres"):
        """
        Execute *statement*. Return its rows.
        """
        import psycopg  # noqa: PLC0415 - only where there is a server

        with psycopg.connect(host=str(self.folder), user="tick", dbname=database, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def lend(self):
        """
        Return the name of an empty database for one test.
        """
        name = self._unused(self._given_back, USED)
        if name is None:
            name = f"lent_{next(self._numbers)}"
            self.execute(f"CREATE DATABASE {name}")
        return name

    def lend_made(self):
        """
        Return the name of a database, for one test, that already has the tables of a store.

        Such a database takes a quarter of the time of an empty one, in which the store has to make the tables first.
        """
        name = self._unused(self._made, self._is_unused)
        if name is None:
            name = self.lend()
            self._make(name)
        return name

    def _unused(self, names, used):
        while len(names) > RESTS:
            name = names.pop(0)
            if self._within(name, used) == [(0,)]:
                return name
            self._drop(name)
        return None

    def _within(self, name, *statements):
        """
        Execute the statements in a lent database. Return the rows of the last statement.
        """
        import psycopg  # noqa: PLC0415 - only where there is a server

        while True:
            is_new = name not in self._sessions
            if is_new:
                self._sessions[name] = psycopg.connect(host=str(self.folder), user="tick", dbname=name, autocommit=True)
            try:
                for statement in statements:
                    cursor = self._sessions[name].execute(statement)
            except psycopg.OperationalError:
                if is_new or not self._sessions[name].closed:
                    raise
                self.leave(name)  # the test ended all sessions, or stopped the server
            else:
                return cursor.fetchall() if cursor.description else []

    def leave(self, name):
        """
        Close this object's session in a lent database.

        Some statements need a database without sessions.
        """
        if (session := self._sessions.pop(name, None)) is not None:
            session.close()

    def _drop(self, name):
        self.leave(name)
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _make(self, name):
        """
        Make the tables of a store.

        The first time, also record the shape of the tables and the statements that empty them.
        """
        from tickwheel.stores.postgres import PostgresStore, _schema  # noqa: PLC0415 - only where there is a server

        store = PostgresStore(self.url(name), url=self.url(name))
        store.open()
        store.close()
        if self._shape is not None:
            self._within(name, self._emptied)
            return
        ((self._shape,),) = self._within(name, SHAPE)
        find_all = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = '{}'"
        tables, sequences = ([row[0] for row in self._within(name, find_all.format(kind))] for kind in "rS")
        filled = [
            text for script in _schema.MIGRATIONS for text in re.findall(r"^INSERT INTO [^;]*", script, re.MULTILINE)
        ]
        (version,) = self._within(name, "SELECT * FROM tickwheel_schema")
        statements = [
            *map("DELETE FROM {}".format, tables),
            VERSION.format(*version),
            *filled,
            *map("SELECT setval('{}', 1, false)".format, sequences),
        ]
        self._emptied = "; ".join(statements)
        self._within(name, self._emptied)
        rows = " + ".join(map("(SELECT count(*) FROM {})".format, tables))
        ((count,),) = self._within(name, f"SELECT {rows}")
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        self._is_unused = f"SELECT ({sessions}) - 1 + abs({rows} - {count})"

    def take_back(self, name):
        """
        Empty the lent database *name*, and keep it for another test.
        """
        import psycopg  # noqa: PLC0415 - only where there is a server

        kept, statements = self._given_back, EMPTY
        try:
            ((version, encoding),) = self._within(
                name, "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')"
            )
            is_usual = version >= 150_000 and encoding == "UTF8"
            if is_usual:
                if self._shape is not None and self._within(name, SHAPE) == [(self._shape,)]:
                    kept, statements = self._made, (*EMPTY[:2], self._emptied)
                self._within(name, *statements)
        except psycopg.Error:
            is_usual = False
        if is_usual:
            kept.append(name)
        else:
            self._drop(name)

    def url(self, database):
        return f"postgresql:///{database}?host={self.folder}&user=tick"


class PostgresPair:
    """
    A primary and a standby that streams from it, behind one address.
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
        Return True if the standby has replayed all writes of the primary.
        """
        ((written,),) = self.primary.execute("SELECT pg_current_wal_lsn()")
        ((has,),) = self.standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'")
        return has

    def detach(self):
        """
        Disconnect the standby from the primary.
        """
        self.standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.execute("SELECT pg_reload_conf()")
        give_up = time.monotonic() + PATIENCE_S
        while self.standby.execute("SELECT pid FROM pg_stat_wal_receiver"):
            assert time.monotonic() < give_up
            time.sleep(0.02)  # no signal reports that the server has disconnected

    def fail_over(self):
        """
        Stop the primary, and promote the standby.
        """
        self.primary.stop(signal.SIGQUIT)
        assert self.standby.execute("SELECT pg_promote()") == [(True,)]


class Pgbouncer:
    """
    A pooler in transaction mode in front of a server.

    It is reached through a Unix socket in a folder.
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
        Start the pooler, and wait until it listens.
        """
        with (self.folder / "log").open("wb") as log:
            command = [find("pgbouncer"), self.folder / "pgbouncer.ini"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        wait_until_up(self._process, self.folder / "log", lambda: listens(self.folder / ".s.PGSQL.6432"))

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)

    def url(self, database):
        return f"postgresql:///{database}?host={self.folder}&port=6432&user=tick"


def listens(path):
    """
    Return True if a process listens on the Unix socket at *path*.

    The socket's file does not show this: it exists a moment earlier.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0
