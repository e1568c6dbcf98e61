"""
Measures how late the jobs of ten healthy lanes fire while another lane has very many due jobs.

It is measured after a start of the owner, and after `kill -9` of the owner.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.durable.file import batched
from benchmarks.model import Measure
from benchmarks.process import cpu_s, most_resident
from benchmarks.scale.owners import SUBJECTS as SERVERS
from tickwheel.scheduler import Firing, Scheduler, SchedulerOptions, SetRequest

__all__ = ["BURST", "COUNT", "KINDS", "LANES", "SUBJECTS", "measure", "own"]

BURST: Final = "burst"
COUNT: Final = 1_000_000
LANES: Final = 10
KINDS: Final = ("none", "paused", "hung", "limited", "async", "short")
"""States of the many due jobs; two owners run with each. With `none`, the control, these jobs are not yet set."""
_SCOPE: Final = "handler:burst"
_LOT: Final = 5_000
_EACH_S: Final = 0.05
_AHEAD_S: Final = 0.2
_LAST_S: Final = 3.0
"""Seconds to wait for the last jobs of an owner. If a job fires later, it counts as late under the next owner."""
_PATIENCE_S: Final = 90.0


@contextmanager
def _file() -> Iterator[tuple[str, list[int]]]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        yield f"sqlite:///{folder}/jobs.db", []


SUBJECTS: Final = {"tickwheel": _file} | {name: SERVERS[name] for name in SERVERS if name != "tickwheel-redis-cluster"}


def measure(subject: str, count: int, seconds: float) -> list[Measure]:
    """
    For each of `KINDS`, run two owners, one after the other, each for *seconds*, with *count* due jobs of one handler.

    Meanwhile jobs of the healthy lanes become due one by one. The first owner is killed, and the second one takes over.
    """
    found: list[Measure] = []
    with SUBJECTS[subject]() as (url, _):
        client = Scheduler(url)  # the client is not started, so it fires nothing
        for kind in KINDS:
            if kind == "paused":
                client.pause_scope(_SCOPE)
                for numbers in batched(range(count), _LOT):
                    client.set_many([SetRequest(f"burst/{n}", delay=0, handler="burst") for n in numbers])
            elif kind == "hung":
                client.resume_scope(_SCOPE)
            found += _beside(url, client, kind, seconds)
        client.stop()
    return found


def own(url: str, kind: str, report: str) -> None:
    """
    Run as an owner until standard input is closed.

    Write to the file *report* the time when the owner had all shards, and a line for each firing.
    """
    name = f"owner-{os.getpid()}"
    scheduler = Scheduler(url, options=SchedulerOptions(owner=name))
    with open(report, "w", buffering=1, encoding="ascii") as lines:  # noqa: PTH123  written by a few threads, by lines

        def note(_payload: object, firing: Firing) -> None:
            lines.write(f"{firing.job.key} {firing.job.due_at} {time.time() * 1000:.0f}\n")

        for lane in range(LANES):
            scheduler.handler(f"healthy-{lane}")(note)
        _register(scheduler, kind)
        scheduler.start()
        while not all((each.owner or "").startswith(name) for each in scheduler.shards()):
            time.sleep(0.02)  # no event reports that all shards are owned
        lines.write(f"owned {time.time() * 1000:.0f}\n")
        sys.stdin.read()
        lines.write(f"resident {most_resident()}\n")
        scheduler.stop(0.1)


def _register(scheduler: Scheduler, kind: str) -> None:
    async def sleep(_payload: object) -> None:
        await asyncio.sleep(2.0)

    options: dict[str, Any] = {"rate": 5} if kind == "limited" else {}
    functions = {"hung": lambda _: threading.Event().wait(), "async": sleep, "short": lambda _: time.sleep(0.02)}
    scheduler.handler("burst", **options)(functions.get(kind, lambda _: None))


def _beside(url: str, client: Scheduler, kind: str, seconds: float) -> list[Measure]:
    """
    Run the two owners, and measure how late the jobs of the healthy lanes fire.

    The lateness of a job counts from its due time, or from the time when the owner had all shards if that was later.
    """
    found: list[Measure] = []
    missing: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for phase in ("start", "takeover"):
            report = Path(folder) / phase
            with _owner(url, kind, report) as process:
                missing |= _set_jobs(client, f"{kind}/{phase}", report, seconds)
                cpu = cpu_s(process.pid)
                if phase == "start":
                    process.kill()
            resident, late = _read(report, missing)
            found.append(Measure(f"late after {phase}, {kind}", max(late), "ms", "wall"))
            found.append(Measure(f"owner's work after {phase}, {kind}", cpu, "s", "cpu"))
            if resident:
                found.append(Measure(f"memory, {kind}", resident / 2**20, "MiB"))
    found.append(Measure(f"missing, {kind}", len(missing), "jobs"))
    return found


@contextmanager
def _owner(url: str, kind: str, report: Path) -> Iterator[subprocess.Popen[bytes]]:
    report.touch()
    code = f"from benchmarks.scale.burst import own; own({url!r}, {kind!r}, {str(report)!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        yield process
        process.communicate(timeout=_PATIENCE_S)
    finally:
        process.kill()
        process.wait(_PATIENCE_S)


def _set_jobs(client: Scheduler, prefix: str, report: Path, seconds: float) -> set[str]:
    """
    Set jobs of all healthy lanes in turn, until *seconds* have passed since the owner got all shards.

    Return the keys of the jobs.
    """
    keys: list[str] = []
    give_up = until = time.monotonic() + _PATIENCE_S + seconds
    is_owned = False
    while (now := time.monotonic()) < until:
        if not is_owned and report.read_text("ascii").count("owned "):
            is_owned, until = True, now + seconds
        keys.append(f"{prefix}/{len(keys)}")
        client.set(keys[-1], delay=_AHEAD_S, handler=f"healthy-{len(keys) % LANES}")
        time.sleep(_EACH_S)
    if until == give_up:
        message = f"no owner has all shards after {_PATIENCE_S:g} s"
        raise RuntimeError(message)
    time.sleep(_LAST_S)
    return set(keys)


def _read(report: Path, missing: set[str]) -> tuple[float, list[float]]:
    """
    Read the report of an owner, and remove from *missing* the keys of jobs that fired.

    Return the owner's memory in bytes, or 0 if the report does not have it, and how late each job was, in ms.
    """
    resident, owned, fired = 0.0, 0.0, []
    for line in report.read_text("ascii").splitlines():
        match line.split():
            case ["owned", at]:
                owned = float(at)
            case ["resident", size]:
                resident = float(size)
            case [key, due_at, at]:
                missing.discard(key)
                fired.append((float(due_at), float(at)))
    return resident, [at - max(due_at, owned) for due_at, at in fired]
