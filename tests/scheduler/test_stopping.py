"""
Starts and stops in every order, and the jobs that are in progress at that time.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tickwheel.engine import _completion
from tickwheel.errors import ClosedError
from tickwheel.scheduler import Outcome, RetryPolicy, SchedulerOptions, SetRequest, State, StoreInUseError


def test_stop_before_start(make, url):
    """
    A stop closes a scheduler that was never started, and may be repeated.
    """
    scheduler = make(url)
    assert not scheduler.is_started
    assert scheduler.stop() == []
    assert scheduler.stop() == []
    with pytest.raises(ClosedError):
        scheduler.start()


def test_start_twice(make, url, record):
    scheduler = make(url)
    assert scheduler.start() is scheduler.start()
    assert scheduler.is_started
    scheduler.handler("h")(record)
    scheduler.set("k", delay=0, handler="h", payload=1)
    assert record.wait(1) == [1]


def test_with(make, url):
    with make(url) as scheduler:
        assert scheduler.is_started
    assert not scheduler.is_started


def test_stop_leaves_pending_jobs(make, file_url, record):
    """
    If a scheduler is stopped while many jobs become due, the jobs that have not fired stay in the store, unclaimed.

    They fire after the next start.
    """
    scheduler = make(file_url).start()
    scheduler.handler("h")(record)
    scheduler.set_many([SetRequest(f"k{n}", delay=0.001 + n * 0.002, handler="h", payload=n) for n in range(200)])
    assert scheduler.stop(timeout=60) == []
    after = make(file_url)
    left = after.stats()["pending"]
    ran = list(record.items)
    assert left + len(ran) == 200
    assert {job.attempt for job in after.list(limit=1000).jobs} <= {0}
    after.handler("h")(record)
    after.start()
    assert sorted(record.wait(200)) == list(range(200))


def test_stop_waits_for_handlers(make, file_url, record):
    """
    A stop waits for a running handler, and writes its result.
    """
    scheduler = make(file_url).start()
    started = threading.Event()

    @scheduler.handler("h")
    def handler(_payload):
        started.set()
        time.sleep(0.2)  # the handler is working
        record("done")

    scheduler.set("k", delay=0, handler="h")
    assert started.wait(60)
    assert scheduler.stop(timeout=60) == []
    assert record.items == ["done"]
    assert make(file_url).get("k") is None


@pytest.mark.parametrize("is_async", [False, True])
def test_stop_in_time(make, file_url, is_async, until):
    """
    If a handler does not end, a stop keeps its time limit.

    The stop releases the job, and the next owner claims it.
    """
    scheduler = make(file_url).start()
    started, go_on = threading.Event(), threading.Event()

    def slow(_payload):
        started.set()
        go_on.wait(300)

    async def slow_async(_payload):
        started.set()
        await asyncio.sleep(300)

    scheduler.handler("h")(slow_async if is_async else slow)
    scheduler.set("k", delay=0, handler="h")
    assert started.wait(60)
    before = time.monotonic()
    (running,) = scheduler.stop(timeout=1.0)
    assert time.monotonic() - before < 30  # the limit is one second, and a slow disk takes time
    assert (running.job.key, running.attempt) == ("k", 1)
    go_on.set()
    after = make(file_url)
    assert after.get("k").state is State.RUNNING
    again = []

    @after.handler("h")
    def handler(_payload, firing):
        again.append(firing.attempt)
        started.clear()

    after.start()
    until(lambda: again)
    assert again == [2]


def test_stop_releases_jobs_that_wait_for_a_worker(make, file_url, until):
    """
    Jobs that were claimed but got no worker are pending after the stop.

    Their attempts do not count.
    """
    scheduler = make(file_url, options=SchedulerOptions(workers=1)).start()
    started, go_on = threading.Event(), threading.Event()

    @scheduler.handler("h")
    def handler(_payload):
        started.set()
        go_on.wait(300)

    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="h") for n in range(10)])
    assert started.wait(60)
    until(lambda: scheduler.stats()["waiting"] == 9)
    other = make(file_url)
    left_running = []
    stopping = threading.Thread(target=lambda: left_running.append(scheduler.stop(timeout=60)))
    stopping.start()
    until(lambda: other.stats()["pending"] == 9)
    go_on.set()
    stopping.join(60)
    assert left_running == [[]]
    left = other.list().jobs
    assert len(left) == 9
    assert {(job.state, job.attempt) for job in left} == {(State.PENDING, 0)}


def test_stop_writes_waiting_acknowledgements(make, file_url, record, monkeypatch):
    """
    If a stop reaches its time limit while acknowledgements wait for the next commit, the stop still writes them.
    """
    monkeypatch.setattr(_completion, "_PAUSE_S", 100.0)
    scheduler = make(file_url).start()
    go_on = threading.Event()
    scheduler.handler("hung")(lambda _: go_on.wait(300))
    scheduler.handler("h")(record)
    scheduler.set("hung", delay=0, handler="hung")
    for n in range(3):
        scheduler.set(f"k{n}", delay=0, handler="h", payload=n)
        record.wait(n + 1)
    assert [firing.job.key for firing in scheduler.stop(timeout=0.6)] == ["hung"]
    go_on.set()
    assert [job.key for job in make(file_url).list().jobs] == ["hung"]


@pytest.mark.parametrize("is_async", [False, True])
def test_stop_from_inside_a_handler(make, file_url, record, is_async):
    """
    A handler may stop its own scheduler.

    The call returns at once, and the result of the handler is written.
    """
    scheduler = make(file_url).start()

    def stopper(_payload):
        record(scheduler.stop())

    async def stopper_async(_payload):
        record(scheduler.stop())

    scheduler.handler("h")(stopper_async if is_async else stopper)
    scheduler.set("k", delay=0, handler="h")
    assert record.wait(1) == [[]]
    scheduler.stop(timeout=60)  # waits for the other job
    assert not scheduler.is_started
    assert make(file_url).get("k") is None


def test_stop_from_a_hook(make, url):
    """
    A hook may stop its scheduler.
    """
    scheduler = make(url).start()
    stopped = threading.Event()

    def hook(_event):
        threading.Thread(target=lambda: (scheduler.stop(), stopped.set())).start()

    scheduler.subscribe(hook)
    scheduler.handler("h")(lambda _: None)
    scheduler.set("k", delay=0, handler="h")
    assert stopped.wait(60)


def test_two_stops_at_once(make, url):
    """
    If two threads stop a scheduler at once, both calls return when the scheduler has stopped.
    """
    scheduler = make(url).start()
    go_on, started = threading.Event(), threading.Event()

    @scheduler.handler("h")
    def handler(_payload):
        started.set()
        go_on.wait(300)

    scheduler.set("k", delay=0, handler="h")
    assert started.wait(60)
    seen = []

    def stop():
        scheduler.stop()
        seen.append(scheduler.is_started)

    threads = [threading.Thread(target=stop) for _ in range(2)]
    for thread in threads:
        thread.start()
    threading.Timer(0.1, go_on.set).start()
    for thread in threads:
        thread.join(60)
    assert seen == [False, False]


def test_a_second_owner(make, file_url, record):
    """
    If a file has an owner, the start of a second scheduler fails.

    The second scheduler stays a client, and can start when the first stops.
    """
    first, second = make(file_url).start(), make(file_url)
    with pytest.raises(StoreInUseError):
        second.start()
    assert not second.is_started
    assert second.set("k", delay=0.5, handler="h", payload=1).outcome is Outcome.CREATED
    first.stop()
    second.handler("h")(record)
    second.start()
    assert record.wait(1) == [1]


def test_handlers_registered_before_the_start(make, file_url, record):
    """
    If a handler was registered before the start, jobs that were already pending also run.
    """
    make(file_url).set("k", delay=0, handler="h", payload=1)
    scheduler = make(file_url)
    scheduler.handler("h", retry=RetryPolicy(attempts=1))(record)
    scheduler.start()
    assert record.wait(1) == [1]


def test_threads_end(make, url):
    """
    After the stop no thread of the scheduler remains.
    """
    before = set(threading.enumerate())
    scheduler = make(url).start()
    done = threading.Event()

    async def handler(_payload):
        done.set()

    scheduler.handler("h")(handler)
    scheduler.handler("s")(lambda _: None)
    scheduler.set("s", delay=0, handler="s")
    scheduler.set("k", delay=0.05, handler="h")
    assert done.wait(60)
    scheduler.stop()
    left = [each for each in set(threading.enumerate()) - before if each.name.startswith("tickwheel")]
    for thread in left:
        thread.join(60)
    assert [thread.name for thread in left if thread.is_alive()] == []


def test_tasks_beside_a_handler_end(make, url, record):
    """
    A stop cancels the tasks that an async handler has started.

    The tasks end on their loop.
    """
    beside = []

    async def wait_forever():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # like a client that closes its connection
            record("ended")

    async def handler(payload):
        beside.append(asyncio.create_task(wait_forever()))
        await asyncio.sleep(0)
        record(payload)

    scheduler = make(url).start()
    scheduler.handler("h")(handler)
    scheduler.set("k", delay=0, handler="h", payload="fired")
    assert record.wait(1) == ["fired"]
    scheduler.stop()
    assert record.wait(2) == ["fired", "ended"]


@pytest.mark.parametrize(
    ("call", "answer"), [("stop()", "[]"), ("set('k', delay=3600, handler='h')", "ClosedError")], ids=["stop", "set"]
)
def test_the_end_of_the_interpreter(file_url, call, answer):
    """
    If a finalizer calls the scheduler at the very end of the interpreter, the call returns or raises at once.

    It does not wait for a thread that the interpreter has frozen.
    """
    program = f"""
        import builtins, os, sys
        from tickwheel.scheduler import Scheduler

        class Last:
            def __init__(self):
                self.scheduler = Scheduler({file_url!r}).start()
                self.write, self.is_finalizing = os.write, sys.is_finalizing

            def __del__(self):
                try:
                    answer = repr(self.scheduler.{call})
                except Exception as error:
                    answer = type(error).__name__
                self.write(1, f"{{answer}} {{self.is_finalizing()}}".encode())

        builtins.last = Last()
    """
    command = [sys.executable, "-P", "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (f"{answer} True", "", 0)
