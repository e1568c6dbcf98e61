"""
If a signal handler raises between any two lines of the cache's code, every key can still be loaded afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading

import pytest

from tickwheel.cache import Refresh, TLRUCache, TTLCache, cached, cachedmethod
from tickwheel.testing import ManualClock
from tickwheel.testing.cache_suite import Interruption

PATIENCE_S = 20.0


class Zap(BaseException):
    """
    An exception raised by a signal handler, as by Ctrl-C. It does not derive from Exception.
    """


class Limit(Exception):  # noqa: N818 - as Celery's SoftTimeLimitExceeded
    """
    An Exception raised by a signal handler, as a soft time limit does.
    """


class Rig:
    """
    A cache with a manual clock, and the arguments of its public functions.
    """

    def __init__(self, make):
        self.clock = ManualClock()
        self.cache = make(self.clock)
        self.function = cached(self.cache)(str.upper)
        self.loop = asyncio.new_event_loop()

    async def load_async(self, key):
        """
        Let the event loop run one step, and then return the key as the loaded value.
        """
        await asyncio.sleep(0)
        return key

    async def load_many_async(self, keys):
        await asyncio.sleep(0)
        return dict.fromkeys(keys, 1)

    def run(self, coroutine):
        try:
            return self.loop.run_until_complete(coroutine)
        finally:
            self.loop.run_until_complete(self.settle())

    async def settle(self):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})

    def join(self):
        pool, self.cache._loads._pool = self.cache._loads._pool, None
        if pool is not None:
            pool.close()
            assert pool.join(PATIENCE_S)

    def close(self):
        self.join()
        self.loop.close()


def plain(clock):
    """
    Return a cache that loads only missing keys.
    """
    return TTLCache(1000, 60.0, timer=clock.monotonic)


def renewing(clock):
    """
    Return a cache with background loads.

    Its first keys are near the end of their lifetime.
    """
    cache = TTLCache(
        1000, 60.0, timer=clock.monotonic, refresh=Refresh(ahead=30.0, stale_while_revalidate=9.0, stale_if_error=90.0)
    )
    cache.update(dict.fromkeys(["old", "older"], 0))
    clock.advance(50.0)
    return cache


def driven(clock):
    return TTLCache(1000, 60.0, clock=clock)


def by_function(clock):
    return TLRUCache(1000, lambda _key, _value, now: now + 60.0, timer=clock.monotonic)


class ByItems(TTLCache):
    """
    A subclass that overrides methods such as `__getitem__`.
    """

    def __setitem__(self, key, value):
        super().__setitem__(key, value)


def of_items(clock):
    return ByItems(1000, 60.0, timer=clock.monotonic)


class Owner:
    def __init__(self, cache):
        self.cache = cache

    @cachedmethod(lambda self: self.cache)
    def twice(self, key):
        return key * 2


def fail(key):
    raise OSError(key)


def frozen(rig):
    with rig.cache.timer as now:
        assert rig.cache.timer() == now


CALLS = {
    "take": lambda rig: rig.cache.take("key", str.upper),
    "take of what is there": lambda rig: rig.cache.take("old", str.upper),
    "take that fails": lambda rig: rig.cache.take("key", fail),
    "take_many": lambda rig: rig.cache.take_many(["key", "old", "other"], lambda keys: dict.fromkeys(keys, 1)),
    "take_async": lambda rig: rig.run(rig.cache.take_async("key", rig.load_async)),
    "take_async of what is there": lambda rig: rig.run(rig.cache.take_async("old", rig.load_async)),
    "take_many_async": lambda rig: rig.run(rig.cache.take_many_async(["key", "old"], rig.load_many_async)),
    "cached": lambda rig: rig.function("key"),
    "cachedmethod": lambda rig: Owner(rig.cache).twice("key"),
    "set": lambda rig: rig.cache.set("key", 1, ttl=5.0),
    "setitem": lambda rig: rig.cache.__setitem__("key", 1),
    "setdefault": lambda rig: rig.cache.setdefault("key", 1),
    "set_many": lambda rig: rig.cache.set_many({"key": 1, "other": 2}),
    "pop": lambda rig: rig.cache.pop("old", None),
    "popitem": lambda rig: rig.cache and rig.cache.popitem(),
    "get_many": lambda rig: rig.cache.get_many(["key", "old"]),
    "touch": lambda rig: rig.cache.touch("old"),
    "remaining": lambda rig: rig.cache.remaining("old"),
    "expire": lambda rig: rig.cache.expire(),
    "clear": lambda rig: rig.cache.clear(),
    "cache_clear": lambda rig: rig.function.cache_clear(),
    "views": lambda rig: (list(rig.cache.items()), list(rig.cache.values()), repr(rig.cache)),
    "counts": lambda rig: (rig.cache.stats(), rig.function.cache_info(), rig.cache.currsize, len(rig.cache)),
}
CACHES = {"plain": plain, "renewing": renewing, "driven": driven, "by function": by_function, "by items": of_items}


LOADING = {"run", "_keep", "_settle", "count", "_count", "held", "__call__", "<dictcomp>", "<lambda>"}
"""Functions in which an Exception of a signal handler may be treated as a failed load."""


def in_thread(function, *args):
    """
    Run a function in another thread and return its result.
    """
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(function(*args)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert outcome, "another thread hangs"
    return outcome[0]


def check(rig, where):
    """
    Check that every key can be loaded in this thread, in another thread and on a loop, and that no load remains.
    """
    cache, flights = rig.cache, rig.cache._loads._flights
    rig.join()
    cache.check()
    for key in ("key", "old", "other", "new"):
        cache.pop(key, None)
        assert cache.take(key, lambda _: "here") == "here", where
        cache.pop(key, None)
        assert in_thread(cache.take, key, lambda _: "there") == "there", where
        cache.pop(key, None)
        assert rig.run(cache.take_async(key, rig.load_async)) == key, where
    assert (flights._loads, flights._tasks) == ({}, set()), where
    assert all(flight.is_over() for flight in cache._loads._background), where
    ticket = cache._begin_load("key")
    in_thread(cache.update, dict.fromkeys(["old", "other"], 1))
    assert not cache._is_overtaken(ticket), f"{where}: a key is watched forever"
    cache._end_loads([ticket])
    if cache._wheel is not None:
        rig.clock.advance(100.0)
        assert len(cache._wheel) == 0, where
        assert cache._counts()[2][0] > 0, f"{where}: the alarm did not ring"


def interrupted(make, call, error, *numbers):
    """
    Make a call, and raise *error* at the lines with the given numbers.

    Return the type of the exception that the call raised, and a list of the lines at which *error* was raised.
    """
    rig = Rig(make)
    raised = None
    try:
        with Interruption(error, *numbers) as interruption:
            try:
                call(rig)
            except (Zap, Limit, OSError, KeyError) as end:
                raised = type(end)
        check(rig, interruption.where)
    finally:
        rig.close()
    return raised, interruption.where


def rows():
    """
    Return every combination of a cache, a call and an exception.
    """
    usual = {"take", "take_many", "take_async", "cached", "set", "counts"}
    for make in CACHES:
        for call in CALLS:
            for error in (Zap, Limit):
                is_usual = error is Zap and (call in usual if make == "plain" else call == "take")
                marks = [] if is_usual else [pytest.mark.slow]
                yield pytest.param(make, call, error, marks=marks, id=f"{make}-{call}-{error.__name__}")


@pytest.mark.parametrize(("make", "call", "error"), list(rows()))
def test_at_every_line(make, call, error, caplog):
    """
    If any line of the cache's code raises, the caller gets the exception, and every key can be loaded afterwards.
    """
    caplog.set_level(logging.CRITICAL, "tickwheel")
    caplog.set_level(logging.CRITICAL, "asyncio")
    number, missing = 0, []
    while True:
        number += 1
        raised, where = interrupted(CACHES[make], CALLS[call], error, number)
        if not where:
            break
        if raised is not error and not (error is Limit and where[0].partition(":")[0] in LOADING):
            missing += where
    assert missing == [] or "async" in call  # asyncio reports errors in callbacks, and in tasks that nothing awaits


@pytest.mark.slow
@pytest.mark.parametrize("make", CACHES)
@pytest.mark.parametrize("call", ["take", "take_many", "cached"])
@pytest.mark.parametrize("gap", [1, 2, 3, 5, 8])
def test_at_two_lines(make, call, gap, caplog):
    """
    If a second exception is raised during the clean-up after a first one, every key can still be loaded afterwards.
    """
    caplog.set_level(logging.CRITICAL, "tickwheel")
    number = 0
    while True:
        number += 1
        _, where = interrupted(CACHES[make], CALLS[call], Zap, number, number + gap)
        if not where:
            break


@pytest.mark.slow
@pytest.mark.parametrize("make", ["plain", "renewing"])
def test_real_signals(make, caplog, monkeypatch):
    """
    If the signals of a real timer raise an exception 25,000 times, every key can still be loaded afterwards.
    """
    caplog.set_level(logging.CRITICAL, "tickwheel")
    monkeypatch.setattr(sys, "unraisablehook", id)  # a signal may arrive in a destructor, which cannot raise
    rig, limits, poisoned, calls, is_on = Rig(CACHES[make]), 0, [], 0, False

    def limit(*_):
        if is_on:
            raise Limit

    former = signal.signal(signal.SIGALRM, limit)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        while limits < 25_000:
            try:
                is_on = True
                while True:
                    calls += 1
                    rig.function(f"key {calls}")
            except Limit:
                pass
            finally:
                try:
                    is_on = False
                except Limit:
                    is_on = False
            limits += 1
            try:
                rig.function(f"key {calls}")
            except Exception as error:  # noqa: BLE001 - whatever it is, the key is poisoned
                poisoned.append(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, former)
    assert poisoned == []
    flights = rig.cache._loads._flights  # after two signals at once, the next sweep removes the entry that is left
    assert len(flights._loads) <= flights._sweep_at
    flights._sweep_at = 0
    check(rig, "signals")
    rig.close()
