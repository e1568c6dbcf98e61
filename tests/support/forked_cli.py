"""
`tickwheel` in forked processes.

They are forked from a process that has already imported tickwheel, which saves nine tenths of the CPU of each start.
Outside Linux, or if a test simulates another system, `start` returns a real `Popen`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress

IMPORTED = (
    "tickwheel.cli.app",
    "tickwheel.cli.serve",
    "tickwheel.service.server",
    "tickwheel.stores.sqlite",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""Modules that every service needs. They are imported before the fork."""
MESSAGE_MAX = 200_000
NUMBER = struct.Struct("i")
CAN_FORK = sys.platform == "linux" and "TICKWHEEL_AS" not in os.environ


class Forked:
    """
    A forked process with the interface of `subprocess.Popen`.

    Attributes:
        pid: The process id.
        stdout, stderr: The output, as text.
        returncode: The exit code, or the negative number of the signal that ended the process; None until the exit code
            is known.
    """

    def __init__(self, arguments, cwd, env):
        output, errors = os.pipe(), os.pipe()
        self._status, status = os.pipe()
        message = json.dumps([list(map(str, arguments)), str(cwd), env]).encode()
        socket.send_fds(Parent.get().socket, [message], [output[1], errors[1], status])
        for given in (output[1], errors[1], status):
            os.close(given)
        self.stdout, self.stderr = (os.fdopen(ends[0], encoding="utf-8") for ends in (output, errors))
        self.returncode = None
        (self.pid,) = NUMBER.unpack(os.read(self._status, NUMBER.size))

    def poll(self):
        """
        Return the exit code, or None if the process still runs.
        """
        return self._look(0)

    def wait(self, timeout=None):
        """
        Wait for the end of the process. Return its exit code.
        """
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired("tickwheel", timeout)
        return self.returncode

    def send_signal(self, number):
        """
        Send a signal if the process still runs.
        """
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout):
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            (self.returncode,) = NUMBER.unpack(os.read(self._status, NUMBER.size))
            os.close(self._status)
        return self.returncode


class Parent:
    """
    The process from which all `Forked` processes are forked.

    It starts when it is first needed, and ends when the process of the tests ends.
    """

    _one = None

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-u", "-P", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    @classmethod
    def get(cls):
        """
        Return the one parent process that these tests use. Start it if it does not run yet.
        """
        if cls._one is None:
            cls._one = cls()
        return cls._one

    def close(self):
        self.socket.close()
        self._process.wait()


def start(arguments, *, cwd, env):
    """
    Run `tickwheel` with *arguments* in the folder *cwd* and the environment *env*.

    The output of the process can be read from pipes.
    """
    if CAN_FORK:
        return Forked(arguments, cwd, dict(env))
    command = [sys.executable, "-m", "tickwheel.cli", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def serve_forks(requests):
    """
    Fork for each request, and send the process id of the child and later its exit code.

    In a child process, return the request.
    """
    statuses = {}
    signals, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the tests, which then close the socket
    while True:
        ready = select.select([requests, signals], [], [])[0]
        if signals in ready:
            os.read(signals, 1000)
            report_ends(statuses)
        if requests not in ready:
            continue
        message, given, *_ = socket.recv_fds(requests, MESSAGE_MAX, 3)
        if not message:
            sys.exit()
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for each in (signals, wakes, *statuses.values()):
                os.close(each)
            return json.loads(message), given
        *outputs, statuses[pid] = given
        for each in outputs:
            os.close(each)
        os.write(statuses[pid], NUMBER.pack(pid))


def report_ends(statuses):
    """
    For each forked process that has ended, write its exit code to its pipe in *statuses*, and remove the pipe.
    """
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with suppress(BrokenPipeError):
            os.write(statuses[pid], NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(statuses.pop(pid))


def main():
    """
    Import the modules in `IMPORTED`, and fork for each request. In each child process, run `tickwheel`.
    """
    for name in IMPORTED:
        importlib.import_module(name)
    from tickwheel.cli import main as run  # noqa: PLC0415  the tests import this file, too

    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        (arguments, cwd, environment), (output, errors, status) = serve_forks(requests)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    for each in (output, errors, status):
        os.close(each)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.path[:0] = ["", *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]  # as `python -m` does
    sys.argv[:] = ["tickwheel", *arguments]
    run()


if __name__ == "__main__":
    main()
