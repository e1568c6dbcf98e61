"""
The suites explain their assertions, and a real PostgreSQL runs for those who ask for one.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tickwheel.testing.store_suite")

PATIENCE_S = 60.0


def find(program):
    """
    Return where *program* is: on the path, or where Debian keeps its newest version.
    """
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda path: int(path.parts[4]))
    return shutil.which(program) or (str(places[-1]) if places else None)


class Postgres:
    """
    A server in a folder of its own, reached through a Unix socket there.
    """

    def __init__(self, folder):
        self.folder = folder
        # The server refuses to run as root.
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        self._process = None
        command = [
            find("initdb"),
            "-D",
            folder / "data",
            "-U",
            "tick",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "-N",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._as)

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
        self._process.send_signal(how)
        self._process.wait(PATIENCE_S)

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


@pytest.fixture(scope="session")
def postgres():
    """
    Return a running server, which is stopped in the end.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    if not (find("initdb") and find("postgres")):
        pytest.skip("PostgreSQL is not installed: there is no initdb and no postgres")
    folder = Path(tempfile.mkdtemp(prefix="tickwheel-"))
    server = Postgres(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)
