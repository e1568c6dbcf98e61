"""
A load that ends after its key was written or removed stores nothing.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading

import pytest

from tickwheel.cache import Refresh, TTLCache, cached
from tickwheel.testing import ManualClock

WRITES = {
    "item": lambda cache: cache.__setitem__("key", "new"),
    "set": lambda cache: cache.set("key", "new", ttl=5.0),
    "set without a ttl": lambda cache: cache.set("key", "new"),
    "set_many": lambda cache: cache.set_many({"key": "new"}),
    "setdefault": lambda cache: cache.setdefault("key", "new"),
    "update": lambda cache: cache.update(key="new"),
}
REMOVALS = {
    "pop of nothing": lambda cache: cache.pop("key", None),
    "del after a set": lambda cache: (cache.__setitem__("key", "brief"), cache.__delitem__("key")),
    "popitem after a set": lambda cache: (cache.__setitem__("key", "brief"), cache.popitem()),
    "set for no time": lambda cache: cache.set("key", "brief", ttl=0),
    "touch to death": lambda cache: (cache.__setitem__("key", "brief"), cache.touch("key", ttl=0)),
    "clear": lambda cache: cache.clear(),
}


class Lower(TTLCache):
    """
    A cache that converts its keys to lower case.
    """

    def __getitem__(self, key):
        return super().__getitem__(key.lower())

    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __delitem__(self, key):
        super().__delitem__(key.lower())

    def __contains__(self, key):
        return super().__contains__(key.lower())


def take_while(cache, act, key="key"):
    def loader(_key):
        act(cache)
        return "old"

    return cache.take(key, loader)


def take_async_while(cache, act, key="key"):
    async def loader(_key):
        await asyncio.sleep(0)
        act(cache)
        return "old"

    return asyncio.run(cache.take_async(key, loader))


def take_many_while(cache, act, key="key"):
    def loader(keys):
        act(cache)
        return dict.fromkeys(keys, "old")

    return cache.take_many([key, "other"], loader)[key]


def call_while(cache, act, key="key"):
    """
    Run *act* while a cached function runs, and return the result of the function's caller.
    """

    @cached(cache, key=lambda name: name)
    def load(_name):
        act(cache)
        return "old"

    return load(key)


TAKES = {"take": take_while, "take_async": take_async_while, "take_many": take_many_while, "cached": call_while}


@pytest.fixture(params=TAKES)
def take(request):
    """
    Return a function that loads a key and runs a given action during the load.
    """
    return TAKES[request.param]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_during_a_load_stays(take, write):
    """
    If a key is set during a load of this key, the load stores nothing, and returns the new value.

    The load is counted as overtaken.
    """
    cache = TTLCache(10, 60.0)
    assert take(cache, WRITES[write]) == "new"
    assert (cache["key"], cache.stats().loads.overtaken) == ("new", 1)
    cache.check()


@pytest.mark.parametrize("remove", REMOVALS)
def test_a_removal_during_a_load_stays(take, remove):
    """
    If a key is removed during a load of this key, the load stores nothing, even if the key had no value before.
    """
    cache = TTLCache(10, 60.0)
    assert take(cache, REMOVALS[remove]) == "old"
    assert ("key" in cache, cache.stats().loads.overtaken >= 1) == (False, True)
    assert cache.take("key", lambda _: "fresh") == "fresh"
    assert cache["key"] == "fresh"


def test_other_operations_do_not_affect_a_load(take):
    """
    Lookups, writes of other keys, and evictions do not prevent a load from storing its value.
    """
    cache = TTLCache(3, 60.0)

    def act(cache):
        cache.get("key")
        cache.touch("key")
        cache.update({n: n for n in range(10)})
        cache.pop(9)

    assert take(cache, act) == "old"
    assert (cache["key"], cache.stats().loads.overtaken) == ("old", 0)


@pytest.mark.parametrize("act", ["write", "removal"])
def test_keys_that_a_subclass_makes(take, act):
    """
    A subclass may map several keys to one entry.

    If one of these keys is written or removed while another one is being loaded, the load stores nothing.
    """
    cache = Lower(10, 60.0)
    if act == "write":
        assert take(cache, lambda cache: cache.__setitem__("KEY", "new"), key="Key") == "new"
        assert cache["kEY"] == "new"
    else:
        assert take(cache, lambda cache: cache.pop("KEY", None), key="Key") == "old"
        assert "key" not in cache
    assert take(cache, lambda cache: cache.__setitem__("another", 1), key="Third") == "old"
    assert cache["THIRD"] == "old"


def test_a_take_after_a_removal_does_not_get_the_older_load():
    """
    A take that begins after a removal does not wait for an older load, but loads again.
    """
    cache = TTLCache(10, 60.0)
    begun, go_on = threading.Event(), threading.Event()
    outcomes = []

    def slow(_key):
        begun.set()
        go_on.wait(30.0)
        return "old"

    thread = threading.Thread(target=lambda: outcomes.append(cache.take("key", slow)))
    thread.start()
    begun.wait(30.0)
    cache.pop("key", None)
    assert cache.take("key", lambda _: "new") == "new"
    go_on.set()
    thread.join(30.0)
    assert (outcomes, cache["key"]) == (["new"], "new")


def test_no_watch_outlives_its_load():
    """
    Once a load has ended in any way, the cache no longer watches its key for changes.
    """
    cache = TTLCache(10, 60.0)
    take_while(cache, lambda cache: cache.pop("key", None))
    take_async_while(cache, WRITES["item"])
    take_many_while(cache, REMOVALS["clear"])
    with pytest.raises(ZeroDivisionError):
        cache.take("error", lambda _: 1 / 0)
    since, _ = ticket = cache._begin_load("another")
    cache.update({"key": 1, "other": 1, "error": 1})
    assert not cache._is_overtaken(ticket)
    cache._end_loads([ticket])
    assert cache._begin_load("key")[0] == since


@pytest.fixture
def busy_switching():
    """
    Let threads switch as often as possible during the test.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("busy_switching")
@pytest.mark.parametrize("bulk", [False, True], ids=["take", "take_many"])
def test_no_take_is_older_than_the_last_removal_before_it(bulk):
    """
    A take never returns a value that was removed before the take began.
    """
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it when this fails
    cache = TTLCache(10, 60.0)
    source, removed = dict.fromkeys("abc", 0), dict.fromkeys("abc", 0)
    wrong = []

    def load(keys):
        return {key: source[key] for key in keys}

    def change(draw):
        for _ in range(1500):
            key = draw.choice("abc")
            with lock:
                source[key] += 1
                version = source[key]
            cache.pop(key, None) if draw.random() < 0.9 else cache.clear()
            with lock:
                removed[key] = max(removed[key], version)

    def take(draw):
        for _ in range(1500):
            key = draw.choice("abc")
            oldest = removed[key]
            value = cache.take_many([key], load)[key] if bulk else cache.take(key, lambda key: source[key])
            if value < oldest:
                wrong.append((key, value, oldest))

    lock = threading.Lock()
    jobs = [(change, seed), (take, seed + 1), (take, seed + 2), (change, seed + 3)]
    threads = [threading.Thread(target=job, args=(random.Random(number),)) for job, number in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    assert (wrong, cache.stats().loads.loaded > 0) == ([], True)
    assert all(cache.take(key, str) >= removed[key] for key in cache)
    cache.check()


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
def test_after_a_failed_load_only_the_current_value_is_returned(is_async):
    """
    After a failed load, a value that was removed or has expired during the load is not returned.
    """
    clock = ManualClock()
    cache = TTLCache(100, 10.0, timer=clock.monotonic, refresh=Refresh(stale_if_error=60.0))

    def take(act):
        cache["a"] = "old"
        clock.advance(11.0)

        def fail(_key):
            act()
            raise OSError("down")

        async def fail_async(key):
            fail(key)

        return asyncio.run(cache.take_async("a", fail_async)) if is_async else cache.take("a", fail)

    for act in (lambda: cache.pop("a", None), cache.clear, lambda: clock.advance(59.0)):
        with pytest.raises(OSError, match="down"):
            take(act)
    assert take(lambda: cache.set("a", "new")) == "new"
    assert (cache["a"], cache.stats().loads.stale) == ("new", 0)
    assert take(lambda: clock.advance(58.0)) == "old"
    assert cache.stats().loads.stale == 1
