"""
If many callers take a missing key, one of them loads it.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import CancelledError as FutureCancelledError

import pytest

from tickwheel.cache import TTLCache
from tickwheel.errors import ReentrantError


class Crowd:
    """
    Threads that take one key at the same time, and their results.
    """

    def __init__(self, cache, loader, size=8):
        self.cache = cache
        self.outcomes = []
        self.threads = [threading.Thread(target=self._take, args=(loader,)) for _ in range(size)]

    def _take(self, loader):
        try:
            self.outcomes.append(self.cache.take("key", loader))
        except BaseException as error:  # noqa: BLE001 - that is what it got
            self.outcomes.append(error)

    def start(self):
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join(30.0)
        return self.outcomes


def test_one_of_many_threads_loads():
    """
    The loader is called once with the key. All threads get the loaded value, and it is stored.
    """
    cache = TTLCache(10, 60.0)
    calls, go_on = [], threading.Event()

    def loader(key):
        calls.append(key)
        go_on.wait(30.0)
        return "value"

    crowd = Crowd(cache, loader)
    crowd.start()
    go_on.set()
    assert crowd.join() == ["value"] * 8
    assert (calls, cache["key"], cache.take("key", None)) == (["key"], "value", "value")


def test_an_error_is_raised_in_all_threads():
    """
    If the loader fails, its error is raised in every waiting thread, and the next take loads again.
    """
    cache = TTLCache(10, 60.0)
    begun, go_on = threading.Event(), threading.Event()

    def loader(_key):
        begun.set()
        go_on.wait(30.0)
        raise OSError("down")

    crowd = Crowd(cache, loader)
    crowd.start()
    begun.wait(30.0)
    go_on.set()
    outcomes = crowd.join()
    assert [str(error) for error in outcomes] == ["down"] * 8
    assert "key" not in cache
    assert cache.take("key", lambda _: "up") == "up"


def test_an_interrupt_stays_with_its_thread():
    """
    If a loader raises an exception such as KeyboardInterrupt, only the take that called the loader raises it.
    """
    cache = TTLCache(10, 60.0)
    begun, go_on = threading.Event(), threading.Event()
    first = []

    def loader(_key):
        if not first:
            first.append(threading.current_thread())
            begun.set()
            go_on.wait(30.0)
            raise SystemExit
        return "value"

    crowd = Crowd(cache, loader, size=4)
    crowd.start()
    begun.wait(30.0)
    go_on.set()
    outcomes = crowd.join()
    assert sorted(map(str, outcomes)) == ["", "value", "value", "value"]


def test_keys_do_not_wait_for_one_another():
    """
    A loader may take other keys. If it takes its own key, it gets an error.
    """
    cache = TTLCache(10, 60.0)
    assert cache.take("a", lambda _: cache.take("b", lambda _: 2) + 1) == 3
    with pytest.raises(ReentrantError, match=r"take\('c'\) was called from inside itself"):
        cache.take("c", lambda key: cache.take(key, str))
    assert dict(cache.items()) == {"b": 2, "a": 3}


def test_a_loaded_value_that_does_not_fit():
    """
    A loaded value that is too large for the cache is returned to all callers, but not stored.
    """
    cache = TTLCache(3, 60.0, getsizeof=len)
    assert cache.take("a", lambda _: "long") == "long"
    assert (len(cache), cache.stats().loads.uncached) == (0, 1)

    async def load(_key):
        return "longer"

    assert asyncio.run(cache.take_async("a", load)) == "longer"
    assert (len(cache), cache.stats().loads.uncached) == (0, 2)
    assert TTLCache(0, 60.0).take("a", str) == "a"


def test_none_is_a_value():
    """
    If a loader returned None, None is stored as the value, and the loader is not called again.
    """
    cache = TTLCache(10, 60.0)
    assert (cache.take("a", lambda _: None), cache.take("a", lambda _: 1)) == (None, None)


class Loads:
    """
    An async loader that waits until the test lets it continue.
    """

    def __init__(self):
        self.calls = []
        self.go_on = asyncio.Event()
        self.error = None
        self.was_cancelled = False

    async def __call__(self, key):
        self.calls.append(key)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return "value"


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


async def crowd_of(cache, loads, size=5):
    tasks = [asyncio.ensure_future(cache.take_async("key", loads)) for _ in range(size)]
    await turns()
    assert loads.calls == ["key"]
    return tasks


def test_one_of_many_tasks_loads():
    """
    The async loader runs once, all waiting tasks get its value, and later tasks find it.
    """

    async def main():
        cache, loads = TTLCache(10, 60.0), Loads()
        tasks = await crowd_of(cache, loads)
        loads.go_on.set()
        assert await asyncio.gather(*tasks) == ["value"] * 5
        assert (await cache.take_async("key", loads), loads.calls, cache["key"]) == ("value", ["key"], "value")

    asyncio.run(main())


def test_an_error_goes_to_all_tasks():
    """
    The loader's error is raised in every task, as a separate object, and the next take loads the key again.
    """

    async def main():
        cache, loads = TTLCache(10, 60.0), Loads()
        tasks = await crowd_of(cache, loads)
        loads.error = OSError("down")
        loads.go_on.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [repr(outcome) for outcome in outcomes] == ["OSError('down')"] * 5
        assert len(set(map(id, outcomes))) == 5
        assert "key" not in cache
        loads.error = None
        assert await cache.take_async("key", loads) == "value"

    asyncio.run(main())


def test_a_loader_that_is_cancelled_from_inside():
    """
    If a loader ends with CancelledError, every waiting task is cancelled, and nothing is stored.
    """

    async def main():
        cache, loads = TTLCache(10, 60.0), Loads()
        tasks = await crowd_of(cache, loads)
        loads.error = asyncio.CancelledError()
        loads.go_on.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        assert "key" not in cache

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_leaves_the_load_to_others():
    """
    If a waiting task is cancelled, the load continues for the other tasks.
    """

    async def main():
        cache, loads = TTLCache(10, 60.0), Loads()
        first, *others = await crowd_of(cache, loads)
        first.cancel()
        await turns()
        assert first.cancelled()
        loads.go_on.set()
        assert await asyncio.gather(*others) == ["value"] * 4
        assert not loads.was_cancelled

    asyncio.run(main())


def test_a_load_is_cancelled_with_its_last_waiter():
    """
    Once all waiting tasks were cancelled, the load is cancelled and stores nothing.
    """

    async def main():
        cache, loads = TTLCache(10, 60.0), Loads()
        for task in await crowd_of(cache, loads):
            task.cancel()
        late = asyncio.ensure_future(cache.take_async("key", loads))
        await turns()
        assert loads.was_cancelled
        loads.go_on.set()
        assert await late == "value"
        assert loads.calls in (["key"], ["key", "key"])

    asyncio.run(main())


def test_a_load_that_waits_for_itself():
    """
    An async loader that takes its own key gets an error.
    """

    async def main():
        cache = TTLCache(10, 60.0)
        with pytest.raises(ReentrantError, match=r"take_async\('a'\)"):
            await cache.take_async("a", lambda key: cache.take_async(key, None))

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="eager tasks came with Python 3.12")
def test_an_eager_load_that_waits_for_itself():
    """
    With eager tasks, an async loader that takes its own key gets an error, before or after its first await.
    """

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        cache = TTLCache(10, 60.0)

        async def late(key):
            await asyncio.sleep(0)
            return await cache.take_async(key, None)

        for load in (lambda key: cache.take_async(key, None), late):
            with pytest.raises(ReentrantError, match=r"take_async\('a'\)"):
                await asyncio.wait_for(cache.take_async("a", load), 30.0)

    asyncio.run(main())


class Abort(BaseException):
    """
    An exception that does not derive from Exception.
    """


@pytest.mark.parametrize("make", [lambda: Abort("no more"), lambda: FutureCancelledError("the pool is closed")])
def test_every_task_gets_the_error_unchanged(make, caplog):
    """
    Every waiting task gets the loader's error, of any kind, and no task is cancelled.
    """
    error = make()

    async def fail(_keys):
        await asyncio.sleep(0)
        raise error

    async def main():
        cache = TTLCache(10, 60.0)
        takes = [cache.take_async("a", fail), cache.take_async("a", fail), cache.take_many_async("ab", fail)]
        tasks = [asyncio.ensure_future(take) for take in takes]
        await asyncio.wait(tasks)
        assert [repr(task.exception()) for task in tasks] == [repr(error)] * 3
        assert not cache._loads._flights._loads

    asyncio.run(main())
    gc.collect()
    assert not caplog.records


def test_a_loader_that_raises_stop_iteration():
    """
    If a loader raises StopIteration, all waiting threads raise it. A task gets it as the cause of a RuntimeError.
    """
    cache, begun, go_on = TTLCache(10, 60.0), threading.Event(), threading.Event()

    def fail(_key):
        begun.set()
        go_on.wait(30.0)
        return next(iter(()))

    async def wait():
        task = asyncio.ensure_future(cache.take_async("key", None))
        await turns()
        go_on.set()
        with pytest.raises(RuntimeError, match="StopIteration") as caught:
            await asyncio.wait_for(task, 30.0)
        assert isinstance(caught.value.__cause__, StopIteration)

    crowd = Crowd(cache, fail, size=2)
    crowd.start()
    begun.wait(30.0)
    asyncio.run(wait())
    assert [type(outcome) for outcome in crowd.join()] == [StopIteration] * 2


@pytest.mark.parametrize("is_all", [False, True], ids=["the load", "all"])
def test_a_load_that_is_cancelled_before_it_begins(is_all):
    """
    If the load's task is cancelled before its first step, its waiters are cancelled, and the next take loads again.
    """

    async def main():
        cache, loads = TTLCache(10, 60.0), Loads()
        waiting = asyncio.ensure_future(cache.take_async("key", loads))
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(others) == 2
        for task in others if is_all else others - {waiting}:
            task.cancel()
        await asyncio.wait(others, timeout=30.0)
        assert (waiting.cancelled(), loads.calls) == (True, [])
        loads.go_on.set()
        assert await cache.take_async("key", loads) == "value"

    asyncio.run(main())
