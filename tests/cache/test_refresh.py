"""
Values that are reloaded before their lifetime ends, or returned after it has ended.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from datetime import timedelta

import pytest

from tickwheel.cache import Reason, Refresh, TLRUCache, TTLCache, cached
from tickwheel.testing import ManualClock


class Source:
    """
    A source of values that counts its loads, and can be made to fail or wait.
    """

    def __init__(self):
        self.calls = 0
        self.error = None
        self.ended = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, key):
        self.calls += 1
        number = self.calls
        self.gate.wait(30.0)
        if self.error is not None:
            raise self.error
        return f"{key} {number}"

    async def load_async(self, key):
        await asyncio.sleep(0)
        return self(key)

    def load_all(self, keys):
        return {key: self(key) for key in keys}


def wait_for_refresh(cache):
    cache._loads._pool.close()
    assert cache._loads._pool.join(30.0)
    cache._loads._pool = None


def turns():
    """
    Return a function that lets every task run until it waits.
    """
    return asyncio.sleep(0.0)


def make(clock, **rules):
    """
    Return a cache with the refresh rules *rules*, whose entries live for ten seconds.
    """
    return TTLCache(100, 10.0, timer=clock.monotonic, refresh=Refresh(**rules))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def source():
    return Source()


def test_refresh_ahead(clock, source):
    """
    A value that is taken in the last seconds of its lifetime is returned at once, and one background load starts.
    """
    cache = make(clock, ahead=3.0)
    assert cache.take("a", source) == "a 1"
    clock.advance(6.9)
    assert (cache.take("a", source), source.calls) == ("a 1", 1)
    clock.advance(0.2)
    source.gate.clear()
    assert [cache.take("a", source) for _ in range(3)] == ["a 1"] * 3
    source.gate.set()
    wait_for_refresh(cache)
    assert (cache["a"], cache.remaining("a"), source.calls) == ("a 2", 10.0, 2)
    stats = cache.stats()
    assert (stats.loads.refreshes, stats.loads.stale, stats.loads.loaded, stats.hits) == (1, 0, 2, 5)


def test_without_refresh_rules_nothing_is_refreshed(clock, source):
    """
    Without refresh rules, a caller that finds an expired value loads the key itself.
    """
    cache = make(clock, ahead=3.0)
    cache.take("a", source)
    clock.advance(10.0)
    assert (cache.take("a", source), cache.stats().loads.refreshes) == ("a 2", 0)


def test_stale_while_revalidate(clock, source):
    """
    For some seconds after a value has expired, a take still returns it while a background load runs.
    """
    cache = make(clock, stale_while_revalidate=5.0)
    cache.take("a", source)
    clock.advance(10.0)
    assert cache.take("a", source) == "a 1"
    wait_for_refresh(cache)
    assert cache.take("a", source) == "a 2"
    clock.advance(15.0)
    assert cache.take("a", source) == "a 3"
    stats = cache.stats()
    assert (stats.loads.stale, stats.loads.refreshes, source.calls) == (1, 1, 3)


def test_stale_if_error(clock, source):
    """
    For some seconds after a value has expired, a take still returns it if loading fails.
    """
    cache = make(clock, stale_if_error=60.0, retry_after=0.0)
    cache.take("a", source)
    source.error = OSError("down")
    clock.advance(69.9)
    assert cache.take("a", source) == "a 1"
    assert asyncio.run(cache.take_async("a", source.load_async)) == "a 1"
    assert cache.take_many(["a"], source.load_all) == {"a": "a 1"}
    clock.advance(0.1)
    with pytest.raises(OSError, match="down"):
        cache.take("a", source)
    stats = cache.stats()
    assert (stats.loads.stale, stats.loads.failed) == (3, 4)


def test_a_failed_refresh_is_counted_and_logged(clock, source, caplog):
    """
    An error in a background load is logged, and the old value stays until its lifetime ends.
    """
    cache = make(clock, ahead=3.0, stale_while_revalidate=5.0)
    cache.take("a", source)
    clock.advance(8.0)
    source.error = OSError("down")
    with caplog.at_level(logging.ERROR, "tickwheel"):
        assert cache.take("a", source) == "a 1"
        wait_for_refresh(cache)
    assert (cache["a"], cache.stats().loads.failed) == ("a 1", 1)
    assert caplog.records[0].exc_info[1] is source.error
    clock.advance(6.0)
    source.error = None
    assert cache.take("a", source) == "a 1"
    wait_for_refresh(cache)
    assert cache.take("a", source) == "a 3"


def test_only_take_returns_stale_values(clock):
    """
    After the lifetime of a value, only `take` still returns it, for the extra time of the refresh rules.
    """
    left = []
    rules = Refresh(stale_if_error=5.0)
    cache = TTLCache(
        3, 10.0, timer=clock.monotonic, refresh=rules, on_expire=lambda *entry: left.append((*entry, clock.monotonic()))
    )
    begun = clock.monotonic()
    cache.update(a=1, b=2)
    clock.advance(10.0)
    cache["c"] = 3
    assert ("a" in cache, cache.get("a"), cache.peek("a"), cache.remaining("a"), cache.touch("a")) == (
        False,
        None,
        None,
        None,
        False,
    )
    assert (list(cache), len(cache), cache.currsize, left, cache.get_many("abc")) == (["c"], 1, 3, [], {"c": 3})
    cache.check()
    assert (cache.popitem(), len(cache)) == (("c", 3), 0)
    with pytest.raises(KeyError):
        cache.popitem()
    assert [(key, reason) for key, _, reason, _ in left] == [("a", Reason.EXPIRED), ("b", Reason.EXPIRED)]
    left.clear()
    cache["d"] = 4
    clock.advance(14.9)
    assert (len(cache), left) == (0, [])
    clock.advance(0.1)
    assert (len(cache), left) == (0, [("d", 4, Reason.EXPIRED, pytest.approx(begun + 25.0))])


def test_removed_values_are_not_returned(clock, source):
    """
    A value that was removed or replaced is never returned again, under any refresh rules.
    """
    cache = make(clock, stale_while_revalidate=50.0, stale_if_error=50.0)
    cache.take("a", source)
    clock.advance(11.0)
    cache.pop("a", None)
    source.error = OSError("down")
    with pytest.raises(OSError, match="down"):
        cache.take("a", source)
    cache["b"] = 1
    clock.advance(11.0)
    cache.clear()
    with pytest.raises(OSError, match="down"):
        cache.take("b", source)


def test_a_write_during_a_refresh_stays(clock, source):
    """
    If a key is written during a background load of that key, the load stores nothing.
    """
    cache = make(clock, ahead=5.0)
    cache.take("a", source)
    clock.advance(6.0)
    source.gate.clear()
    cache.take("a", source)
    cache["a"] = "new"
    source.gate.set()
    wait_for_refresh(cache)
    assert (cache["a"], cache.stats().loads.overtaken) == ("new", 1)


def test_background_loads_are_bounded(clock, source):
    """
    At the limit of background loads, a take returns the present value, but starts no further load.
    """
    cache = make(clock, ahead=5.0, loads_max=2)
    for key in "abcd":
        cache.take(key, source)
    clock.advance(6.0)
    source.gate.clear()
    before = threading.active_count()
    assert [cache.take(key, source) for key in "abcd"] == ["a 1", "b 2", "c 3", "d 4"]
    assert threading.active_count() <= before + 2
    source.gate.set()
    wait_for_refresh(cache)
    stats = cache.stats()
    assert (stats.loads.refreshes, stats.loads.refused) == (2, 2)
    assert [cache.take(key, source) for key in "cd"] == ["c 3", "d 4"]
    wait_for_refresh(cache)
    assert cache.stats().loads.refreshes == 4


def test_refreshing_in_tasks(clock, source):
    """
    `take_async` refreshes a value in a task on the caller's loop, and the limit of background loads applies.
    """
    cache = make(clock, ahead=5.0, stale_while_revalidate=5.0, loads_max=1)

    async def main():
        assert [await cache.take_async(key, source.load_async) for key in "ab"] == ["a 1", "b 2"]
        clock.advance(6.0)
        assert [await cache.take_async(key, source.load_async) for key in "ab"] == ["a 1", "b 2"]
        for _ in range(5):
            await turns()
        assert (cache["a"], cache["b"]) == ("a 3", "b 2")
        clock.advance(6.0)
        assert await cache.take_async("b", source.load_async) == "b 2"
        for _ in range(5):
            await turns()
        assert await cache.take_async("b", source.load_async) == "b 4"

    asyncio.run(main())
    stats = cache.stats()
    assert (stats.loads.refreshes, stats.loads.refused, stats.loads.stale) == (2, 1, 1)


def test_a_failed_refresh_in_a_task_is_logged(clock, source, caplog):
    """
    If a background task fails, its error is logged.
    """
    cache = make(clock, ahead=5.0)

    async def main():
        await cache.take_async("a", source.load_async)
        clock.advance(6.0)
        source.error = OSError("down")
        assert await cache.take_async("a", source.load_async) == "a 1"
        for _ in range(5):
            await turns()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert [record.name for record in caplog.records] == ["tickwheel"]


def test_many_are_refreshed_by_one_call(clock):
    """
    take_many loads missing keys, and reloads keys near the end of their lifetime in the background.
    """
    cache = make(clock, ahead=3.0, stale_if_error=10.0)
    calls = []

    def load(keys):
        calls.append(list(keys))
        return dict.fromkeys(keys, len(calls))

    assert cache.take_many("ab", load) == {"a": 1, "b": 1}
    clock.advance(8.0)
    assert cache.take_many("abc", load) == {"a": 1, "b": 1, "c": calls.index(["c"]) + 1}
    wait_for_refresh(cache)
    assert sorted(calls) == [["a", "b"], ["a", "b"], ["c"]]

    def fail(_keys):
        raise OSError("down")

    clock.advance(12.0)
    assert set(cache.take_many("abc", fail)) == {"a", "b", "c"}
    with pytest.raises(OSError, match="down"):
        cache.take_many("abcd", fail)


def test_cached_functions_refresh(clock):
    """
    A function with the decorator `cached` follows the refresh rules of its cache.
    """
    calls = []

    @cached(make(clock, stale_while_revalidate=5.0))
    def load(n):
        calls.append(n)
        return len(calls)

    assert load(5) == 1
    clock.advance(12.0)
    assert load(5) == 1
    wait_for_refresh(load.cache)
    assert load(5) == 2


def test_refreshing_other_caches(clock, source):
    """
    A TLRUCache accepts the same refresh rules as a TTLCache.
    """
    cache = TLRUCache(
        10, lambda _key, _value, now: now + 10.0, timer=clock.monotonic, refresh=Refresh(stale_if_error=5)
    )
    cache.take("a", source)
    clock.advance(12.0)
    source.error = OSError("down")
    assert cache.take("a", source) == "a 1"
    source.error = None
    sliding = TTLCache(10, 10.0, timer=clock.monotonic, sliding=True, refresh=Refresh(ahead=timedelta(seconds=2)))
    sliding.take("a", source)
    for _ in range(3):
        clock.advance(9.0)
        assert sliding.take("a", source) == "a 3"
    sliding.set("b", "own", ttl=1.5)
    assert sliding.take("b", source) == "own"


def test_a_refresh_that_is_cancelled_before_it_begins(clock, source):
    """
    If the task of a background load is cancelled before its first step, the next take starts another background load.
    """
    cache = make(clock, ahead=5.0)

    async def main():
        await cache.take_async("a", source.load_async)
        clock.advance(6.0)
        for _ in range(2):
            assert await cache.take_async("a", source.load_async) == "a 1"
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            for _ in range(3):
                await turns()

    asyncio.run(main())
    assert (source.calls, cache.stats().loads.refreshes) == (1, 2)


def test_a_refresh_that_no_thread_can_run(clock, source, monkeypatch, caplog):
    """
    If no thread can be started for a background load, the value is still returned, and a later take loads the key.
    """
    cache = make(clock, ahead=5.0, stale_while_revalidate=5.0, loads_max=1)
    cache.take("a", source)
    clock.advance(6.0)

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL, "tickwheel"):
        patched.setattr(threading.Thread, "start", refuse)
        assert [cache.take("a", source) for _ in range(2)] == ["a 1"] * 2
    assert (cache.stats().loads.refreshes, cache.stats().loads.refused) == (0, 2)
    assert cache.take("a", source) == "a 1"
    wait_for_refresh(cache)
    assert cache.take("a", source) == "a 2"
    clock.advance(20.0)
    assert cache.take("a", source) == "a 3"


def test_a_load_that_no_task_can_run(clock, source, caplog):
    """
    If the loop refuses a task for a background load, `take_async` returns the existing value, or else raises.
    """
    cache = make(clock, ahead=5.0)
    cache["a"] = "a 0"
    clock.advance(6.0)

    def refuse(_loop, _coroutine, **_):
        raise RuntimeError("no tasks")

    async def main():
        asyncio.get_running_loop().set_task_factory(refuse)
        assert await cache.take_async("a", source.load_async) == "a 0"
        with pytest.raises(RuntimeError, match="no tasks"):
            await cache.take_async("b", source.load_async)
        asyncio.get_running_loop().set_task_factory(None)

    with caplog.at_level(logging.CRITICAL, "tickwheel"):
        asyncio.run(main())
    assert (cache.take("b", source), cache.stats().loads.refused) == ("b 1", 1)


def test_background_loads_of_a_closed_loop_do_not_count(clock, source):
    """
    Background loads of a closed loop no longer count towards the limit, so that other loads can start.
    """
    cache = make(clock, ahead=5.0, stale_while_revalidate=50.0, loads_max=1)

    async def never(_key):
        await asyncio.Event().wait()

    cache["a"] = "a 0"
    clock.advance(6.0)
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(cache.take_async("a", never)) == "a 0"
    tasks = asyncio.all_tasks(loop)
    loop.close()
    assert cache.take("a", source) == "a 0"
    wait_for_refresh(cache)
    assert (cache["a"], cache.stats().loads.refreshes, cache.stats().loads.refused) == ("a 1", 2, 0)
    for task in tasks:
        task._log_destroy_pending = False


def test_many_threads_keep_the_bound(clock, source):
    """
    Threads that refresh at the same moment start at most as many loads as the limit allows.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            cache, source.calls = make(clock, ahead=5.0, loads_max=1), 0
            cache.set_many(dict.fromkeys(range(16), 0))
            clock.advance(6.0)
            source.gate.clear()
            barrier = threading.Barrier(16)

            def take(key, cache=cache, barrier=barrier):
                barrier.wait(30.0)
                cache.take(key, source)

            threads = [threading.Thread(target=take, args=(key,)) for key in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30.0)
            source.gate.set()
            wait_for_refresh(cache)
            assert (source.calls, cache.stats().loads.refused) == (1, 15)
    finally:
        sys.setswitchinterval(interval)
