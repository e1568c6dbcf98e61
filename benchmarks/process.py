"""
The kernel's figures about the resources of a process.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_s", "most_resident", "parent_of", "resident", "server_cpu_s"]


def resident() -> int:
    """
    Return the resident memory of this process in bytes.
    """
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def most_resident() -> int:
    """
    Return the largest resident memory of this process in bytes.

    The value of rusage cannot be used, because it includes the parent's memory.
    """
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def cpu_s(pid: int) -> float:
    """
    Return the processor time of a process with all its threads, in seconds.
    """
    return _ticks(pid, 11, 13)


def server_cpu_s(pid: int) -> float:
    """
    Return the processor time of a process and its children in seconds.

    This includes children that have ended.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return _ticks(pid, 11, 15) + sum(cpu_s(int(child)) for child in children)


def parent_of(pid: int) -> int:
    """
    Return the id of the process that started *pid*.
    """
    return int(_stat(pid)[1])


def _ticks(pid: int, first: int, end: int) -> float:
    """
    Return the sum of the fields from *first* up to but not including *end* of the process's statistics, in seconds.

    These fields are the user and system time of the process, and then those of its children that have ended.
    """
    return sum(map(int, _stat(pid)[first:end])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """
    Return the fields of `/proc/PID/stat` after the process name, which may contain any character.
    """
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
