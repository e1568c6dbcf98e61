"""
The same workload with other schedulers.

Jobs that are due now are set, run and removed, with the bulk calls of each scheduler.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.durable.server import postgres

__all__ = ["PEERS", "count_one", "is_here"]

_PATIENCE_S: Final = 300


def is_here(peer: str) -> bool:
    """
    Return True if the library of *peer*, and everything that it needs, is installed.
    """
    needs = {"apscheduler": ("apscheduler", "sqlalchemy")}.get(peer, (peer,))
    return all(find_spec(module) for module in needs)


class _Counter:
    """
    Counts the runs of jobs, so that a caller can wait for the last one.
    """

    def __init__(self) -> None:
        self.left = 0
        self.done = threading.Event()
        self._lock = threading.Lock()

    def expect(self, count: int) -> None:
        """
        Expect *count* runs.
        """
        self.left = count
        self.done.clear()

    def run(self) -> None:
        with self._lock:
            self.left -= 1
            if not self.left:
                self.done.set()

    def wait(self) -> None:
        """
        Wait until all expected runs have ended.

        Raises:
            RuntimeError: If they do not end in time.
        """
        if not self.done.wait(_PATIENCE_S):
            message = f"{self.left} jobs never ran"
            raise RuntimeError(message)


_RUNS: Final = _Counter()


def count_one(*_arguments: Any) -> None:
    """
    Count a run; each job calls this function.
    """
    _RUNS.run()


def _apscheduler(keys: list[str]) -> float:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-untyped]  # noqa: PLC0415 - one peer a process
    from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]  # noqa: PLC0415 - one peer a process

    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        scheduler = BackgroundScheduler(
            jobstores={"default": SQLAlchemyJobStore(url=f"sqlite:///{folder}/jobs.db")},
            job_defaults={"misfire_grace_time": None},
            timezone=UTC,
        )
        scheduler.start()
        _RUNS.expect(len(keys))
        begin = time.perf_counter()
        now = datetime.now(UTC)
        for key in keys:
            scheduler.add_job(count_one, "date", run_date=now, args=(key,), id=key)
        _RUNS.wait()
        seconds = time.perf_counter() - begin
        scheduler.shutdown()
    return seconds


def _huey(keys: list[str]) -> float:
    from huey import SqliteHuey  # type: ignore[import-untyped]  # noqa: PLC0415 - one peer a process

    logging.getLogger("huey").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        huey = SqliteHuey(filename=f"{folder}/jobs.db", fsync=True, results=False)
        task = huey.task()(count_one)
        consumer = huey.create_consumer(workers=4, periodic=False, initial_delay=0.01, max_delay=0.01)
        consumer.start()
        _RUNS.expect(len(keys))
        begin = time.perf_counter()
        for key in keys:
            task.schedule(args=(key,), delay=0)
        _RUNS.wait()
        seconds = time.perf_counter() - begin
        consumer.stop(graceful=True)
    return seconds


def _procrastinate(keys: list[str]) -> float:
    import procrastinate  # noqa: PLC0415 - one peer a process

    async def main(url: str) -> float:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

        @app.task(name="count_one")
        async def task(key: str) -> None:
            count_one(key)

        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            _RUNS.expect(len(keys))
            begin = time.perf_counter()
            for start in range(0, len(keys), 1_000):
                part: list[dict[str, Any]] = [{"key": key} for key in keys[start : start + 1_000]]
                await task.batch_defer_async(*part)
            await app.run_worker_async(
                wait=False, concurrency=20, listen_notify=False, install_signal_handlers=False, delete_jobs="successful"
            )
            seconds = time.perf_counter() - begin
        _RUNS.wait()
        return seconds

    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    with postgres() as url:
        return asyncio.run(main(url))


PEERS: Final[dict[str, Callable[[list[str]], float]]] = {
    "apscheduler": _apscheduler,
    "huey": _huey,
    "procrastinate": _procrastinate,
}
"""Maps the name of each scheduler to a function that runs jobs with the given keys and returns the seconds."""
