"""
A cache with a wheel, which expires its entries even if no method of the cache is called.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref

import pytest

from tickwheel import InlineExecutor, TimerWheel
from tickwheel.cache import Refresh, TTLCache
from tickwheel.cache._alarm import Alarm
from tickwheel.errors import ExecutorFullError, TooManyTimersError
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel


@pytest.fixture
def clock():
    return ManualClock()


def expirations(cache):
    """
    Return how many expired entries the cache has removed so far. The call itself removes no entry.
    """
    return cache.stats().expirations


def test_entries_expire_at_their_deadlines(clock):
    """
    Each entry is removed and reported at its own deadline, in order.
    """
    told = []
    cache = TTLCache(100, 10.0, clock=clock, on_expire=lambda key, *_: told.append((key, clock.monotonic())))
    start = clock.monotonic()
    for key, ttl in [("c", 30.0), ("a", 10.0), ("b", 20.0)]:
        cache.set(key, None, ttl=ttl)
    clock.advance(100.0)
    assert [(key, pytest.approx(when - start)) for key, when in told] == [("a", 10.0), ("b", 20.0), ("c", 30.0)]
    assert [key for key, _ in told] == ["a", "b", "c"]


def test_an_earlier_deadline_moves_the_alarm(clock):
    """
    A new entry with the earliest deadline expires on time. So does an entry that is moved to a later deadline.
    """
    told = []
    cache = TTLCache(100, 50.0, clock=clock, on_expire=lambda key, *_: told.append(key))
    cache.update({"a": 1, "b": 2, "c": 3})
    cache.set("d", 4, ttl=5.0)
    cache.touch("b", ttl=2.0)
    clock.advance(2.0)
    assert told == ["b"]
    cache.touch("d", ttl=50.0)
    clock.advance(47.0)
    assert told == ["b"]
    clock.advance(1.0)
    assert told == ["b", "a", "c"]
    clock.advance(2.0)
    assert told == ["b", "a", "c", "d"]
    cache.check()


def test_a_wheel_that_is_full(clock):
    """
    If the wheel refuses the timer of the cache, the caller of `set` gets the error, and the next `set` tries again.
    """
    wheel = TimerWheel(clock=clock, max_pending=1)
    in_the_way = wheel.call_later(1_000.0, print)
    told = []
    cache = TTLCache(100, 10.0, wheel=wheel, on_expire=lambda key, *_: told.append(key))
    with pytest.raises(TooManyTimersError):
        cache["a"] = 1
    in_the_way.cancel()
    cache.set("b", 2, ttl=20.0)
    clock.advance(10.0)
    assert told == ["a"]
    clock.advance(10.0)
    assert told == ["a", "b"]


def test_one_timer_for_a_whole_cache(clock):
    """
    A cache of any size has one timer in the wheel. An empty or freed cache has none.
    """
    wheel = TimerWheel(clock=clock)
    cache = TTLCache(1000, 10.0, wheel=wheel)
    assert len(wheel) == 0
    cache.update((n, n) for n in range(1000))
    assert len(wheel) == 1
    clock.advance(10.0)
    assert (len(wheel), len(cache)) == (0, 0)
    cache["a"] = 1
    del cache
    assert len(wheel) == 0


def test_many_due_entries_are_removed_in_several_turns(clock):
    """
    Many entries that are due at once are removed in several turns of the wheel.
    """
    wheel = TimerWheel(clock=clock)
    cache = TTLCache(20_000, 10.0, wheel=wheel)
    cache.update((n, n) for n in range(20_000))
    removed = []
    wheel.call_later(10.0, lambda: removed.append(expirations(cache)))
    clock.advance(10.0)
    assert 0 < removed[0] < 20_000
    assert expirations(cache) == 20_000


@pytest.mark.parametrize("make_wheel", [lambda: None, HeapWheel], ids=["native", "heap"])
def test_due_again_before_the_call_has_ended(clock, make_wheel, monkeypatch):
    """
    If a second entry becomes due while a worker still removes the first entry, the second entry expires, too.
    """

    class Held(InlineExecutor):
        def submit(self, timer):
            waiting.append(timer)

    def set_and_hand_over(alarm):
        set_next(alarm)
        if len(told) < 3:
            clock.jump(10.0)
            wheel._engine.fire_due()

    set_next = Alarm.set
    waiting, told = [], []
    wheel = TimerWheel(wheel=make_wheel(), clock=clock, executor=Held(1.0))
    cache = TTLCache(100, 10.0, wheel=wheel, on_expire=lambda key, *_: told.append(key))
    cache["a"] = 1
    for key, ttl in (("b", 20.0), ("c", 30.0), ("d", 40.0)):
        cache.set(key, None, ttl=ttl)
    monkeypatch.setattr(Alarm, "set", set_and_hand_over)
    clock.advance(10.0)
    while waiting:
        waiting.pop(0).run()
    assert told == ["a", "b", "c"]
    clock.advance(10.0)
    waiting.pop().run()
    assert told == ["a", "b", "c", "d"]


def test_a_closed_wheel_leaves_a_lazy_cache(clock):
    """
    After its wheel was closed, a cache still works, and removes expired entries when it is used.
    """
    wheel = TimerWheel(clock=clock)
    told = []
    cache = TTLCache(100, 10.0, wheel=wheel, on_expire=lambda key, *_: told.append(key))
    cache["a"] = 1
    wheel.close()
    cache.set("b", 2, ttl=5.0)
    clock.advance(10.0)
    assert told == []
    assert (cache.get("a"), len(cache), told) == (None, 0, ["b", "a"])


def test_several_caches_on_one_wheel(clock):
    """
    If several caches share a wheel, each cache expires its own entries on time.
    """
    wheel = TimerWheel(clock=clock)
    told = []
    caches = [
        TTLCache(10, ttl, wheel=wheel, on_expire=lambda *entry: told.append(entry[:2])) for ttl in (3.0, 1.0, 2.0)
    ]
    for number, cache in enumerate(caches):
        cache["key"] = number
    clock.advance(3.0)
    assert told == [("key", 1), ("key", 2), ("key", 0)]


@pytest.mark.realtime
def test_a_thread_expires_without_calls():
    gone = threading.Event()
    with TimerWheel() as wheel:
        cache = TTLCache(10, 0.02, wheel=wheel, on_expire=lambda *_: gone.set())
        cache["a"] = 1
        assert gone.wait(30.0)
        assert expirations(cache) == 1


@pytest.mark.realtime
def test_a_loop_expires_without_calls():
    async def main():
        gone = asyncio.Event()
        wheel = TimerWheel.asyncio()
        cache = TTLCache(10, 0.02, wheel=wheel, on_expire=lambda *_: gone.set())
        cache["a"] = 1
        await asyncio.wait_for(gone.wait(), 30.0)
        wheel.close()
        return expirations(cache)

    assert asyncio.run(main()) == 1


@pytest.mark.realtime
def test_threads_and_the_driver_share_a_cache():
    """
    If threads set, look up and remove keys while a driver expires entries, every entry leaves exactly once.
    """
    left = []
    with TimerWheel() as wheel:
        tell = lambda key, value, _: left.append((key, value))  # noqa: E731 - one for both
        cache = TTLCache(64, 0.001, wheel=wheel, on_expire=tell, on_evict=tell)
        stop_at = time.monotonic() + 1.0

        def work(name):
            count = 0
            while time.monotonic() < stop_at:
                count += 1
                cache[count % 100] = (name, count)
                cache.get(count % 70)
                cache.pop(count % 90, None)
            counts.append(count)

        counts = []
        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cache.check()
        cache.clear()
    assert len(left) == len(set(left)) == sum(counts)


@pytest.mark.needs("os.fork")
@pytest.mark.realtime
def test_after_a_fork():
    """
    In a forked child, the parent's entries exist, and entries expire. No caller waits for the parent's loads.
    """
    gone = threading.Event()
    begun, go_on = threading.Event(), threading.Event()
    with TimerWheel() as wheel:
        cache = TTLCache(10, 3600.0, wheel=wheel, on_expire=lambda *_: gone.set())
        cache["a"] = 1
        loading = threading.Thread(target=cache.take, args=("slow", lambda _: (begun.set(), go_on.wait())))
        loading.start()
        begun.wait()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert (cache["a"], cache.take("slow", lambda _: "mine")) == (1, "mine")
                cache.set("b", 2, ttl=0.01)
                assert gone.wait(30.0)
                cache.check()
                code = 0
            finally:
                os._exit(code)
        go_on.set()
        loading.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert "b" not in cache


@pytest.mark.needs("os.fork")
def test_background_loads_after_a_fork(clock):
    """
    In a forked child, background loads of the parent do not count towards the limit.
    """
    cache = TTLCache(10, 10.0, timer=clock.monotonic, refresh=Refresh(stale_while_revalidate=60.0, loads_max=1))
    cache["a"] = 1
    clock.advance(11.0)
    begun, go_on, loaded = threading.Event(), threading.Event(), threading.Event()
    assert cache.take("a", lambda _: (begun.set(), go_on.wait(30.0))) == 1
    begun.wait(30.0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert cache.take("a", lambda _: loaded.set()) == 1
            assert loaded.wait(30.0)
            code = 0
        finally:
            os._exit(code)
    go_on.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_cache_on_a_clock_frees_its_wheel(clock):
    """
    A wheel that a cache has made for itself is freed with the cache.
    """
    cache = TTLCache(10, 10.0, clock=clock)
    wheel = weakref.ref(cache._wheel)
    cache["a"] = 1
    del cache
    assert wheel() is None


@pytest.mark.needs("os.fork")
def test_loads_of_tasks_after_a_fork():
    """
    If a loop forks while one of its tasks loads a key, a thread in the child does not wait for this load.
    """
    cache = TTLCache(10, 60.0)

    async def main():
        loaded = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(cache.take_async("a", lambda _: loaded))
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            taken = []
            thread = threading.Thread(target=lambda: taken.append(cache.take("a", lambda _: "child's")), daemon=True)
            thread.start()
            thread.join(10.0)
            os._exit(0 if taken == ["child's"] else 1)
        loaded.set_result("parent's")
        assert await task == "parent's"
        return child

    assert os.waitstatus_to_exitcode(os.waitpid(asyncio.run(main()), 0)[1]) == 0


class Doorman:
    """
    An executor that refuses timers until the test allows them.
    """

    is_full = True

    def serve(self, engine):
        engine.runner = self.submit

    def submit(self, timer):
        if self.is_full:
            raise ExecutorFullError(0)
        timer.run()

    def stats(self):
        return {}


@pytest.mark.parametrize("design", [None, HeapWheel], ids=["native", "heap"])
def test_a_full_executor(clock, design):
    """
    If an executor is full when entries become due, the entries are removed as soon as it has room.
    """
    told, doorman = [], Doorman()
    wheel = TimerWheel(wheel=design and design(), clock=clock, executor=doorman, on_error=lambda *_: None)
    cache = TTLCache(10, 5.0, wheel=wheel, on_expire=lambda key, *_: told.append(key))
    cache["a"] = 1
    clock.advance(6.0)
    assert told == []
    doorman.is_full = False
    clock.advance(0.1)
    assert told == ["a"]
    cache["b"] = 2
    clock.advance(5.0)
    assert told == ["a", "b"]


@pytest.mark.parametrize("design", [None, HeapWheel], ids=["native", "heap"])
def test_after_a_drain(clock, design):
    """
    A drain of the wheel also removes the timer of the cache, which the next call of `set` sets again.
    """
    told = []
    wheel = TimerWheel(wheel=design and design(), clock=clock)
    cache = TTLCache(10, 5.0, wheel=wheel, on_expire=lambda key, *_: told.append(key))
    cache["a"] = 1
    assert len(wheel.drain()) == 1
    cache["b"] = 2
    clock.advance(5.0)
    assert told == ["a", "b"]
    wheel.close()
    cache["c"] = 3
    clock.advance(6.0)
    assert told == ["a", "b"]  # the wheel no longer calls, so the entry expires at its next use
    assert len(cache) == 0
