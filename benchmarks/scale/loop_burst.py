"""
Many jobs of one async handler that all become due within one second.

They are compared with bare tasks of the same coroutine.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.durable.file import BATCH, PAYLOAD, batched
from benchmarks.model import Measure
from tickwheel.scheduler import AsyncScheduler, Firing, SetRequest

__all__ = ["COUNT", "LATE", "LOOP_BURST", "ROUNDS", "SHARE", "SUBJECTS", "measure"]

LOOP_BURST: Final = "async burst"
SHARE: Final = "async burst: bare create_task over job"
LATE: Final = "async burst: latest job of another handler"
COUNT: Final = 200_000
ROUNDS: Final = 3
_OTHERS: Final = 100
_OTHERS_EACH_S: Final = 0.02
_AHEAD_S: Final = 5.0
_PATIENCE_S: Final = 120.0


@contextmanager
def _file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        yield f"sqlite:///{folder}/jobs.db"


@contextmanager
def _memory() -> Iterator[str]:
    yield "memory://"


SUBJECTS: Final = {"tickwheel-memory": _memory, "tickwheel": _file}


def measure(subject: str, count: int) -> list[Measure]:
    """
    Run bare tasks and jobs in turns, and return the figures of all rounds.

    Each figure is the median of the rounds, except the lateness, which is the largest.
    """
    shares, costs, late, lasted = [], [], [], []
    for _ in range(ROUNDS):
        bare = asyncio.run(_bare(count))
        with SUBJECTS[subject]() as url:
            cost, latest, seconds = asyncio.run(_fired(url, count))
        shares.append(bare / cost)
        costs.append(cost)
        late.append(latest)
        lasted.append(seconds)
    return [
        Measure(SHARE, statistics.median(shares), "of ours", "cpu"),
        Measure("async burst: job", statistics.median(costs), "ns", "cpu"),
        Measure("async burst: lasted", statistics.median(lasted), "s", "wall"),
        Measure(LATE, max(late), "ms", "wall"),
    ]


async def _note(_payload: object) -> None:
    pass


async def _bare(count: int) -> float:
    """
    Return the processor time of a bare task, in ns.

    Each turn of the loop starts as many tasks as the scheduler sets jobs in one call.
    """
    gc.collect()
    begin = time.process_time_ns()
    for numbers in batched(range(count), BATCH):
        tasks = [asyncio.create_task(_note(PAYLOAD)) for _ in numbers]
        await tasks[-1]  # the loop runs tasks in order, so this is the last one to end
    return (time.process_time_ns() - begin) / count


async def _fired(url: str, count: int) -> tuple[float, float, float]:
    """
    Set jobs of the burst and of another handler, and run them all.

    Return the processor time of a job in ns, after all are set; the largest lateness of the other handler's jobs in ms;
    and the duration of the run in seconds.
    """
    late: list[float] = []

    async def other(_payload: object, firing: Firing) -> None:
        late.append(time.time() * 1000 - firing.job.due_at)

    async with AsyncScheduler(url) as scheduler:
        scheduler.handler("burst")(_note)
        scheduler.handler("other")(other)
        first = time.time() + _AHEAD_S + count / 20_000  # later than the end of all sets
        dues = [first + number / count for number in range(count)]
        for part in batched(list(enumerate(dues)), BATCH):
            requests = [SetRequest(f"burst/{number}", at=at, payload=PAYLOAD, handler="burst") for number, at in part]
            await scheduler.set_many(requests)
        others = [first + number * _OTHERS_EACH_S for number in range(_OTHERS)]
        await scheduler.set_many(
            [SetRequest(f"other/{number}", at=at, handler="other") for number, at in enumerate(others)]
        )
        if time.time() > first:
            message = "the sets took so long that the first jobs are due"
            raise RuntimeError(message)
        gc.collect()
        begin = time.process_time_ns()
        await asyncio.sleep(first + 1 - time.time())
        await _until_settled(scheduler, count + _OTHERS)
        lasted = time.time() - first
        return (time.process_time_ns() - begin) / count, max(late), lasted


async def _until_settled(scheduler: AsyncScheduler, count: int) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while (stats := scheduler.stats())["succeeded"] < count:
        if stats["failed"] or time.monotonic() > give_up:
            message = f"{stats['succeeded']} of {count} jobs succeeded, {stats['failed']} failed"
            raise RuntimeError(message)
        await asyncio.sleep(0.1)  # few queries, because each costs the store as much as some jobs
