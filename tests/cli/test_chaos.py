"""
`tickwheel chaos` for some seconds, on SQLite and on a separate PostgreSQL.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import find
from tests.prove.stalls import STALLED_S, Stalls

from tickwheel.jobs.errors import StoreInUseError
from tickwheel.lab.chaos.history import History
from tickwheel.scheduler import Scheduler

PATIENCE_S = 60.0
SYSTEMS = Path(__file__).parents[1] / "systems"
KINDS = ("lost", "doubled", "early", "unexpected", "silent")
SHORT = ["--seconds", "5s", "--every", "700ms", "--rate", "20", "--due-within", "2s", "--latency", "30ms"]
SHORT += ["--jitter", "10ms", "--json", "--history", "history.json"]


def judged(answer: subprocess.CompletedProcess[str], folder: Path) -> tuple[dict[str, object], History]:
    """
    Check that a chaos run found no fault, and return its figures and its history.
    """
    assert answer.returncode == 0, answer.stderr
    figures = json.loads(answer.stdout)
    assert [figures[kind] for kind in KINDS] == [0, 0, 0, 0, 0]
    assert figures["set acknowledged"] >= 100
    assert figures["arrived"] >= 50
    return figures, History.from_json((folder / "history.json").read_text())


@pytest.mark.needs("signal.SIGSTOP")
def test_sqlite(run, tmp_path: Path) -> None:
    """
    While a service on SQLite is killed, paused or cut off, no job is lost, runs twice or runs early.
    """
    figures, history = judged(run("chaos", *SHORT, "--seed", "3", "--fault", "kill,pause,cut-target"), tmp_path)
    assert {fault.kind for fault in history.faults} >= {"kill"}
    assert figures["seed"] == 3
    assert all(delivery.arrived_at >= delivery.due_at for delivery in history.deliveries)


def test_it_is_refused_without_sigstop(tmp_path: Path) -> None:
    """
    Without SIGSTOP, as on Windows, the command ends at once.

    The error gives the reason, and names the systems on which the command works.
    """
    environment = {**os.environ, "TICKWHEEL_AS": "windows"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SYSTEMS), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "tickwheel.cli", "chaos"]
    answer = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.strip() == (
        "tickwheel: chaos pauses and kills a service by POSIX signals, which this system lacks: "
        "run it on Linux or macOS"
    )


@pytest.mark.needs("signal.SIGSTOP")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_the_service_ends_with_the_command(start, until, tmp_path: Path, number: str) -> None:
    """
    However the command ends, its service ends, too, the findings are printed, and no temporary folder is left behind.
    """
    store = f"sqlite:///{tmp_path / 'jobs.db'}"
    history = tmp_path / "history.json"
    process = start("chaos", "--store", store, "--seconds", "1h", "--every", "1h", "--history", history.name)

    def count() -> int:
        try:
            with contextlib.closing(sqlite3.connect(f"file:{tmp_path / 'jobs.db'}?mode=ro", uri=True)) as connection:
                return connection.execute("SELECT count(*) FROM tickwheel_job").fetchone()[0]
        except sqlite3.OperationalError:  # the service has not created the table yet
            return 0

    def is_free() -> bool:
        with contextlib.closing(Scheduler(store)) as scheduler, contextlib.suppress(StoreInUseError):
            scheduler.start()
            return True
        return False

    until(lambda: count() > 40)
    process.send_signal(getattr(signal, number))
    process.communicate(timeout=PATIENCE_S)
    until(is_free)
    if number != "SIGKILL":
        assert process.returncode == 130
        assert History.from_json(history.read_text()).writes
        assert not list(tmp_path.glob("tickwheel-chaos-*"))


@pytest.fixture
def postgres() -> Iterator[str]:
    """
    Return the URL of a database on a new server, which listens on a free port of the loopback interface.
    """
    if find("initdb") is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    folder = Path(tempfile.mkdtemp(prefix="tickwheel-"))  # because pytest closes its own folders to other users
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # the server refuses to run as root
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = [find("initdb"), "-D", folder / "data", "-U", "tick", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder, **as_user)
    command = [
        find("postgres"),
        "-D",
        folder / "data",
        "-k",
        folder,
        "-p",
        str(port),
        "-c",
        "listen_addresses=127.0.0.1",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **as_user) as server,
    ):
        try:
            until = time.monotonic() + PATIENCE_S
            while subprocess.run(
                [find("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)], check=False
            ).returncode:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.05)  # no signal reports that the server is up
            yield f"postgresql://tick@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
    shutil.rmtree(folder)


@pytest.mark.needs("signal.SIGSTOP")
def test_postgresql(run, tmp_path: Path, postgres: str) -> None:
    """
    If a service's link to PostgreSQL is slow, and is sometimes cut or closed, no job is lost, runs twice or runs early.
    """
    arguments = ["chaos", *SHORT, "--seed", "5", "--store", postgres]
    arguments += ["--fault", "kill,pause,cut-store,close-store,errors"]
    with Stalls() as stalls:
        answer = run(*arguments)
    found = {kind for kind in KINDS if json.loads(answer.stdout)[kind]}
    if found == {"silent"} and stalls.longest_s > STALLED_S:  # on a machine that stalls, any service is silent
        answer = run(*arguments)
    _, history = judged(answer, tmp_path)
    assert len({fault.kind for fault in history.faults}) >= 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--fault", "rain"], "'rain' is not a fault: take some of kill, pause,"),
        (["--fault", "cut-store"], "--fault cut-store: SQLite is a file and has no link"),
        (["--history", "/no/such/x"], "'/no/such/x' cannot be written: name a file in a folder that is there"),
        (["--seconds", "0"], "--seconds is 0 s: pass a duration of up to a day"),
        (["--every", "-1s"], "--every is -1 s: pass a duration"),
        (["--latency", "10ms"], "--latency 0.01 s, --jitter 0.03 s: pass 0 <= jitter <= latency <= 10s"),
        (["--latency", "nan"], "pass 0 <= jitter <= latency <= 10s"),
        (
            ["--store", "postgresql:///name?host=/run/postgresql"],
            "=/run/postgresql' names no host to connect to by TCP: pass --store postgresql://HOST:PORT/NAME, or ",
        ),
        (["--store", "postgresql://host:1/name?lease_s=long"], "lease_s='long' in --store is no number: pass seconds"),
        (
            ["--store", "http://127.0.0.1:8765"],
            "--store 'http://127.0.0.1:8765' is a service: chaos starts one of its own: ",
        ),
        (["--store", "postgresql://host/name"], "names no port: chaos puts itself between, so name host and port"),
    ],
)
def test_bad_input(run, arguments: list[str], problem: str) -> None:
    """
    If an argument is invalid, the error has its value and a remedy, and nothing is started.
    """
    answer = run("chaos", *arguments)
    assert answer.returncode == 2
    assert problem in answer.stderr
