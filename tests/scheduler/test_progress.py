"""
Every kind of handler can report the progress of its running job, and other processes can read this progress.
"""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from tickwheel.scheduler import AsyncScheduler, InvalidJobError, JobStoppedError, Progress, SchedulerOptions


def test_thread(make, url, until):
    """
    A thread's progress is shown by key and in the list of running jobs, until the next report or the end of the run.
    """
    turns = threading.Semaphore(0)
    scheduler = make(url).start()

    @scheduler.handler("h")
    def handler(_payload, firing):
        for fraction, note in ((0.4, "page 12"), (1, "")):
            assert turns.acquire(timeout=60)
            assert firing.progress(fraction, note)
        assert turns.acquire(timeout=60)

    scheduler.set("k", delay=0, handler="h")
    until(lambda: scheduler.stats()["in_flight"] == 1)
    assert scheduler.progress("k") is None
    turns.release()
    until(lambda: scheduler.progress("k") == Progress(0.4, "page 12"))
    assert [record.progress for record in scheduler.recent()] == [Progress(0.4, "page 12")]
    turns.release()
    until(lambda: scheduler.progress("k") == Progress(1.0, ""))
    assert scheduler.progress("another") is None
    turns.release()
    until(lambda: scheduler.get("k") is None)
    until(lambda: scheduler.progress("k") is None)
    assert [(record.outcome, record.progress) for record in scheduler.recent()] == [("succeeded", None)]


def test_async(url):
    """
    An async handler reports progress on its own loop.

    It is notified of a stop on the same loop.
    """

    async def main():
        seen = []
        async with AsyncScheduler(url) as scheduler:
            noted, go_on = asyncio.Event(), asyncio.Event()

            @scheduler.handler("h")
            async def handler(_payload, firing):
                firing.progress(0.5, "half")
                noted.set()
                await go_on.wait()

            await scheduler.set("k", delay=0, handler="h")
            await asyncio.wait_for(noted.wait(), 60)
            seen.append(await scheduler.progress("k"))
            go_on.set()
        return seen

    assert asyncio.run(main()) == [Progress(0.5, "half")]


def test_pull(make, url, until):
    """
    A pull worker reports progress when it extends its lease.

    An extension without progress keeps the last report.
    """
    scheduler = make(url).start()
    scheduler.set("k", delay=0, target="pull", handler="q")
    [lease] = scheduler.lease("q", wait=60)
    assert scheduler.progress("k") is None
    scheduler.extend(lease.fire_id, 60, progress=0.1, note="page 3")
    scheduler.extend(lease.fire_id, 60)
    assert scheduler.progress("k") == Progress(0.1, "page 3")
    with pytest.raises(InvalidJobError, match="progress="):
        scheduler.extend(lease.fire_id, note="page 4")
    with pytest.raises(InvalidJobError, match="progress is 40"):
        scheduler.extend(lease.fire_id, progress=40)
    scheduler.ack(lease.fire_id)
    until(lambda: scheduler.progress("k") is None)


def test_invalid_reports(make, url, until):
    """
    An invalid fraction or note is refused, and the error names the remedy. A long note is cut.

    A report of a cancelled job raises an error.
    """
    stopped, found = threading.Event(), []
    scheduler = make(url).start()

    @scheduler.handler("h")
    def handler(_payload, firing):
        for fraction, note in ((-0.1, ""), (1.01, ""), (math.nan, ""), ("half", ""), (True, ""), (0.5, 12)):
            with pytest.raises(InvalidJobError) as caught:
                firing.progress(fraction, note)
            found.append(str(caught.value))
        firing.progress(0.5, "x" * 1000)
        assert stopped.wait(60)
        with pytest.raises(JobStoppedError):
            firing.progress(0.6)
        found.append("heard")

    scheduler.set("k", delay=0, handler="h")
    until(lambda: scheduler.progress("k") == Progress(0.5, "x" * 200))
    scheduler.cancel("k", running=True)
    stopped.set()
    until(lambda: scheduler.get("k") is None)
    assert found.pop() == "heard"
    assert ["0..1" in text or "pass a string" in text for text in found] == [True] * 6


def test_many(make, url, until):
    """
    A node shows the progress of at most fifty jobs.
    """
    go_on = threading.Event()
    scheduler = make(url, options=SchedulerOptions(workers=80)).start()

    @scheduler.handler("h", concurrency=None)
    def handler(_payload, firing):
        firing.progress(0.5)
        assert go_on.wait(60)

    for n in range(60):
        scheduler.set(f"{n}", delay=0, handler="h")
    until(lambda: sum(record.progress is not None for record in scheduler.recent()) == 60)
    (node,) = scheduler.nodes()
    assert len(node.figures["progress"]) == 50
    go_on.set()
    until(lambda: scheduler.stats()["pending"] == scheduler.stats()["running"] == 0)
