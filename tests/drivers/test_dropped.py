"""
If a wheel is no longer referenced while timers are pending, it warns and fires its timers.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import ShardedWheel, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

PATIENCE_S = 20.0


class Word: ...


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "tickwheel"}


@pytest.fixture(params=["native", "heap"])
def design(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return HeapWheel if request.param == "heap" else lambda: None


def test_timers_that_can_never_end_are_released(design):
    """
    An unreferenced wheel warns, and frees timers and keys that never fire, and endless series.
    """
    before = threads()
    wheel = TimerWheel(wheel=design(), on_expire=print)
    word = Word()
    gone = weakref.ref(word)
    series = wheel.call_every(3600, print, word)
    wheel.call_later(float("inf"), print, word)
    wheel.set("key", word, float("inf"))
    (thread,) = threads() - before
    held = [wheel]
    del word, wheel
    with pytest.warns(ResourceWarning, match="unclosed <TimerWheel 3 pending>"):
        held.clear()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert not series.pending()
    del series
    gc.collect()
    assert gone() is None


def test_timers_with_a_deadline_fire(design):
    """
    An unreferenced wheel fires all timers that have a deadline, and then its thread ends.
    """
    before = threads()
    wheel = TimerWheel(wheel=design())
    fired, done = [], threading.Event()
    wheel.call_every(0.001, fired.append, 1, times=5)
    wheel.call_later(0.05, done.set)
    (thread,) = threads() - before
    held = [wheel]
    del wheel
    with pytest.warns(ResourceWarning, match="unclosed"):
        held.clear()
    assert done.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert (fired, thread.is_alive()) == ([1] * 5, False)


def test_on_a_loop(design):
    """
    An unreferenced wheel on an event loop frees its endless series, and the loop does not refer to the wheel.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio(wheel=design())
        word = Word()
        gone = weakref.ref(word)
        wheel.call_every(3600, print, word)
        wheel.call_later(float("inf"), print, word)
        fired = asyncio.Event()
        wheel.call_later(0.01, fired.set)
        held = [wheel]
        del word, wheel
        with pytest.warns(ResourceWarning, match="unclosed <TimerWheel 3 pending>"):
            held.clear()
        await asyncio.wait_for(fired.wait(), PATIENCE_S)
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None

    asyncio.run(scenario())


def test_on_a_loop_by_hand(design, recwarn):
    """
    With a manual clock, the timers of an unreferenced wheel stay pending.
    """

    async def scenario() -> None:
        clock, fired = ManualClock(), []
        wheel = TimerWheel.asyncio(wheel=design(), clock=clock)
        wheel.call_later(0, fired.append, "now")
        wheel.call_later(5, fired.append, "later")
        held = [wheel]
        del wheel
        held.clear()
        for _ in range(3):
            await asyncio.sleep(0)
        assert fired == []
        clock.advance(5)
        assert fired == ["now", "later"]

    asyncio.run(scenario())
    assert not recwarn.list


def test_a_wheel_whose_on_error_is_a_method(design):
    """
    If `on_error` is a method of an object, it gets the errors, and the object is freed with the unreferenced wheel.
    """

    class Owner:
        def __init__(self) -> None:
            self.wheel = TimerWheel(wheel=design(), on_error=self.failed)
            self.failures: list[BaseException] = []
            self.has_failed = threading.Event()

        def failed(self, error: BaseException, _timer: object) -> None:
            self.failures.append(error)
            self.has_failed.set()

    owner = Owner()
    owner.wheel.call_later(0, lambda: 1 / 0)
    assert owner.has_failed.wait(PATIENCE_S)
    assert [type(error) for error in owner.failures] == [ZeroDivisionError]
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_shards(design):
    """
    An unreferenced sharded wheel fires its timers, and then its threads end.
    """
    before = threads()
    expired, done = [], threading.Event()
    shards = ShardedWheel(
        1, on_expire=lambda *each: (expired.append(each), done.set() if each[0] == "last" else None), make_wheel=design
    )
    word = Word()
    gone = weakref.ref(word)
    shards.set("never", word, float("inf"))
    shards.set("last", None, 0.05)
    (thread,) = threads() - before
    held = [shards]
    del word, shards
    with pytest.warns(ResourceWarning, match="unclosed <TimerWheel 2 pending>"):
        held.clear()
    assert done.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert (expired, thread.is_alive()) == ([("last", None)], False)
    gc.collect()
    assert gone() is None


def test_wheels_that_give_no_warning(design):
    """
    A wheel that is closed, has no pending timer, or has a manual clock is freed without a warning.
    """
    closed = TimerWheel(wheel=design())
    closed.call_later(3600, print)
    closed.close()
    empty = TimerWheel(wheel=design())
    empty.call_later(3600, print).cancel()
    clock, fired = ManualClock(), []
    by_hand = TimerWheel(wheel=design(), clock=clock)
    by_hand.call_every(1, fired.append, 1)
    del closed, empty, by_hand
    gc.collect()
    clock.advance(2)
    assert fired == [1, 1]
