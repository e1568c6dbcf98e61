"""
The worker threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest

from tickwheel.drivers import TimerWheel
from tickwheel.engine._coroutines import Blocking, Coroutines
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._workers import Workers, WorkQueue
from tickwheel.engine.resources import ThreadStarter
from tickwheel.host.hooks import Hooks
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.model import Job
from tickwheel.targets import Call


class Work:
    """
    Worker threads that run plain functions, as jobs of a handler that may occupy all workers.
    """

    def __init__(self, size):
        self.ran = []
        self.ended = []
        self.threads = set()
        self._lock = threading.Lock()
        self._grown = threading.Condition(self._lock)
        self.queue = WorkQueue(size, 4, Runtime())
        self.workers = Workers(
            self.run,
            self.queue,
            Runtime(),
            ThreadStarter("a worker", Hooks(Runtime()), TimerWheel()),
            write=partial(self.end, is_last=False),
            write_last=partial(self.end, is_last=True),
        )

    def put(self, functions):
        entries = [StagedJob(Job("k", 1, 0), 1, 0, Phase.BEGUN) for _ in functions]
        for entry, function in zip(entries, functions, strict=True):
            entry.call = Call(function, width=None)
        self.workers.put(entries)
        return entries

    def run(self, entry, _now):
        """
        Call the function of *entry*, and record the call.

        Return True if the function returned a verdict to write.
        """
        entry.verdict = entry.call.function()
        with self._grown:
            self.ran.append(entry)
            self.threads.add(threading.current_thread())
            self._grown.notify_all()
        return entry.verdict is not None

    def end(self, entry, *, is_last):
        """
        Record *entry*, *is_last*, and whether *entry* has left the queue.

        If the verdict of *entry* is a function, call it.
        """
        with self._grown:
            self.ended.append((entry, is_last, entry not in self.queue.running()))
            self._grown.notify_all()
        if callable(entry.verdict):
            entry.verdict()

    def wait(self, count):
        """
        Wait until *count* items ran.
        """
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.ran) >= count, 60)


@pytest.fixture
def work(request):
    """
    Return four workers, or as many as the test requests.
    """
    work = Work(getattr(request, "param", 4))
    yield work
    work.workers.close(10)


def test_no_thread_before_work(work):
    """
    Threads start only when there is work.

    There are never more threads than allowed.
    """
    assert work.workers.count == 0
    for count in range(1, 20):
        work.put([lambda: None])
        work.wait(count)
    assert 1 <= len(work.threads) <= 4


def test_a_slow_item_delays_no_other(work):
    """
    While some jobs block their workers, the other workers run jobs.

    If all workers are blocked, the remaining jobs wait.
    """
    go_on = threading.Event()
    work.put([lambda: go_on.wait(300)] * 3 + [lambda: None] * 100)
    work.wait(100)
    assert len(work.ran) == 100
    work.put([lambda: go_on.wait(300)])
    work.put([lambda: None])
    go_on.set()
    work.wait(105)


@pytest.mark.parametrize("work", [1], indirect=True)
def test_a_verdict_is_written_after_its_entry_has_left(work, until):
    """
    The verdict of each entry is written once, after the entry has left the queue.

    The last verdict is written by a worker that has nothing else to do.
    """
    entries = work.put([lambda: "verdict"] * 2 + [lambda: None] + [lambda: "verdict"])
    until(lambda: len(work.ended) == 3)
    assert work.ended == [(entries[0], False, True), (entries[1], False, True), (entries[3], True, True)]


@pytest.mark.parametrize("work", [1], indirect=True)
def test_a_slow_write_of_a_verdict_delays_no_job(work, until):
    """
    If a worker is slow to write a verdict, another thread runs the next job.

    Afterwards one of the two threads ends.
    """
    go_on = threading.Event()
    work.put([lambda: lambda: go_on.wait(300)])
    until(lambda: len(work.ended) == 1)
    work.put([lambda: None])
    work.wait(2)
    assert len(work.threads) == 2
    go_on.set()
    until(lambda: work.workers.count == 1)
    work.put([lambda: None])
    work.wait(3)


@pytest.mark.parametrize("work", [1], indirect=True)
def test_order_of_one(work):
    """
    One worker runs its queue in order.
    """
    seen = []
    work.put([lambda n=n: seen.append(n) for n in range(500)])
    work.wait(500)
    assert seen == list(range(500))


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost(work, seed):
    """
    If many threads put items into the queue while workers start and end, each item runs once.
    """
    counted = []

    def put(base):
        for n in range(0, 1000, 10):
            work.put([lambda n=n + k: counted.append((base, n)) for k in range(10)])
            if n % (100 + seed) == 0:
                time.sleep(0.0005)  # lets workers become idle between puts

    threads = [threading.Thread(target=put, args=(base,)) for base in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work.wait(4000)
    assert sorted(counted) == [(base, n) for base in range(4) for n in range(1000)]


@pytest.mark.parametrize("work", [1], indirect=True)
def test_another_thread_replaces_a_hanging_one(work, until):
    """
    While a thread hangs past its timeout, another thread takes its place.

    When the hanging thread returns, one of the two threads ends.
    """
    go_on = threading.Event()
    held, _ = work.put([lambda: go_on.wait(300), lambda: None])
    until(lambda: work.queue.waiting == 1)  # the first entry has begun
    work.workers.leak(held)
    work.wait(1)
    assert work.queue.leaked == {("handler", ""): 1}
    go_on.set()
    work.wait(2)
    work.put([lambda: None] * 10)
    work.wait(12)
    until(lambda: work.workers.count == 1)
    assert work.queue.leaked == {}


def test_an_entry_that_has_ended_cannot_leak(work, until):
    """
    If the timeout of an entry fires just after the entry has ended, no worker counts as hanging.
    """
    (ended,) = work.put([lambda: None])
    work.wait(1)
    # between the end of the entry and the worker's next read of the queue
    until(lambda: ended not in work.queue.running())
    work.workers.leak(ended)
    assert work.queue.leaked == {}


@pytest.mark.parametrize("work", [1], indirect=True)
def test_queued_entries_can_be_withdrawn(work):
    """
    Entries that no worker has begun can be withdrawn.
    """
    begun, go_on = threading.Event(), threading.Event()
    _, *waiting = work.put([lambda: (begun.set(), go_on.wait(300)), *[lambda: None] * 5])
    assert begun.wait(60)
    assert work.queue.take_back() == waiting
    go_on.set()
    work.wait(1)
    assert len(work.ran) == 1


def test_closed():
    """
    Closing runs the queued entries and then ends the threads.

    Closing twice is allowed.
    """
    work = Work(4)
    work.put([lambda: time.sleep(0.001)] * 50)
    work.workers.close(20)
    work.workers.close(20)
    assert len(work.ran) == 50
    assert not any(thread.is_alive() for thread in work.threads)


def test_cancelled_entries_leave_the_queue():
    """
    Entries that wait for their handler's concurrency limit leave the queue at once when they are cancelled.
    """
    queue = WorkQueue(2, 4, Runtime())
    entries = [StagedJob(Job(f"k{number}", number, 1_000 - number), 1, 1_000 - number) for number in range(102)]
    for entry in entries:
        entry.call = Call(print)
    queue.put(entries[:1])
    assert queue.take() is entries[0]
    queue.put(entries[1:101])
    assert queue.take() is None  # the handler's only place is taken
    queue.put(entries[101:])  # due before the other entries, and cancelled, so none of them is begun
    assert queue.take(entries[0]) is None
    assert queue.waiting == 0


def due(handler, count):
    """
    Return entries of *count* jobs of an async *handler*.
    """
    entries = [
        StagedJob(Job(f"{handler} {number}", number, 0, handler=handler), 1, 0, Phase.BEGUN) for number in range(count)
    ]
    for entry in entries:
        entry.call = Call(print, is_async=True)
    return entries


def test_handlers_take_turns():
    """
    A handler with few jobs does not wait until another handler's burst is over.

    The jobs of each handler run in order.
    """
    queue = WorkQueue(8, 4, Runtime())
    herd, calm = due("herd", 50), due("calm", 2)
    queue.put(herd)
    assert queue.take() is herd[0]
    queue.put(calm)
    assert [queue.take() for _ in range(5)] == [calm[0], herd[1], calm[1], herd[2], herd[3]]


def test_a_burst_does_not_block_the_loop():
    """
    A turn of the event loop starts at most 64 tasks of a burst.

    All tasks run, in order.
    """

    async def fire_all():
        started = []

        async def run(entry):
            started.append(entry)

        runtime, loop, entries = Runtime(), asyncio.get_running_loop(), due("herd", 500)
        starter = ThreadStarter("the event loop", Hooks(runtime), TimerWheel())
        coroutines = Coroutines(
            run, WorkQueue(1_000, 4, runtime), loop, runtime, starter, blocking=Blocking(TimerWheel(), runtime)
        )
        coroutines.put(entries)
        before = 0
        while before < len(entries):
            await asyncio.sleep(0)
            assert len(started) <= before + 64
            before = len(started)
        assert started == entries

    asyncio.run(fire_all())
