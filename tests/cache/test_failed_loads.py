"""
A failed load leaves no objects that only the garbage collector could free.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from contextlib import suppress

import pytest

from tickwheel.cache import Refresh, TTLCache
from tickwheel.testing import ManualClock


class Thing:
    """
    An object in a local variable of a failing loader.
    """


@pytest.fixture
def things():
    """
    Return a list for weak references to the objects that a loader makes.

    The garbage collector is off, so that objects in a reference cycle are not freed.
    """
    gc.disable()
    yield []
    gc.enable()


@pytest.fixture
def fail(things):
    def load(_keys):
        thing = Thing()
        things.append(weakref.ref(thing))
        raise OSError("down")

    return load


@pytest.fixture
def fail_async(fail):
    """
    Return an async loader that fails only once other callers wait for it.
    """

    async def load(keys):
        await asyncio.sleep(0)
        fail(keys)

    return load


def dead(things):
    return [thing() is None for thing in things]


def test_a_load_in_a_thread(things, fail):
    """
    Once the caller has handled the error of a failed loader, the loader's objects are freed.
    """
    cache = TTLCache(10, 60.0)
    for key in "ab":
        with suppress(OSError):
            cache.take(key, fail)
        with suppress(OSError):
            cache.take_many([key, "c"], fail)
    assert dead(things) == [True] * 4


@pytest.mark.parametrize("is_eager", [False, True], ids=["usual", "eager"])
def test_a_load_in_a_task(things, fail, fail_async, is_eager):
    """
    The objects of an async loader that fails at once or later are freed, even if several tasks wait for it.
    """
    if is_eager and not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("eager tasks came with Python 3.12")
    cache = TTLCache(10, 60.0)

    async def fail_at_once(keys):
        fail(keys)

    async def wait(key):
        for load in (fail_at_once, fail_async):
            with suppress(OSError):
                await cache.take_async(key, load)
            with suppress(OSError):
                await cache.take_many_async([key, "c"], load)

    async def main():
        if is_eager:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.gather(wait("a"), wait("a"), wait("b"))
        await asyncio.sleep(0)
        assert len(things) >= 6
        assert dead(things) == [True] * len(things)

    asyncio.run(main())


def test_threads_that_wait_for_a_load(things, fail):
    """
    The objects of a failed loader are freed, even if other threads have waited for it.
    """
    cache, begun, waiting = TTLCache(10, 60.0), threading.Event(), threading.Semaphore(0)
    flights = cache._loads._flights
    join = flights._join

    def join_and_tell(loads, *waiter):
        join(loads, *waiter)
        if loads:
            waiting.release()

    flights._join = join_and_tell

    def load(key):
        begun.set()
        for _ in range(3):
            waiting.acquire(timeout=30.0)
        fail(key)

    def take(loader):
        with suppress(OSError):
            cache.take("key", loader)

    threads = [threading.Thread(target=take, args=(loader,)) for loader in (load, None, None, None)]
    for thread in threads:
        thread.start()
        begun.wait(30.0)
    for thread in threads:
        thread.join(30.0)
    assert dead(things) == [True]


def test_a_load_whose_size_cannot_be_measured(things):
    """
    If getsizeof raises for a loaded value, the objects of the load are freed.
    """

    def getsizeof(_value):
        thing = Thing()
        things.append(weakref.ref(thing))
        raise OSError("down")

    async def load(key):
        return key

    cache = TTLCache(10, 60.0, getsizeof=getsizeof)
    with suppress(OSError):
        cache.take("a", str)

    async def main():
        with suppress(OSError):
            await cache.take_async("a", load)

    asyncio.run(main())
    assert dead(things) == [True] * 2


def test_a_load_in_the_background(things, fail_async, caplog):
    """
    After the error of a failed background load was logged, the objects of this load are freed.
    """
    clock = ManualClock()
    cache = TTLCache(10, 60.0, timer=clock.monotonic, refresh=Refresh(ahead=30.0))
    cache["a"] = 1
    clock.advance(40.0)

    async def main():
        assert await cache.take_async("a", fail_async) == 1
        for _ in range(5):
            await asyncio.sleep(0)

    with caplog.at_level(logging.CRITICAL, "tickwheel"):
        asyncio.run(main())
    assert dead(things) == [True]
