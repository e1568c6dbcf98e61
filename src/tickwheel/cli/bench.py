from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tickwheel.cli.options import json_option
from tickwheel.cli.output import print_json, print_rows
from tickwheel.drivers import TimerWheel
from tickwheel.observe.events import Event, JobSucceeded
from tickwheel.scheduler import AsyncScheduler

__all__ = ["command"]

_PENDING = 100_000
_PAIRS = 200_000
_REAL = 20_000
_JOBS = 5_000
_AT_ONCE = 500


@click.command("bench")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The folder in which the durable part writes; its file is removed afterwards.  [default: the working folder]",
)
@json_option
def command(folder: Path, as_json: bool) -> None:
    """
    Measure timers and durable jobs on this machine, in about ten seconds.
    """
    rows = [set_and_cancel(), *real_time(), asyncio.run(durable(folder))]
    if as_json:
        for work, value, unit in rows:
            print_json({"work": work, "value": value, "unit": unit})
    else:
        print_rows(
            ("work", "value", "unit"), ((work, f"{value:,.3g}", unit) for work, value, unit in rows), right=["value"]
        )


def set_and_cancel() -> tuple[str, float, str]:
    with TimerWheel() as wheel:
        for n in range(_PENDING):
            wheel.call_later(3600 + n / 1000, _nothing)
        call_later = wheel.call_later
        begin = time.process_time_ns()
        for _ in range(_PAIRS):
            call_later(60.0, _nothing).cancel()
        spent = time.process_time_ns() - begin
        wheel.drain()
    return f"call_later and cancel, {_PENDING:,} pending", spent / _PAIRS, "ns CPU"


def real_time() -> list[tuple[str, float, str]]:
    late: list[float] = []
    ended = threading.Event()
    with TimerWheel() as wheel:

        def fire(deadline: float) -> None:
            late.append(wheel.time() - deadline)

        start = wheel.time() + 0.5
        for n in range(_REAL):
            deadline = start + n / _REAL
            wheel.call_at(deadline, fire, deadline)
        wheel.call_at(start + 1, ended.set)
        ended.wait()
    late.sort()
    what = f"{_REAL:,} timers in a second"
    return [
        (f"{what}: late, median", late[len(late) // 2] * 1e3, "ms"),
        (f"{what}: late, 99 of 100 within", late[len(late) * 99 // 100] * 1e3, "ms"),
        (f"{what}: early", sum(1 for each in late if each < 0), "timers"),
    ]


async def durable(folder: Path) -> tuple[str, float, str]:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    missing = _JOBS

    def count(event: Event) -> None:  # only called on the store's writer thread
        nonlocal missing
        if isinstance(event, JobSucceeded):
            missing -= 1
            if not missing:
                loop.call_soon_threadsafe(ended.set)

    with tempfile.TemporaryDirectory(dir=folder, prefix="tickwheel-bench-") as name:
        async with AsyncScheduler(f"sqlite:///{name}/jobs.db") as scheduler:
            scheduler.handler("nothing")(_nothing)
            scheduler.subscribe(count)
            numbers = iter(range(_JOBS))
            begin = time.perf_counter()
            await asyncio.gather(*(_set_all(scheduler, numbers) for _ in range(_AT_ONCE)))
            await ended.wait()
            spent = time.perf_counter() - begin
    return f"set, fire and settle, {_JOBS:,} durable jobs", _JOBS / spent, "jobs/s"


async def _set_all(scheduler: AsyncScheduler, numbers: Iterator[int]) -> None:
    for number in numbers:
        await scheduler.set(f"job {number}", delay=0, handler="nothing", payload={"number": number})


def _nothing(_payload: Any = None) -> None:
    pass
