"""
A program that tests tickwheel under gevent, run in another process.

The first argument says whether tickwheel is imported "before" or "after" gevent patches the process. If the URL of a
store or a service follows, the program tests connections to that server. If "failover" follows the URL, the program
sets jobs while the server's primary is lost.
"""

# ruff: noqa: E402, PLC0415, T201 - this file tests the order of imports
from __future__ import annotations

import gc
import logging
import sys
from contextlib import suppress

ORDER = sys.argv[1]


def patch():
    from gevent import monkey

    monkey.patch_all()


if ORDER == "after":
    patch()
from tickwheel import PoolExecutor, ThreadDriver, TimerWheel, background, with_timeout
from tickwheel.cache import TTLCache
from tickwheel.scheduler import Scheduler, StoreError
from tickwheel.threads import CallLock, Timer

LOCK = CallLock()

if len(sys.argv) > 2:
    import httpx
    import redis

    assert httpx
    assert redis
if ORDER == "before":
    patch()

import gevent
from gevent.event import Event
from gevent.monkey import get_original

native_id = get_original("_thread", "get_native_id")
start_system_thread = get_original("_thread", "start_new_thread")
HUB = native_id()
DELAY_S = 0.2
STARTED = []


def fired_in_time(start):
    """
    Return True if the callback of *start* is called outside the hub's thread, and other greenlets run in the meantime.
    """
    called, threads, turns = Event(), [], []
    watcher = gevent.get_hub().loop.async_()
    watcher.start(called.set)

    def call(*_):
        threads.append(native_id())
        watcher.send()

    def take_turns():
        while not called.is_set():
            turns.append(1)
            gevent.sleep(0.001)

    other = gevent.spawn(take_turns)
    kept = start(call)
    assert called.wait(20), "it was not called"
    other.join()
    assert len(turns) > 10, "the hub was held up"
    del kept
    return all(each != HUB for each in threads)


def wheel(call):
    wheel = TimerWheel()
    wheel.call_later(DELAY_S, call)
    return wheel


def keyed(call):
    wheel = TimerWheel(on_expire=call, driver=ThreadDriver("named"))
    wheel.set("key", 1, DELAY_S)
    return wheel


def pool(call):
    wheel = TimerWheel(executor=PoolExecutor(2))
    wheel.call_later(DELAY_S, call)
    return wheel


def cache(call):
    cache = TTLCache(9, DELAY_S, wheel=TimerWheel(), on_expire=call)
    cache["key"] = 1
    return cache


def context(call):
    context = with_timeout(background(TimerWheel()), DELAY_S)
    context.on_end(call)
    waits = [gevent.spawn(context.wait, 20) for _ in range(3)]
    gevent.joinall(waits)
    assert all(each.value for each in waits)
    return context


def closed(call):
    """
    Check that the end of a `with` block waits for a running callback.
    """
    begun, may_end = Event(), []

    def slow():
        begin.send()
        while not may_end:
            get_original("time", "sleep")(0.001)
        call()

    begin = gevent.get_hub().loop.async_()
    begin.start(begun.set)
    with TimerWheel() as wheel:
        wheel.call_later(DELAY_S, slow)
        assert begun.wait(20)
        gevent.spawn_later(0.01, may_end.append, 1)
    return wheel


def scheduler(call):
    scheduler = Scheduler("memory://")
    scheduler.handler("plain")(lambda _: None)

    @scheduler.handler("async")
    async def handle(_):
        call()

    scheduler.start()
    gevent.joinall([gevent.spawn(scheduler.set, f"key-{each}", delay=0, handler="plain") for each in range(9)])
    scheduler.set("last", delay=DELAY_S, handler="async")
    STARTED.append(scheduler)


def loads(call):
    """
    Check that if several greenlets take one key, one of them loads the value and the others wait.
    """
    cache = TTLCache(9, 60.0)

    def load(_):
        gevent.sleep(DELAY_S)
        return 1

    greenlets = [gevent.spawn(cache.take, "key", load) for _ in range(5)]
    gevent.joinall(greenlets, timeout=20)
    assert [each.value for each in greenlets] == [1] * 5
    start_system_thread(call, ())
    return cache


def lock(call):
    """
    Check that a greenlet waits for a lock that a sleeping greenlet holds.
    """

    def hold():
        with LOCK:
            gevent.sleep(DELAY_S)
            held.append(1)

    held = []
    gevent.joinall([gevent.spawn(hold) for _ in range(3)], timeout=20)
    assert held == [1] * 3
    start_system_thread(call, ())


def timer(call):
    """
    Check that a timer fires if a system thread sets it and then blocks in native code.
    """

    def work():
        limit = Timer(DELAY_S, lambda: (call(), ended.release()))
        limit.start()
        ended.acquire()

    ended = get_original("_thread", "allocate_lock")()
    ended.acquire()
    start_system_thread(work, ())


def dropped(call):
    """
    Check that a scheduler stops if it is collected in a system thread.
    """

    class Calls(logging.Handler):
        def emit(self, record):
            if "dropped its scheduler" in record.getMessage():
                call()

    logging.getLogger("tickwheel.scheduler").addHandler(Calls())
    schedulers = [Scheduler("memory://")]
    schedulers[0].handler("h")(lambda _: None)
    schedulers[0].start()

    def drop():
        get_original("time", "sleep")(DELAY_S)
        schedulers.clear()
        gc.collect()

    start_system_thread(drop, ())


def server(call):
    """
    Check that greenlets and threads can use one store or service.
    """
    scheduler = Scheduler(sys.argv[2])
    scheduler.handler("h")(call)
    scheduler.start()
    where = {"handler": "h", "target": "pull"} if sys.argv[2].startswith("http") else {"handler": "h"}
    greenlets = [gevent.spawn(scheduler.set, f"key-{each}", delay=3600, **where) for each in range(20)]
    greenlets += [gevent.spawn(scheduler.get, "key-1") for _ in range(20)]
    gevent.joinall(greenlets, raise_error=True)
    gevent.sleep(2.5)
    scheduler.set("due", delay=0, **where)
    STARTED.append(scheduler)


def failover(call):
    """
    Check that every acknowledged job fires if the primary is lost while greenlets set jobs.
    """

    def note(key):
        fired.add(key)
        if is_over and fired >= acknowledged:
            call()

    def set_jobs(number):
        for each in range(10_000):
            key = f"{number}-{each}"
            with suppress(StoreError):
                scheduler.set(key, delay=0, handler="h", payload=key)
                acknowledged.add(key)
                since.append(key)
            if is_lost and len(since) > 20:
                return
            gevent.sleep(0.05)

    fired, acknowledged, since, is_lost, is_over = set(), set(), [], [], []
    scheduler = Scheduler(sys.argv[2])
    scheduler.handler("h")(note)
    scheduler.start()
    STARTED.append(scheduler)
    greenlets = [gevent.spawn(set_jobs, number) for number in range(5)]
    while len(acknowledged) < 5:
        gevent.sleep(0.01)
    print("up", flush=True)
    gevent.get_hub().threadpool.apply(sys.stdin.readline)
    since.clear()
    is_lost.append(1)
    gevent.joinall(greenlets, raise_error=True)
    is_over.append(1)
    acknowledged.add("last")
    gevent.spawn(set_last, scheduler)
    return scheduler


def set_last(scheduler):
    while True:
        with suppress(StoreError):
            scheduler.set("last", delay=0, handler="h", payload="last")
            return
        gevent.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[3:]:
        print(failover.__name__, fired_in_time(failover), flush=True)
        STARTED[0].stop()
        sys.exit()
    if sys.argv[2:]:
        print(server.__name__, fired_in_time(server), flush=True)
        STARTED[0].stop()
        sys.exit()
    for part in (wheel, keyed, pool, cache, context, closed, scheduler, loads, lock, timer, dropped):
        print(part.__name__, fired_in_time(part), flush=True)
    STARTED[0].stop()
