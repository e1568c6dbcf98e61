"""
Several threads set keyed timers at the same time, with and without the lock that protects the keys.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

from tickwheel import TimerWheel, background, with_timeout
from tickwheel.testing import ManualClock


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
def test_threads_that_set_one_key_leave_one_timer(make_rig):
    """
    If several threads set one key in different ways, one timer remains, with the value and delay of one of these calls.
    """
    rig = make_rig()
    start = rig.wheel.time()
    rig.wheel.set("a", 1, 1)
    ways = (
        lambda number: rig.wheel.set("a", number, number),
        lambda number: rig.wheel.set("a", value=number, delay=number),
        lambda number: rig.wheel.cancel("a") and rig.wheel.set("a", number, number),
    )

    def set_often(way: int) -> None:
        for number in range(way + 1, 1_500, 3):
            ways[way](number)

    threads = [threading.Thread(target=set_often, args=(way,)) for way in range(3)]
    for thread in threads:
        thread.start()
    wrong = []
    while any(thread.is_alive() for thread in threads):
        value, when = rig.wheel.find("a") or (None, None)
        if value is not None and round(when - start) != value:
            wrong.append((value, when - start))
    for thread in threads:
        thread.join()
    assert wrong == []
    value, when = rig.wheel.find("a")
    assert (round(when - start), len(rig.wheel)) == (value, 1)
    assert rig.advance(2_000) == [("a", value)]


@pytest.mark.parametrize("by_name", [False, True])
def test_a_set_from_inside_a_set_wins_whole(by_name):
    """
    If `set` is called during another call of `set` for the same key, the value and the deadline of the inner call stay.
    """
    wheel = TimerWheel(on_expire=print, clock=ManualClock())
    start = wheel.time()
    wheel.set("a", 1, 60)
    # The outer call makes the earliest deadline earlier, and the wheel reports this to its driver.
    wheel._engine.on_earlier = lambda: wheel.set("a", 3, 90)
    wheel._engine.arm()
    if by_name:
        wheel.set(key="a", value=2, delay=30)
    else:
        wheel.set("a", 2, 30)
    value, when = wheel.find("a")
    assert (value, round(when - start)) == (3, 90)


def test_a_pending_key_is_set_while_another_thread_has_the_lock():
    """
    A native wheel sets and moves a pending key without waiting for a thread that holds the lock of the keys.
    """
    wheel = TimerWheel(on_expire=print)
    wheel.set("a", 1, 60)
    answers = []

    def use() -> None:
        wheel.set("a", 2, 90)
        answers.append(wheel.move("a", 120))

    thread = threading.Thread(target=use, daemon=True)
    with wheel._keyed._lock:
        thread.start()
        thread.join(30)
        assert answers == [True]
    assert wheel.get("a") == 2
    wheel.close()


@pytest.mark.parametrize("verb", ["drain", "close"])
def test_a_callback_of_a_close_may_wait_for_other_threads(make_rig, verb):
    """
    While a drain or a close runs a callback of a context, other threads can use the keys, and so can the callback.
    """
    rig = make_rig()
    wheel = rig.wheel
    wheel.set("a", 1, 60)
    answers = []

    def use() -> None:
        answers.append((wheel.cancel("a"), wheel.get("a")))

    def wait() -> None:
        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(30)
        if verb == "drain":
            wheel.set("b", 2, 1)
        answers.append(thread.is_alive())

    with_timeout(background(wheel), 90).on_end(wait)
    first, second = getattr(wheel, verb)()
    assert answers == [(False, None), False]
    assert (first.args, second.args) == (("a", 1), ())
    assert rig.advance(2) == ([("b", 2)] if verb == "drain" else [])


def test_a_subclass_keeps_its_own_set():
    """
    If a subclass overrides `set`, its method is called, and it can call `set` of the base class.
    """

    class Loud(TimerWheel):
        def set(self, key, value, delay):
            super().set(key, value.upper(), delay)

    with Loud(on_expire=print) as wheel:
        for text in ("a", "b"):
            wheel.set("key", text, 60)
        assert wheel.get("key") == "B"


def test_a_replaced_value_is_released():
    """
    A wheel keeps only the newest value of a pending key, even in a reference cycle.
    """

    class Value:
        wheel: TimerWheel

    wheel = TimerWheel(on_expire=print)
    values = [Value() for _ in range(3)]
    seen = [weakref.ref(value) for value in values]
    for value in values:
        value.wheel = wheel
        wheel.set("a", value, 60)
    del value
    values.clear()
    gc.collect()
    assert [each() is not None for each in seen] == [False, False, True]
    wheel.close()
    del wheel
    gc.collect()
    assert seen[-1]() is None
