"""
Simulates another system for tickwheel, on Linux: `pytest --as macos`, `pytest --as windows`.

In tickwheel's modules, the standard modules lack the parts that the other system lacks, and `sys.platform` has the
other system's name. All other modules see Linux, because they could not run otherwise. Python imports this file in
every process that has its folder on PYTHONPATH. So the servers that tests start see the same system as the tests.

The simulation checks that tickwheel needs no part that the other system lacks. It cannot check how Windows treats open
files, how coarse its clocks are, or whether its sockets and locks behave as assumed here.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import importlib.util
import os
import select
import selectors
import signal
import socket
import stat
import struct
import sys
import time
from types import ModuleType
from typing import Any

VARIABLE = "TICKWHEEL_AS"

MACOS = {
    "os": "eventfd eventfd_read eventfd_write fdatasync pipe2 posix_fadvise posix_fallocate timerfd_create "
    "timerfd_settime sched_getaffinity sched_setaffinity memfd_create",
    "select": "epoll EPOLLIN EPOLLET",
    "selectors": "EpollSelector",
    "time": "CLOCK_BOOTTIME",
}
WINDOWS = {
    "os": f"{MACOS['os']} fork forkpty register_at_fork killpg getpgid setpgid getpgrp getsid setsid mkfifo mknod "
    "pread pwrite preadv pwritev readv writev statvfs fstatvfs ST_RDONLY fchmod fchown chown lchown getuid geteuid "
    "getgid getegid getgroups set_blocking get_blocking sysconf confstr uname getloadavg nice sync wait wait3 "
    "wait4 waitid O_CLOEXEC O_NONBLOCK O_NOFOLLOW O_SYNC O_DSYNC O_DIRECTORY O_NDELAY sched_yield openpty "
    "ttyname sendfile lockf",
    "select": f"{MACOS['select']} poll POLLIN POLLOUT",
    "selectors": f"{MACOS['selectors']} PollSelector",
    "signal": "SIGKILL SIGSTOP SIGCONT SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE setitimer alarm pause "
    "pthread_kill pthread_sigmask sigwait",
    "socket": "AF_UNIX SO_REUSEPORT recvmsg sendmsg",
    "time": f"{MACOS['time']} clock_gettime clock_gettime_ns CLOCK_MONOTONIC CLOCK_REALTIME",
}
LACKING = {"macos": MACOS, "windows": WINDOWS}
ABSENT = {"macos": set(), "windows": {"fcntl", "resource", "uvloop", "pwd", "grp", "termios", "pty", "tty"}}
"""Names of the modules that each simulated system lacks."""
PLATFORM = {"macos": "darwin", "windows": "win32"}


class Socketless(selectors.SelectSelector):
    """
    A selector that accepts only sockets, like select() on Windows.
    """

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """
        Refuse pipes and files.
        """
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            raise OSError(10038, "an operation was attempted on something that is not a socket")
        return super().register(fileobj, events, data)


def locking(fd: int, mode: int, count: int) -> None:
    """
    Lock bytes from the file's position on, as `msvcrt.locking` does.

    The lock belongs to this open file only.
    """
    import fcntl  # noqa: PLC0415 this file is read on Windows itself, too

    kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
    wanted = struct.pack("hhqqi4x", kind, os.SEEK_SET, os.lseek(fd, 0, os.SEEK_CUR), count, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


def msvcrt() -> ModuleType:
    """
    Return a replacement for `msvcrt`.

    As on Windows, a lock belongs to an open file and ends when the file is closed.
    """
    made = ModuleType("msvcrt")
    made.__dict__.update(locking=locking, LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2)
    return made


class Seen(ModuleType):
    """
    A module of the standard library in which some names are missing and others are changed.
    """

    def __init__(self, real: ModuleType, lacking: set[str], changed: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        vars(self).update(_real=real, _lacking=lacking, **changed)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacking:
            message = f"module {self.__name__!r} has no attribute {name!r} on this system"
            raise AttributeError(message)
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def seen_modules(system: str) -> dict[str, ModuleType]:
    """
    Return, by name, the standard modules as tickwheel sees them on *system*.
    """

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name in ABSENT[system] else importlib.util.find_spec(name, package)

    changed: dict[str, dict[str, Any]] = {
        "sys": {"platform": PLATFORM[system]},
        "importlib.util": {"find_spec": find_spec},
    }
    if system == "windows":
        changed["selectors"] = {"SelectSelector": Socketless, "DefaultSelector": Socketless}
    else:
        changed["selectors"] = {"DefaultSelector": selectors.PollSelector}
    modules = {module.__name__: module for module in (os, select, selectors, signal, socket, sys, time, importlib.util)}
    lacking = {name: set(names.split()) for name, names in LACKING[system].items()}
    seen = {name: Seen(real, lacking.get(name, set()), changed.get(name, {})) for name, real in modules.items()}
    return seen | ({"msvcrt": msvcrt()} if system == "windows" else {})


def pretend(system: str) -> None:
    """
    Let tickwheel see *system* from now on.

    Tickwheel must not be imported yet.
    """
    if already := [name for name in sys.modules if name.partition(".")[0] == "tickwheel"]:
        message = f"{already[0]} is imported already, so it cannot be shown {system}: run pytest -p no:tickwheel"
        raise RuntimeError(message)
    seen, really_import = seen_modules(system), builtins.__import__

    def import_seen(name: str, globals: Any = None, *others: Any, **named: Any) -> Any:
        if globals is not None and str(globals.get("__name__")).partition(".")[0] == "tickwheel":
            if name in ABSENT[system]:
                message = f"No module named {name!r} on this system"
                raise ModuleNotFoundError(message, name=name)
            if name in seen:
                return seen[name]
        return really_import(name, globals, *others, **named)

    builtins.__import__ = import_seen
    if system == "windows":  # on Windows, event loops have no signal handlers
        loop: Any = asyncio.SelectorEventLoop
        loop.add_signal_handler = asyncio.AbstractEventLoop.add_signal_handler


def has(name: str, system: str | None) -> bool:
    """
    Return True if this system has *name*, such as "os.fork".

    If a simulated *system* is given, it must have the name, too.
    """
    module, _, attribute = name.rpartition(".")
    if not module:
        return importlib.util.find_spec(name) is not None and (system is None or name not in ABSENT[system])
    lacking = LACKING[system].get(module, "").split() if system is not None else ()
    return attribute not in lacking and hasattr(importlib.import_module(module), attribute)


if system := os.environ.get(VARIABLE):
    pretend(system)
