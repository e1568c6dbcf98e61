"""
The scheduler on asyncio.
"""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from concurrent.futures import Future
from contextlib import nullcontext

import pytest

from tickwheel.errors import ClosedError
from tickwheel.jobs.errors import UnsupportedError
from tickwheel.scheduler import AsyncScheduler, InvalidJobError, Outcome, RetryPolicy, Scheduler, SetRequest, State
from tickwheel.scheduler._replies import Replies
from tickwheel.stores.sqlite import SqliteStore

HOUR = 3600
PATIENCE_S = 60.0


def public(kind):
    """
    Return the public methods of a class with their parameters.
    """
    return {
        name: list(inspect.signature(member).parameters)
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_same_names():
    assert public(AsyncScheduler) == public(Scheduler)


def test_every_verb(url):
    """
    Each verb of `AsyncScheduler` returns the same result as the verb of `Scheduler`.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            assert scheduler.is_started
            assert (await scheduler.set("k", delay=HOUR, handler="h", payload=1)).outcome is Outcome.CREATED
            assert (await scheduler.get("k")).payload == b"1"
            assert (await scheduler.move("k", delay=2 * HOUR)).outcome is Outcome.MOVED
            answers = await scheduler.set_many([SetRequest(f"m{n}", delay=HOUR, handler="h") for n in range(10)])
            assert [answer.outcome for answer in answers] == [Outcome.CREATED] * 10
            assert len((await scheduler.list("m", limit=20)).jobs) == 10
            assert (await scheduler.cancel("k")).outcome is Outcome.CANCELLED
            assert (await scheduler.replay("k")).outcome is Outcome.NOT_FOUND
            assert (await scheduler.run_now("k")).outcome is Outcome.NOT_FOUND
            with pytest.raises(InvalidJobError):
                await scheduler.set("", delay=1, handler="h")
        with pytest.raises(ClosedError):
            await scheduler.get("k")

    asyncio.run(main())


def test_handlers_run_on_the_callers_loop(url):
    """
    Async handlers run on the loop that started the scheduler.

    So they can use the connections and locks of that loop.
    """

    async def main():
        seen = asyncio.Queue()
        scheduler = AsyncScheduler(url)

        @scheduler.handler("h")
        async def handler(payload, firing):
            await asyncio.sleep(0)
            await seen.put((payload, firing.attempt, asyncio.get_running_loop()))

        await scheduler.start()
        await scheduler.set("k", delay=0.02, handler="h", payload=5)
        assert await asyncio.wait_for(seen.get(), 60) == (5, 1, asyncio.get_running_loop())
        assert await scheduler.stop() == []

    asyncio.run(main())


def test_sync_handlers_do_not_hold_the_loop(url):
    """
    The async scheduler runs a plain function in a worker thread.
    """

    async def main():
        loop, seen = asyncio.get_running_loop(), asyncio.Queue()
        async with AsyncScheduler(url) as scheduler:

            @scheduler.handler("h")
            def handler(payload):
                asyncio.run_coroutine_threadsafe(seen.put(payload), loop).result(20)

            await scheduler.set("k", delay=0, handler="h", payload=1)
            assert await asyncio.wait_for(seen.get(), 60) == 1

    asyncio.run(main())


def test_many_at_once(url):
    """
    A thousand tasks that set jobs at the same time share commits.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            await asyncio.gather(*(scheduler.set(f"k{n}", delay=HOUR, handler="h") for n in range(1000)))
            stats = scheduler.stats()
        assert stats["pending"] == 1000
        assert stats["commits"] < 500

    asyncio.run(main())


def test_stop_from_inside_a_handler(url):
    """
    An async handler may await the stop of its own scheduler.

    The call returns at once, and the stop continues in the background.
    """

    async def main():
        scheduler, seen = AsyncScheduler(url), asyncio.Queue()

        @scheduler.handler("h")
        async def handler(_payload):
            await seen.put(await scheduler.stop())

        await scheduler.start()
        await scheduler.set("k", delay=0, handler="h")
        assert await asyncio.wait_for(seen.get(), 60) == []
        await scheduler.stop()
        assert not scheduler.is_started

    asyncio.run(main())


def test_a_loop_that_is_closed_too_early(file_url, caplog, until):
    """
    If the event loop is closed before the scheduler is stopped, jobs with async handlers wait until the stop.

    The stop releases them without using an attempt. After each start, the scheduler logs once that the loop is closed.
    """
    scheduler = AsyncScheduler(file_url)

    @scheduler.handler("h")
    async def handler(_payload):
        raise AssertionError

    async def main():
        await scheduler.start()

    asyncio.run(main())
    with pytest.raises(UnsupportedError, match="make another one"):
        asyncio.run(main())
    client = Scheduler(file_url)
    for count, key in enumerate(("k", "l"), 1):
        client.set(key, delay=0, handler="h")
        until(lambda count=count: scheduler.stats()["waiting"] == count)
    asyncio.run(scheduler.stop())
    assert [each.levelname for each in caplog.records if "event loop" in each.message] == ["ERROR"]
    with pytest.raises(ClosedError):
        asyncio.run(main())
    assert (client.get("k").state, client.get("k").attempt) == (State.PENDING, 0)
    client.stop()


def test_a_task_that_is_cancelled(file_url):
    """
    A stop cancels a task that does not end in time, and releases the task's job.

    The job is claimed again later.
    """

    async def main():
        scheduler = AsyncScheduler(file_url)
        started, ended = asyncio.Event(), asyncio.Event()

        @scheduler.handler("h", retry=RetryPolicy(attempts=3))
        async def handler(_payload):
            started.set()
            try:
                await asyncio.sleep(100)
            finally:
                ended.set()

        await scheduler.start()
        await scheduler.set("k", delay=0, handler="h")
        await asyncio.wait_for(started.wait(), 60)
        (running,) = await scheduler.stop(timeout=0.5)
        assert (running.job.key, ended.is_set()) == ("k", True)
        after = AsyncScheduler(file_url)
        assert (await after.get("k")).state is State.RUNNING
        await after.stop()

    asyncio.run(main())


def test_drain_reports_on_the_loop(url):
    """
    A drain calls its callback in the event loop's own thread, with the number of cancelled jobs.
    """

    async def main():
        seen = []
        async with AsyncScheduler(url) as scheduler:
            for number in range(3):
                await scheduler.set(f"far/{number}", delay=3600, target="log")
            drained = await scheduler.drain("far/", lambda more: seen.append((more, threading.get_ident())))
            await asyncio.sleep(0)  # the drain scheduled the last report before it returned
        assert len(drained) == 3
        assert seen == [(3, threading.get_ident())]

    asyncio.run(main())


def test_an_answer_that_was_cancelled():
    """
    If the future for which a task waits is cancelled elsewhere, the task gets CancelledError.

    Tasks that wait for other futures get their answers.
    """

    async def answers():
        replies, cancelled, kept = Replies(), Future(), Future()
        waiters = [replies.awaitable(answer) for answer in (cancelled, kept)]
        cancelled.cancel()
        kept.set_result(5)
        return await asyncio.gather(*waiters, return_exceptions=True)

    error, five = asyncio.run(answers())
    assert (type(error), five) == (asyncio.CancelledError, 5)


class OpenedStore(SqliteStore):
    """
    A store that records the thread that opens it.

    That thread waits in `open` until the test lets it continue.
    """

    def __init__(self, path):
        super().__init__(path)
        self.opened_on, self.is_entered, self.may_open = [], threading.Event(), threading.Event()
        self.may_open.set()

    def open(self):
        """
        Open the file late, as a slow server does.
        """
        self.opened_on.append(threading.get_ident())
        self.is_entered.set()
        assert self.may_open.wait(PATIENCE_S)
        super().open()


@pytest.mark.parametrize(
    "verb",
    [
        lambda scheduler: scheduler.set("k", delay=HOUR, handler="h"),
        lambda scheduler: scheduler.set_many([SetRequest("k", delay=HOUR, handler="h")]),
        lambda scheduler: scheduler.move("k", delay=HOUR),
        lambda scheduler: scheduler.cancel("k"),
        lambda scheduler: scheduler.change("k", payload=1),
    ],
    ids=["set", "set_many", "move", "cancel", "change"],
)
def test_the_first_use_does_not_hold_the_loop(tmp_path, verb):
    """
    The first call of a verb opens the store in another thread, so a slow server does not block the loop.
    """
    store = OpenedStore(tmp_path / "jobs.db")

    async def main():
        scheduler = AsyncScheduler(store)
        await verb(scheduler)
        await scheduler.stop()

    asyncio.run(main())
    assert len(store.opened_on) == 1
    assert threading.get_ident() not in store.opened_on


def test_the_first_use_on_a_connection_does_not_hold_the_loop(tmp_path):
    """
    The first call with `conn=` opens the store in another thread, too, so it does not block the loop.
    """
    store = OpenedStore(tmp_path / "jobs.db")

    async def main():
        scheduler = AsyncScheduler(store)
        connection = sqlite3.connect(tmp_path / "jobs.db")
        connection.execute("BEGIN")
        await scheduler.set("k", delay=HOUR, handler="h", conn=connection)
        connection.commit()
        connection.close()
        await scheduler.stop()

    asyncio.run(main())
    assert threading.get_ident() not in store.opened_on


@pytest.mark.parametrize("begin", [AsyncScheduler.start, AsyncScheduler.__aenter__])
def test_a_start_that_is_cancelled(tmp_path, begin):
    """
    A cancelled start is undone: no thread is left running, and the file has no owner.
    """
    store = OpenedStore(tmp_path / "jobs.db")

    async def main():
        scheduler = AsyncScheduler(store)
        store.may_open.clear()
        starting = asyncio.create_task(begin(scheduler))
        await asyncio.to_thread(store.is_entered.wait, PATIENCE_S)
        starting.cancel()
        store.may_open.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not scheduler.is_started
        with pytest.raises(ClosedError):
            await scheduler.get("k")
        async with AsyncScheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as after:
            assert after.is_started

    asyncio.run(main())


def test_a_start_that_is_repeated_and_cancelled(url):
    """
    If a running scheduler is started again, and the second start is cancelled, the scheduler continues to run.
    """

    async def main():
        async with AsyncScheduler(url) as scheduler:
            again = asyncio.create_task(scheduler.start())
            await asyncio.sleep(0)
            is_asked = again.cancel()  # False if its thread was faster
            with pytest.raises(asyncio.CancelledError) if is_asked else nullcontext():
                await again
            assert scheduler.is_started

    asyncio.run(main())
