"""
Handlers that run in worker processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from tickwheel.scheduler import DeadLetter, Retry, Snooze


def note(payload):
    """
    Write the process's id to the file *payload*.
    """
    with Path(payload).open("a") as file:
        file.write(f"{os.getpid()}\n")


def answer(payload, firing):
    """
    At the first attempt, return the result that *payload* names.

    Later attempts return an object that cannot be sent to another process.
    """
    if firing.attempt > 1 or payload == "nothing":
        return object()  # an object that cannot be sent to another process, and need not be
    return {"cancel": DeadLetter("enough"), "retry": Retry(0), "snooze": Snooze(0.01)}[payload]


def snooze_once(payload):
    """
    Snooze until a file exists.
    """
    path = Path(payload)
    if path.exists():
        return None
    path.touch()
    return Snooze(0)


class MuteError(Exception):
    """
    An error whose text cannot be read, because `str()` of it raises.
    """

    def __str__(self):
        raise RuntimeError


def fail_mutely(_payload):
    """
    Raise an error that cannot be shown.
    """
    raise MuteError


def answer_oddly(_payload):
    """
    Return a result that cannot be sent to another process.
    """
    return DeadLetter(threading.Lock())


def start_another(payload):
    """
    Start a program and write the program's process id to the file.

    Then crash if the payload says so, or else wait forever.
    """
    path, _, how = payload.partition(" ")
    program = subprocess.Popen(["sleep", "600"])
    with Path(path).open("a") as file:
        file.write(f"{program.pid}\n")
    if how == "crash":
        os._exit(3)
    threading.Event().wait()


def fail(payload):
    message = f"no {payload}"
    raise ValueError(message)


def end(payload):
    """
    End the process in the way that *payload* says.
    """
    if payload == "segfault":
        ctypes.string_at(0)
    elif payload == "exit":
        os._exit(3)
    elif payload == "sys.exit":
        raise SystemExit(4)
    elif payload == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif payload == "real-time":
        os.kill(os.getpid(), 40)
    elif payload == "fork":
        if os.fork() == 0:
            threading.Event().wait()
        os.kill(os.getpid(), signal.SIGSEGV)


def take(payload):
    pass


def hang(payload):
    """
    Write the process id to the file, and wait forever.
    """
    note(payload)
    threading.Event().wait()


def tell(_payload, firing):
    """
    Report progress twice, and run until the process is killed.
    """
    firing.progress(0.25, "page 1")
    firing.progress(0.5, "page 2")
    time.sleep(600)


def beat(payload, firing):
    """
    Take longer than the timeout, with heartbeats.
    """
    for _ in range(payload):
        time.sleep(0.2)
        assert firing.heartbeat()
