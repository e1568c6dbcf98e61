"""
The entries that leave a cache are reported and counted.
"""

from __future__ import annotations

import pytest

from tickwheel.cache import Reason, TLRUCache, TTLCache
from tickwheel.testing import ManualClock


class Rig:
    """
    A cache of at most two entries, with its clock and the reports that its callback gets.
    """

    def __init__(self, *, is_driven):
        self.clock = ManualClock()
        self.expired = []
        self.evicted = []
        time = {"clock": self.clock} if is_driven else {"timer": self.clock.monotonic}
        self.cache = TTLCache(
            2,
            10.0,
            on_expire=lambda *entry: self.expired.append(entry),
            on_evict=lambda *entry: self.evicted.append(entry),
            **time,
        )


@pytest.fixture(params=[False, True], ids=["lazy", "driven"])
def rig(request):
    return Rig(is_driven=request.param)


def test_every_reason_is_reported_and_counted(rig):
    """
    For each reason why an entry leaves the cache, the callback gets key, value and reason once.
    """
    cache = rig.cache
    cache.update({"a": 1, "b": 2})
    cache["a"] = 3
    cache["c"] = 4
    del cache["a"]
    cache["d"] = 5
    assert cache.pop("d") == 5
    cache["e"] = 6
    assert cache.popitem() == ("c", 4)
    cache.clear()
    assert rig.evicted == [
        ("a", 1, Reason.REPLACED),
        ("b", 2, Reason.SIZE),
        ("a", 3, Reason.REMOVED),
        ("d", 5, Reason.REMOVED),
        ("c", 4, Reason.REMOVED),
        ("e", 6, Reason.REMOVED),
    ]
    cache["f"] = 7
    rig.clock.advance(10.0)
    assert len(cache) == 0
    assert rig.expired == [("f", 7, Reason.EXPIRED)]
    stats = cache.stats()
    assert stats.expirations == 1
    assert stats.evictions == {Reason.SIZE: 1, Reason.REPLACED: 1, Reason.REMOVED: 4}


def test_hits_and_misses_are_counted(rig):
    """
    Lookups count as hits or misses.

    `in`, `remaining` and iteration count as neither.
    """
    cache = rig.cache
    assert cache.stats().hit_rate == 0.0
    cache["a"] = 1
    assert (cache["a"], cache.get("a"), cache.get("b"), cache.setdefault("a"), cache.take("a", str)) == (
        1,
        1,
        None,
        1,
        1,
    )
    with pytest.raises(KeyError):
        cache["b"]
    assert ("a" in cache, "b" in cache, cache.remaining("b"), list(cache.items())) == (True, False, None, [("a", 1)])
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.hit_rate) == (4, 2, 4 / 6)


def test_reasons_are_words():
    assert [str(reason) for reason in Reason] == ["expired", "size", "replaced", "removed"]


def test_callbacks_may_use_the_cache(rig):
    """
    During a callback the cache is consistent, and the callback may set, remove and clear.
    """
    cache = rig.cache
    seen = []

    def use(key, _value, reason):
        cache.check()
        seen.append((key, reason))
        if key == "a":
            cache["from the callback"] = 1

    cache.__init__(2, 10.0, on_evict=use)
    cache.update({"a": 1, "b": 2})
    cache["c"] = 3
    assert seen == [("a", Reason.SIZE), ("b", Reason.SIZE)]
    assert list(cache) == ["c", "from the callback"]


def test_a_callback_that_raises_is_logged(caplog):
    """
    If a callback raises an Exception, it is logged, the operation completes, and the other entries are reported.
    """
    told = []

    def refuse(key, _value, _reason):
        told.append(key)
        message = f"no {key}"
        raise OSError(message)

    cache = TTLCache(10, 10.0, on_evict=refuse)
    cache.update({"a": 1, "b": 2})
    cache.clear()
    assert (told, len(cache)) == (["a", "b"], 0)
    assert [str(record.exc_info[1]) for record in caplog.records] == ["no a", "no b"]


def test_an_interrupt_in_a_callback_reaches_the_caller():
    """
    If a callback raises KeyboardInterrupt, the caller gets it, after every entry was reported.
    """
    told = []

    def interrupt(key, _value, _reason):
        told.append(key)
        raise KeyboardInterrupt

    cache = TTLCache(10, 10.0, on_evict=interrupt)
    cache.update({"a": 1, "b": 2})
    with pytest.raises(KeyboardInterrupt):
        cache.clear()
    assert (told, len(cache)) == (["a", "b"], 0)


def test_a_value_that_is_dead_on_arrival_replaces():
    """
    If a value has already expired when it is set, the callback reports only the value that it replaces.
    """
    evicted = []
    cache = TLRUCache(10, lambda _key, value, now: now + value, on_evict=lambda *entry: evicted.append(entry))
    cache["a"] = 5.0
    cache["a"] = -1.0
    cache["b"] = -1.0
    assert evicted == [("a", 5.0, Reason.REPLACED)]
