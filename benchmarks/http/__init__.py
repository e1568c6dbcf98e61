"""
The rate of jobs that are set over HTTP, one by one and in bulk.

It is compared with a bare ASGI application that accepts the same bodies.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.durable import file
from benchmarks.model import Bar, Case, Measure
from benchmarks.process import cpu_s

__all__ = ["BARS", "CONDITIONS", "cases", "measure", "serving"]

BULK = 500
"""Number of jobs in a batch."""

SINGLE = "single sets"
MANY = "single sets, 256 connections"
BULK_SETS = "bulk sets"
CONNECTIONS = {SINGLE: 64, MANY: 256, BULK_SETS: 4}

CONDITIONS = {
    "all": (
        "the service on SQLite (WAL, synchronous=FULL) in the working folder, in a process of its own, as `tickwheel "
        "serve` runs it; the client is one process on the same machine. asgi is uvicorn on uvloop with an application "
        "that reads and decodes the same body, and answers"
    ),
    SINGLE: (
        "PUT of jobs due in an hour with payloads of 100 bytes, random keys, from 64 connections, each waiting for its "
        "durable answer; then at half the rate that was reached, how long answers take from the instant at which each "
        "was to be sent"
    ),
    MANY: "the same from 256 connections, without the wait at half the rate; each: processor time of the server",
    BULK_SETS: f"the same by POST of batches of {BULK}, from 4 connections; jobs per second",
}
BARS = (
    Bar(SINGLE, clock="wall", at_least=12_000),
    Bar(SINGLE, clock="wall", against="asgi", inverse=True),
    Bar(f"{SINGLE}, each", against="asgi", at_least=0.38),
    Bar(f"{MANY}, each", against="asgi", at_least=0.5),
    Bar("wait at half the load p99", clock="wall", at_most=10),
    Bar(BULK_SETS, clock="wall", at_least=80_000),
    Bar(BULK_SETS, clock="wall", against="asgi", inverse=True),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases.
    """
    reps = 1 if quick else 5
    pending = 10_000 if quick else 100_000
    single = 10_000 if quick else 40_000
    counts = ((SINGLE, single), (MANY, single), (BULK_SETS, 60 if quick else 300))
    return [
        Case(__name__, work, subject, pending, {"count": count}, reps)
        for work, count in counts
        for subject in ("asgi", "tickwheel")
    ]


def measure(work: str, subject: str, pending: int, *, count: int) -> list[Measure]:
    """
    Run one case.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        path = Path(folder, "jobs.db")
        if subject == "tickwheel":
            file.fill(path, pending)
        with serving(subject, path) as (port, pid):
            size = BULK if work == BULK_SETS else 1
            before = cpu_s(pid)
            rate = count / _ask(port, work, count, 0)["seconds"]
            cpu_us = (cpu_s(pid) - before) * 1e6 / (count * size)
            found = [Measure(work, rate * size, "per second", "wall"), Measure(f"{work}, each", cpu_us, "us", "cpu")]
            if work == SINGLE:
                waits = _ask(port, work, count // 2, rate / 2)["waits_ms"]
                found += [
                    Measure(f"wait at half the load {name}", wait, "ms", "wall")
                    for name, wait in zip(("p50", "p99", "max"), waits, strict=True)
                ]
    return found


@contextmanager
def serving(subject: str, path: Path) -> Iterator[tuple[int, int]]:
    """
    Start a server on the file at *path*. Yield its port and its process id.

    The server is stopped at the end.
    """
    command = [sys.executable, "-m", "benchmarks.http.servers", subject, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.wait(30)


def _ask(port: int, work: str, count: int, rate: float) -> dict[str, Any]:
    kind = "bulk" if work == BULK_SETS else "single"
    load = (str(port), kind, str(CONNECTIONS[work]), str(count), str(rate))
    command = [sys.executable, "-m", "benchmarks.http.client", *load]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found
