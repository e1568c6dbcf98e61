"""
Loads of one key that several threads and tasks share.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel.cache import TTLCache, _flights
from tickwheel.errors import ReentrantError


@pytest.fixture
def cache():
    return TTLCache(10, 60.0)


def in_thread(function, *args):
    """
    Start a thread that runs a function. Return the thread and a list that gets the outcome.
    """
    outcome = []

    def run():
        try:
            outcome.append(function(*args))
        except BaseException as error:  # noqa: BLE001 - that is the outcome
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


@pytest.fixture
def joined(cache):
    """
    Return an event that is set when a second caller waits for a load.
    """
    flights = cache._loads._flights
    join, event = flights._join, threading.Event()

    def join_and_tell(loads, *waiter):
        join(loads, *waiter)
        if any(len(load.flight.waiters) > (load.flight.loop is not None) for load in loads.values()):
            event.set()

    flights._join = join_and_tell
    return event


def test_a_task_waits_for_the_load_of_a_thread(cache):
    """
    While a thread loads a key, a task that takes this key waits for the thread's result, without blocking the loop.
    """
    begun, go_on = threading.Event(), threading.Event()

    def load(_key):
        begun.set()
        go_on.wait(30.0)
        return "thread's"

    async def main():
        task = asyncio.ensure_future(cache.take_async("key", None))
        await asyncio.sleep(0)
        go_on.set()
        return await task

    thread, outcome = in_thread(cache.take, "key", load)
    begun.wait(30.0)
    assert asyncio.run(main()) == "thread's"
    thread.join(30.0)
    assert outcome == ["thread's"]


def test_a_thread_waits_for_the_load_of_a_task(cache, joined):
    """
    While a task on another thread's loop loads a key, a `take` in this thread waits for the task's result or error.
    """

    async def main(outcome_of):
        go_on = asyncio.Event()

        async def load(_key):
            await go_on.wait()
            return outcome_of()

        task = asyncio.ensure_future(cache.take_async("key", load))
        await asyncio.sleep(0)
        thread, outcome = in_thread(cache.take, "key", None)
        await asyncio.get_running_loop().run_in_executor(None, joined.wait, 30.0)
        go_on.set()
        await asyncio.wait({task})
        await asyncio.get_running_loop().run_in_executor(None, thread.join, 30.0)
        return task, outcome

    task, outcome = asyncio.run(main(lambda: "task's"))
    assert (task.result(), outcome) == ("task's", ["task's"])
    cache.clear()
    joined.clear()
    task, outcome = asyncio.run(main(lambda: 1 / 0))
    assert repr(outcome) == repr([task.exception()]) == "[ZeroDivisionError('division by zero')]"


def test_tasks_of_two_loops_share(cache):
    """
    If a task takes a key that a task on another loop is loading, it waits for that load.
    """
    begun, ends = threading.Event(), []

    async def load(_key):
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        begun.set()
        await end.wait()
        return "first loop's"

    async def main():
        task = asyncio.ensure_future(cache.take_async("key", None))
        await asyncio.sleep(0)
        loop, end = ends[0]
        loop.call_soon_threadsafe(end.set)
        return await task

    thread, outcome = in_thread(lambda: asyncio.run(cache.take_async("key", load)))
    begun.wait(30.0)
    assert asyncio.run(main()) == "first loop's"
    thread.join(30.0)
    assert outcome == ["first loop's"]


@pytest.mark.parametrize("who", ["thread", "task", "cancelled task"])
def test_when_the_loading_loop_ends_another_one_loads(cache, joined, who):
    """
    If an event loop ends, its loads are cancelled, and a waiting thread or other loop loads the value itself.
    """
    begun = threading.Event()

    async def never(_key):
        begun.set()
        await asyncio.Event().wait()

    async def main():
        task = asyncio.ensure_future(cache.take_async("key", never))
        await asyncio.get_running_loop().run_in_executor(None, joined.wait, 30.0)
        del task

    async def own(_key):
        return "own"

    async def cleaning_up():
        asyncio.current_task().cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return await cache.take_async("key", own)

    ending, _ = in_thread(lambda: asyncio.run(main()))
    begun.wait(30.0)
    if who == "thread":
        waiting, outcome = in_thread(cache.take, "key", lambda _: "own")
    else:
        take = cleaning_up if who == "cancelled task" else lambda: cache.take_async("key", own)
        waiting, outcome = in_thread(lambda: asyncio.run(take()))
    ending.join(30.0)
    waiting.join(30.0)
    assert (outcome, cache["key"]) == (["own"], "own")


def test_a_thread_does_not_wait_for_a_task_of_its_own_loop(cache):
    """
    If a coroutine calls the blocking `take` for a key that a task of its loop is loading, `take` loads the key itself.
    """

    async def main():
        go_on = asyncio.Event()

        async def load(_key):
            await go_on.wait()
            return "late"

        task = asyncio.ensure_future(cache.take_async("key", load))
        await asyncio.sleep(0)
        assert cache.take("key", lambda _: "at once") == "at once"
        go_on.set()
        return await task

    assert asyncio.run(main()) == "at once"
    assert (cache["key"], cache.stats().loads.overtaken) == ("at once", 1)


def test_a_task_does_not_wait_for_the_thread_that_runs_it(cache):
    """
    If a loader runs a loop in which a task takes the loader's own key, the task gets an error.
    """
    with pytest.raises(ReentrantError, match=r"take_async\('key'\)"):
        cache.take("key", lambda key: asyncio.run(cache.take_async(key, None)))


def test_a_waiting_thread_keeps_the_task_at_work(cache, joined):
    """
    While a thread waits for the load of a task, the load continues, even if no other task waits for it.
    """

    async def main():
        go_on = asyncio.Event()

        async def load(_key):
            await go_on.wait()
            return "value"

        task = asyncio.ensure_future(cache.take_async("key", load))
        await asyncio.sleep(0)
        thread, outcome = in_thread(cache.take, "key", None)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, joined.wait, 30.0)
        task.cancel()
        await asyncio.wait({task})
        go_on.set()
        await loop.run_in_executor(None, thread.join, 30.0)
        return outcome

    assert asyncio.run(main()) == ["value"]


@pytest.mark.parametrize("who", ["thread", "task"])
def test_waiting_threads_load_after_the_loop_was_stopped(cache, joined, monkeypatch, who):
    """
    If a loop is closed without cancelling its tasks, a thread that waits for a task loads the value itself.
    """
    monkeypatch.setattr(_flights, "_LOOK_AGAIN_S", 0.001)
    begun, tasks = threading.Event(), []

    async def never(_key):
        begun.set()
        await asyncio.Event().wait()

    async def own(_key):
        return "own"

    def run():
        loop = asyncio.new_event_loop()
        tasks.append(loop.create_task(cache.take_async("key", never)))
        loop.run_in_executor(None, joined.wait, 30.0).add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        tasks.extend(asyncio.all_tasks(loop))
        loop.close()

    stopping, _ = in_thread(run)
    begun.wait(30.0)
    take = (
        (lambda: cache.take("key", lambda _: "own"))
        if who == "thread"
        else (lambda: asyncio.run(cache.take_async("key", own)))
    )
    waiting, outcome = in_thread(take)
    waiting.join(10.0)
    stopping.join(30.0)
    assert outcome == ["own"]
    for task in tasks:
        task._log_destroy_pending = False


def test_a_wait_that_ends_after_its_loop(cache):
    """
    If a loop is closed while one of its tasks waits for a load of a key, the key can still be loaded afterwards.
    """

    async def never(_key):
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    taking = cache.take_async("key", never)
    task = loop.create_task(taking)
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    loop.close()
    taking.close()
    assert cache.take("key", lambda _: "own") == "own"
    for each in tasks | {task}:
        each._log_destroy_pending = False
