"""
Servers of any kind that tests start.

Each has its own folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

PATIENCE_S = 60.0
MEMORY, ROOM = "/dev/shm", 6 * 10**9  # noqa: S108  Linux has it, and each folder in it is made by tempfile
PLACES = Path(__file__).parents[2] / "scripts" / "servers"


def find(program):
    """
    Return the path of *program*.

    The program is on the PATH, or where Debian or Homebrew installs it.
    """
    answer = subprocess.run([PLACES, "--find", program], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def free_port():
    """
    Return a port of the loopback interface on which no process listens.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_until_up(process, log, is_up, patience_s=PATIENCE_S):
    """
    Wait until `is_up()` is true.

    If *process* ends earlier or takes too long, fail and show its *log*.
    """
    give_up = time.monotonic() + patience_s
    while not is_up():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.02)  # no signal reports that a server is up


def in_memory():
    """
    Return a folder in memory with room for the files of servers. Syncs cost nothing there.

    Return None if there is no such folder.
    """
    folder = Path(MEMORY)
    if not os.access(folder, os.W_OK) or shutil.disk_usage(folder).free < ROOM:
        return None
    return folder


def lent(make):
    """
    Yield a function that makes servers by *make* and starts them, each in its own folder.

    All servers are stopped at the end, even if one of them fails to start or to stop.
    """
    with ExitStack() as stack:

        def start(*settings, **options):
            folder = Path(tempfile.mkdtemp(prefix="tickwheel-", dir=in_memory()))
            stack.callback(shutil.rmtree, folder)
            server = make(folder, *settings, **options)
            stack.callback(server.stop)
            server.start()
            return server

        yield start


def end(process):
    """
    Terminate *process* and wait for its end.

    If it does not end, kill it.
    """
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def given_to_nobody(folder):
    """
    Return the options that start a program without root's rights, if this process is root.

    Also give *folder* to the user of the program.

    Some programs refuse to run as root.
    """
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
