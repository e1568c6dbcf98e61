"""
Jobs that wait for their due time.

Measures how late they fire, the first firing after a restart, the memory for each job, and the time of a scan for due
jobs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Final

from benchmarks.durable.file import wait_for
from benchmarks.model import Measure
from benchmarks.process import most_resident
from tickwheel.scheduler import Firing, Scheduler, SetRequest
from tickwheel.stores import open_store

__all__ = ["first_firing", "lateness", "restart"]

_AHEAD_S: Final = 3.0
_LOOK_UPS: Final = 200
_PATIENCE_S: Final = 120


def lateness(url: str, keys: list[str]) -> list[Measure]:
    """
    Fire a job in each millisecond, and measure how late the handler is called.
    """
    late: list[float] = []

    def note(_payload: object, firing: Firing) -> None:
        late.append(time.time() * 1000 - firing.job.due_at)

    with Scheduler(url) as scheduler:
        scheduler.handler("note")(note)
        first = time.time() + _AHEAD_S
        scheduler.set_many([SetRequest(key, at=first + place / 1000, handler="note") for place, key in enumerate(keys)])
        time.sleep(max(0.0, first + len(keys) / 1000 - time.time()))  # polling the counts would disturb the measurement
        wait_for(scheduler, len(keys))
    late.sort()
    return [
        Measure("lateness p50", late[len(late) // 2], "ms", "wall"),
        Measure("lateness p99", late[len(late) * 99 // 100], "ms", "wall"),
        Measure("lateness max", late[-1], "ms", "wall"),
        Measure("early", sum(value < 0 for value in late), "jobs"),
    ]


def restart(url: str, pending: int) -> list[Measure]:
    """
    Set a job while no process runs, and measure the time until a new process fires it.
    """
    store = Scheduler(url)
    store.set("overdue", delay=0, handler="first")
    store.stop()
    look_up = _look_up(url)
    command = [sys.executable, "-c", f"from benchmarks.durable.waiting import first_firing; first_firing({url!r})"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S)
    seconds, before, after = map(float, answer.stdout.split())
    found = [Measure("restart", seconds, "s", "wall"), Measure("due look-up", look_up, "ms", "wall")]
    found.append(Measure("memory then", after / 2**20, "MiB"))
    if pending:
        found.append(Measure("memory per pending job", (after - before) / pending, "bytes"))
    return found


def first_firing(url: str) -> None:
    """
    Run as the new process.

    Print the time until the first firing, the memory in bytes at the start, and the memory at that firing.
    """
    import threading  # noqa: PLC0415 - part of the child alone

    before = most_resident()
    fired = threading.Event()
    scheduler = Scheduler(url)
    scheduler.handler("first")(lambda _payload: fired.set())
    begin = time.perf_counter()
    scheduler.start()
    fired.wait(_PATIENCE_S)
    seconds = time.perf_counter() - begin
    after = most_resident()
    scheduler.stop()
    print(seconds, before, after)


def _look_up(url: str) -> float:
    """
    Return the median time in ms of a scan for jobs that are due within the horizon but not overdue.
    """
    store = open_store(url)
    until = store.now_ms() + 10_000
    times = []
    for _ in range(_LOOK_UPS):
        begin = time.perf_counter()
        store.due(0, until, (until - 1, 0), 1_000)
        times.append((time.perf_counter() - begin) * 1000)
    store.close()
    return statistics.median(times)
