"""
Starts and stops that are interrupted: the system has no free thread, or Ctrl-C arrives.
"""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from tickwheel.engine._leases import Heartbeat, Leases
from tickwheel.engine._prefetch import Prefetcher
from tickwheel.engine._watcher import Watcher
from tickwheel.engine._workers import Workers
from tickwheel.engine.engine import Engine
from tickwheel.errors import ClosedError
from tickwheel.host.writer import Writer
from tickwheel.scheduler import Scheduler, SchedulerOptions, SetRequest, StoreFullError
from tickwheel.scheduler._core import Core
from tickwheel.stores.sqlite import SqliteStore

BEFORE, AFTER = "before", "after"
WRITERS = {"tickwheel-writer", "tickwheel-writer-own", "tickwheel-writer-callers"}


@pytest.fixture
def fail(monkeypatch):
    """
    Return a function that makes a method raise at its first call, before or after the method has done its work.
    """

    def fail_once(kind, name, when, error):
        method, errors = getattr(kind, name), [error]

        def failing(*arguments, **options):
            if errors and when == BEFORE:
                raise errors.pop()
            answer = method(*arguments, **options)
            if errors:
                raise errors.pop()
            return answer

        monkeypatch.setattr(kind, name, failing)

    return fail_once


@pytest.fixture
def no_thread(monkeypatch):
    """
    Return a function that makes the next two starts of a thread with a given name fail.
    """
    start, left = threading.Thread.start, []

    def scarce(thread):
        if thread.name in left:
            left.remove(thread.name)
            what = "can't start new thread"
            raise RuntimeError(what)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    return lambda name: left.extend([name] * 2)


@pytest.fixture
def ours():
    """
    Return a function that lists the running tickwheel threads that this test has started.
    """
    before = set(threading.enumerate())
    return lambda: sorted(
        each.name for each in set(threading.enumerate()) - before if each.name.startswith("tickwheel")
    )


@pytest.fixture
def check_gone(until, ours):
    """
    Return a function that waits until only the given tickwheel threads are left.
    """
    return lambda but=frozenset(): until(lambda: not set(ours()) - but)


@pytest.fixture
def scheduler(make, file_url, record):
    """
    Return a scheduler with a handler, not started.
    """
    scheduler = make(file_url)
    scheduler.handler("h")(record)
    return scheduler


@pytest.fixture
def check_as_before(scheduler, file_url, record, check_gone, ours):
    """
    Return a function that asserts that a failed start left nothing behind.

    It also asserts that another scheduler, and then the first one, can become owner of the file.
    """

    def check():
        assert not scheduler.is_started
        check_gone(WRITERS)
        with closing(Scheduler(file_url)) as other:
            other.start()
        scheduler.start()
        scheduler.set("k", delay=0, handler="h", payload=1)
        assert record.wait(1) == [1]
        assert len(ours()) == len(set(ours()))  # no thread was started twice

    return check


@pytest.mark.parametrize("name", ["checkpointer", "leases", "prefetcher", "watcher"])
def test_no_thread_to_start_with(scheduler, check_as_before, no_thread, name):
    """
    If the system has no thread for a start, the start fails and leaves nothing behind, however often it is repeated.
    """
    no_thread(f"tickwheel-{name}")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.start()
    check_as_before()


@pytest.mark.parametrize(
    "place",
    [(SqliteStore, "_keep_reserve"), (Leases, "_hold"), (Prefetcher, "start"), (Watcher, "start"), (Heartbeat, "beat")],
)
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_ctrl_c_in_a_start(scheduler, check_as_before, fail, place, when):
    """
    If Ctrl-C interrupts a start at any point, the start leaves nothing behind.
    """
    fail(*place, when, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
    check_as_before()


def test_ctrl_c_at_the_end_of_a_start(scheduler, record, fail, ours):
    """
    If a start is interrupted just after it succeeded, the next call does not start again.
    """
    fail(Core, "_start", AFTER, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
    before = ours()
    scheduler.start()
    assert [each.name for each in threading.enumerate()].count("tickwheel-prefetcher") == 1
    assert ours() == before
    scheduler.set("k", delay=0, handler="h", payload=1)
    assert record.wait(1) == [1]


def test_an_error_after_the_lock_was_taken(scheduler, check_as_before, fail):
    """
    If an error occurs after a new owner has locked the file, the lock is released.
    """
    fail(SqliteStore, "_keep_reserve", BEFORE, StoreFullError("no room", "make some"))
    with pytest.raises(StoreFullError):
        scheduler.start()
    check_as_before()


@pytest.mark.parametrize(
    "place",
    [
        (Prefetcher, "stop", BEFORE),
        (Prefetcher, "stop", AFTER),
        (Engine, "_wait", BEFORE),
        (Workers, "close", BEFORE),
        (Writer, "close", AFTER),
        (Leases, "release", AFTER),
        (SqliteStore, "_step_down", BEFORE),
        (SqliteStore, "close", AFTER),
    ],
)
def test_ctrl_c_in_a_stop(make, file_url, fail, check_gone, place):
    """
    An interrupted stop still releases the file.

    The next call of `stop()` completes the stop.
    """
    scheduler = make(file_url).start()
    go_on, started, fired = threading.Event(), threading.Event(), threading.Event()
    scheduler.handler("h")(lambda _: (started.set(), go_on.wait(60)))
    scheduler.set("k", delay=0, handler="h")
    assert started.wait(60)
    fail(*place, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        scheduler.stop(0.5)
    assert not scheduler.is_started
    other = make(file_url)
    other.handler("h")(lambda _: fired.set())
    other.start()
    assert fired.wait(60)
    other.stop()
    for refused in (scheduler.start, lambda: scheduler.set("k", delay=0, handler="h")):
        with pytest.raises(ClosedError):
            refused()
    go_on.set()
    assert scheduler.stop(60) == []
    assert scheduler.stop() == []
    check_gone()


def test_a_queued_job_at_an_interrupted_stop(make, file_url, record, until, fail, engines):  # noqa: PLR0917  fixtures
    """
    If a stop is interrupted while a job waits for a worker, the job does not start after the file was released.
    """
    scheduler = make(file_url, options=SchedulerOptions(workers=1)).start()
    go_on = threading.Event()
    scheduler.handler("h")(lambda payload: (record(payload), go_on.wait(60)))
    scheduler.set_many(SetRequest(f"k{n}", delay=0, handler="h", payload=n) for n in range(3))
    until(lambda: scheduler.stats()["waiting"] == 2)
    fail(Prefetcher, "stop", BEFORE, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        scheduler.stop(0.5)
    go_on.set()
    until(lambda: engines[0].sizes()["waiting"] == 0)
    assert scheduler.stop(60) == []
    assert len(record.items) == 1
    assert len(make(file_url).list().jobs) == 3
