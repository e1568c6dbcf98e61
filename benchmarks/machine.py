"""
A description of the machine on which the figures are measured.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

__all__ = ["describe", "file_system", "versions"]


def describe() -> dict[str, Any]:
    """
    Return the processor, cores, memory and system.

    Return also how busy the machine was at the start.
    """
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def file_system(folder: Path) -> str:
    """
    Return the type of the file system of *folder*.
    """
    mounts = (line.split()[1:3] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines())
    kinds = {Path(place): kind for place, kind in mounts}
    return next(kinds[place] for place in (folder, *folder.parents) if place in kinds)


def versions() -> dict[str, str]:
    """
    Return the versions of Python and of every installed distribution.
    """
    found = {dist.name.lower(): dist.version for dist in importlib.metadata.distributions()}
    return {"python": f"{platform.python_implementation()} {platform.python_version()}"} | dict(sorted(found.items()))
