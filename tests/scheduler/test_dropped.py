"""
A client leaves nothing behind when it is stopped, or when it is garbage-collected without having been stopped.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from tickwheel.scheduler import AsyncScheduler, Scheduler, StoreInUseError


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "partitions"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    if request.param in {"redis", "partitions"}:
        more = "&partitions=3" if request.param == "partitions" else ""
        return request.getfixturevalue("redis_server").empty_url(more)
    return request.getfixturevalue("postgres_url")


def threads():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("tickwheel"))


def objects():
    """
    Count the live objects of tickwheel, the database drivers and `threading`, by type.

    Count all functions and classes, too.
    """
    gc.collect()
    names = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
    ours = ("tickwheel", "psycopg", "redis", "sqlite3", "threading", "builtins.type", "builtins.function")
    return Counter({name: count for name, count in names.items() if name.startswith(ours)})


def use(url, count):
    for _ in range(count):
        scheduler = Scheduler(url)
        scheduler.set("key", delay=3_600, handler="h")
        scheduler.stop()


def test_stopped_clients_leave_nothing(url, until):
    """
    A stopped client leaves no object behind, except objects that all clients share.
    """
    before_threads = threads()
    use(url, 3)
    before = objects()
    use(url, 20)
    left = {name: count for name, count in (objects() - before).items() if count >= 20}
    assert left == {}
    until(lambda: threads() == before_threads)


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.filterwarnings("ignore:unclosed scheduler:ResourceWarning")
def test_a_dropped_scheduler_is_stopped(url, until, is_started, caplog):
    """
    If a scheduler is garbage-collected without a stop, a ResourceWarning is raised, and its threads end.

    A scheduler that was started also logs that it fires no more jobs, and releases its shards.
    """
    before = threads()
    scheduler = Scheduler(url)
    scheduler.set("key", delay=3_600, handler="h")
    if is_started:
        scheduler.start()
    held = [scheduler]
    del scheduler

    def drop():
        held.clear()
        until(lambda: gc.collect() >= 0 and threads() == before)  # its writer holds it until a call ends

    with pytest.warns(ResourceWarning, match="unclosed scheduler .*: call stop()"):
        drop()
    assert ("fires no more jobs" in caplog.text) == is_started
    if not url.startswith("memory"):
        with Scheduler(url) as again:
            assert again.stats()["pending"] == 1
            assert again.stats()["shards"]


def test_no_warning_for_schedulers_that_hold_nothing(tmp_path, recwarn):
    """
    A scheduler that was stopped or never used is garbage-collected without a warning.
    """
    for kind in (Scheduler, AsyncScheduler):
        kind(f"sqlite:///{tmp_path / 'jobs.db'}")
    use("memory://", 1)
    gc.collect()
    assert not recwarn.list


@pytest.mark.parametrize("kind", [Scheduler, AsyncScheduler])
def test_a_block_whose_start_fails_leaves_no_object(tmp_path, recwarn, kind):
    """
    If the start in a `with` statement fails, the scheduler is stopped, and causes no warning later.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    before = threads()

    async def enter_async():
        async with AsyncScheduler(url):
            pass

    def enter():
        if kind is AsyncScheduler:
            asyncio.run(enter_async())
        else:
            stack.enter_context(Scheduler(url))

    with Scheduler(url), ExitStack() as stack:
        with pytest.raises(StoreInUseError):
            enter()
        gc.collect()
    assert threads() == before
    assert not recwarn.list
