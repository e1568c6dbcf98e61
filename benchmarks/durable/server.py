"""
A PostgreSQL server with fsync on, in a temporary folder.

It runs for the duration of a case.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["SETTINGS", "postgres"]

SETTINGS = ("shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=15min", "wal_compression=lz4")
"""Settings that an operator would change first on any server. All others, including those for safety, are defaults."""

_PATIENCE_S = 60.0
_PLACES = Path(__file__).parents[2] / "scripts" / "servers"


@contextmanager
def postgres(*settings: str) -> Iterator[str]:
    """
    Start a server on a Unix socket, with these additional *settings*.

    Yield the URL of an empty database. At the end, stop the server.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # the server refuses to run as root
    who: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    initdb = (_find("initdb"), "-D", data, "-U", "tick", "-A", "trust", "-E", "UTF8", "--no-locale")
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)
    knobs = [part for setting in (*SETTINGS, *settings) for part in ("-c", setting)]
    command = [_find("postgres"), "-D", str(data), "-k", str(folder), "-c", "listen_addresses=", *knobs]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **who)
    url = f"postgresql:///postgres?host={folder}&user=tick"
    try:
        _wait_for(url, process, folder / "log")
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE_S)
        shutil.rmtree(folder)


def _wait_for(url: str, process: subprocess.Popen[str] | subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(log.read_text()) from None
            time.sleep(0.05)  # no signal reports that the server is up
        else:
            return


def _find(program: str) -> str:
    answer = subprocess.run([_PLACES, "--find", program], capture_output=True, text=True, check=False)
    if answer.returncode:
        message = f"{program} is not installed: make servers"
        raise RuntimeError(message)
    return answer.stdout.strip()
