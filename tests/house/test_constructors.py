"""
No other code sees an object before its constructor has set the last field.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
import weakref
from enum import Enum
from types import FrameType, FunctionType, MethodType
from typing import Any

import pytest
import trio

import tickwheel
from tickwheel import aio, background, cache, drivers, wheels
from tickwheel.aio import EventLoop
from tickwheel.cache import Refresh, TLRUCache, TTLCache
from tickwheel.drivers import InlineExecutor, PoolExecutor, ShardedWheel, TaskExecutor, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.timers.phase import Phase

ROOMS = (tickwheel, drivers, wheels, cache, aio, importlib.import_module("tickwheel.timers.contexts"))
MAKES: dict[type, Any] = {
    tickwheel.Periodic: lambda: TimerWheel(clock=ManualClock()).call_every(1, print),
    tickwheel.Context: lambda: background(TimerWheel(clock=ManualClock())).child(),
    TimerWheel: lambda: TimerWheel(on_expire=print, on_error=print, executor=InlineExecutor(1)),
    ShardedWheel: lambda: ShardedWheel(2, on_expire=print),
    TTLCache: lambda: TTLCache(3, 60, wheel=TimerWheel(clock=ManualClock()), on_expire=print),
    TLRUCache: lambda: TLRUCache(3, lambda _key, _value, now: now + 1),
    Refresh: lambda: Refresh(ahead=1),
    PoolExecutor: lambda: PoolExecutor(1),
    InlineExecutor: lambda: InlineExecutor(1),
    wheels.SingleWheel: lambda: wheels.SingleWheel(tick=1, slots=8),
}
NOT_MADE = {cache.CacheStats, cache.CacheTimer, cache.CachedMethod}
"""Classes that only tickwheel's code instantiates, once it knows all their fields."""
NOT_OURS = {EventLoop}
"""Classes that use asyncio's constructor, which registers a pipe before it sets the last field."""
ON_A_LOOP = {TaskExecutor, drivers.AsyncioDriver}
ON_TRIO = {drivers.TrioDriver}


def public_classes() -> list[type]:
    found = {
        getattr(room, name)
        for room in ROOMS
        for name in room.__all__
        if isinstance(getattr(room, name), type) and "Protocol" not in str(getattr(room, name).__mro__)
    }
    return sorted(
        (
            kind
            for kind in found
            if not issubclass(kind, BaseException)
            and isinstance(kind.__init__, FunctionType)
            and not issubclass(kind, tuple | Enum)
            and kind not in NOT_MADE | NOT_OURS
        ),
        key=lambda kind: kind.__name__,
    )


def fields(made: Any) -> set[str]:
    slots = {
        name for kind in type(made).__mro__ for name in vars(kind).get("__slots__", ()) if not name.startswith("__")
    }
    return {name for name in slots if hasattr(made, name)} | set(getattr(made, "__dict__", ()))


def holders(made: Any) -> int:
    """
    Return the number of references to *made*, including weak ones.
    """
    is_weak = hasattr(type(made), "__weakref__")
    return sys.getrefcount(made) + (weakref.getweakrefcount(made) if is_weak else 0)


def is_held(made: Any) -> bool:
    if hasattr(type(made), "__weakref__") and weakref.getweakrefcount(made):
        return True
    own = getattr(made, "__dict__", None)
    holders = [each for each in gc.get_referrers(made) if not isinstance(each, FrameType) and each is not own]
    return any(
        not (isinstance(each, dict) and each.get("self") is made)  # the variables of a frame
        and not (isinstance(each, MethodType) and len(gc.get_referrers(each)) <= 1)  # about to be called
        for each in holders
    )


def watched(kind: type, make: Any) -> list[str]:
    """
    Call *make*.

    Return the fields of an object of class *kind* that were set after another object referred to it.
    """
    usual: dict[int, int] = {}  # by the frame's id: a frame that is kept would hold the object
    exposed: list[tuple[Any, set[str]]] = []

    def look(frame: FrameType, event: str, _: object) -> Any:
        made = frame.f_locals.get("self")
        if frame.f_code.co_name != "__init__" or type(made) is not kind:
            return None
        if event == "line" and not exposed:
            count = holders(made)
            if count > usual.setdefault(id(frame), count) and is_held(made):
                exposed.append((made, fields(made)))
        elif event == "return":
            usual.pop(id(frame), None)
        return look

    sys.settrace(look)
    try:
        kept = make()
    finally:
        sys.settrace(None)
    late = [name for made, before in exposed for name in sorted(fields(made) - before)]
    del kept
    return late


def test_every_public_class_is_made():
    """
    The list of public classes that the tests instantiate contains classes of several packages.
    """
    assert {TimerWheel, ShardedWheel, PoolExecutor, TTLCache, tickwheel.Periodic} <= set(public_classes())


@pytest.mark.parametrize("kind", public_classes(), ids=lambda kind: kind.__name__)
def test_it_is_complete_before_it_is_seen(kind):
    """
    Until a constructor has set the last field of an object, no other object refers to this object, not even weakly.
    """
    make = MAKES.get(kind, kind)

    async def on_a_loop():
        return watched(kind, make)

    if kind in ON_TRIO:
        late = trio.run(on_a_loop)
    elif kind in ON_A_LOOP:
        late = asyncio.run(on_a_loop())
    else:
        late = watched(kind, make)
    assert late == []


def test_an_early_reference_is_found():
    """
    The check finds a constructor that lets another object refer to the new object too early, even weakly.
    """
    seen: list[Any] = []

    class Early:
        def __init__(self, *, is_weak: bool) -> None:
            self.first = 1
            seen.append(weakref.ref(self) if is_weak else self)
            self.second = 2
            self.third = 3

    for is_weak in (False, True):
        assert "third" in watched(Early, lambda is_weak=is_weak: Early(is_weak=is_weak))
    assert Phase(0, 1, "skip").missed == "skip"
