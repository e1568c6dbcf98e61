"""
An owner that has all pending jobs staged in memory: the memory that they take, and the time and cost to stage them.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from typing import Final

from benchmarks.durable.far import LOT
from benchmarks.durable.file import PAYLOAD, batched, do_nothing
from benchmarks.model import Measure
from benchmarks.process import resident
from tickwheel.scheduler import Scheduler, SchedulerOptions, SetRequest

__all__ = ["HANDLERS", "MEMORY", "STAGED", "measure", "own"]

STAGED: Final = "staged"
MEMORY: Final = "memory of a staged job"
HANDLERS: Final = 16
"""Number of handlers. There are several, because one handler's jobs cannot take all the room in memory."""
_AHEAD_S: Final = 1_800
_HORIZON_S: Final = 3_600
_PATIENCE_S: Final = 600.0


def measure(url: str, count: int) -> list[Measure]:
    """
    Set *count* jobs that are due half an hour to an hour from now, and let a new process stage all of them.
    """
    client = Scheduler(url)  # the client is not started, so it fires nothing
    first = time.time() + _AHEAD_S
    for numbers in batched(range(count), LOT):
        client.set_many(
            [
                SetRequest(
                    f"{number}",
                    at=first + _AHEAD_S * number / count,
                    payload=PAYLOAD,
                    handler=f"nothing-{number % HANDLERS}",
                )
                for number in numbers
            ]
        )
    client.stop()
    code = f"from benchmarks.scale.staged import own; own({url!r}, {count})"
    answer = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    size, seconds, cpu_s = json.loads(answer.stdout)
    return [
        Measure(MEMORY, size / count, "bytes"),
        Measure("staging all", seconds, "s", "wall"),
        Measure("staging of a job", 1e9 * cpu_s / count, "ns", "cpu"),
    ]


def own(url: str, count: int) -> None:
    """
    Run as the owner, until all *count* jobs are staged.

    Print the growth of memory in bytes, the duration in seconds, and the processor time in seconds.

    Raises:
        RuntimeError: If not all jobs are staged in time.
    """
    scheduler = Scheduler(url, options=SchedulerOptions(horizon_s=_HORIZON_S, staged_max=2 * count))
    for number in range(HANDLERS):
        scheduler.handler(f"nothing-{number}")(do_nothing)
    gc.collect()
    before, begin, cpu = resident(), time.monotonic(), time.process_time()
    scheduler.start()
    while scheduler.stats()["staged"] < count:
        if time.monotonic() - begin > _PATIENCE_S:
            message = f"only {scheduler.stats()['staged']} of {count} jobs are staged"
            raise RuntimeError(message)
        time.sleep(0.2)  # few queries, because each costs as much as staging some jobs
    seconds, cpu = time.monotonic() - begin, time.process_time() - cpu
    gc.collect()
    size = resident() - before
    print(json.dumps([size, seconds, cpu]))
    scheduler.stop(0)
