"""
The interpreter may run some code at any moment: finalizers, callbacks of weak references, clocks.

In these tests, such code calls the engine.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from tickwheel._core import Engine, Wheel
from tickwheel.errors import ClosedError, ReentrantError
from tickwheel.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tickwheel._core import Timer

    Action = Callable[[Engine, Timer], object]


def nothing(*_: object) -> None:
    pass


# The things that a finalizer may do to the engine that runs it, and to another timer of that engine.
ACTIONS: dict[str, Action] = {
    "set": lambda engine, _: engine.call_later(1, nothing),
    "set at": lambda engine, _: engine.call_at(0, nothing),
    "set many": lambda engine, _: engine.call_later_many([0.0, 1.0], nothing),
    "cancel": lambda _, timer: timer.cancel(),
    "cancel many": lambda engine, timer: engine.cancel_many([timer, 5]),
    "move": lambda _, timer: timer.restart(2),
    "move many": lambda engine, timer: engine.move_many([timer], 3.0),
    "arm": lambda engine, _: engine.arm(),
    "fire": lambda engine, _: engine.fire_due(),
    "drain": lambda engine, _: engine.drain(),
    "close": lambda engine, _: engine.close(),
    "stats": lambda engine, _: engine.stats(),
    "check": lambda engine, _: engine.check(),
    "collect": lambda *_: gc.collect(),
    "hooks": lambda engine, _: setattr(engine, "on_error", None),
}


class Mine:
    """
    An object that calls the engine when its last reference is released.
    """

    def __init__(self, act: Callable[[], object], ran: list[str]) -> None:
        self._act = act
        self._ran = ran

    def __call__(self, *_: object) -> None:
        pass

    def __del__(self) -> None:
        with contextlib.suppress(ClosedError, ReentrantError):
            self._act()
        self._ran.append("finalized")


# Ways in which an engine releases a callback or argument; each gets the engine, and the timer that holds the mine.
RELEASES: dict[str, Action] = {
    "cancel": lambda _, timer: timer.cancel(),
    "cancel many": lambda engine, timer: engine.cancel_many([timer]),
    "fire": lambda engine, timer: (timer.reschedule(0), engine.fire_due()),
    "drain": lambda engine, _: engine.drain() and None,
    "close": lambda engine, _: engine.close() and None,
    "fork": lambda engine, _: engine.after_fork(),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_finalizer_may_do_anything(action: str, release: str) -> None:
    """
    The `__del__` of a callback or argument may call the engine.

    The engine stays intact.
    """
    engine = Engine(ManualClock())
    other = engine.call_later(5, nothing)
    ran: list[str] = []
    by_callback = engine.call_later(1, Mine(lambda: ACTIONS[action](engine, other), ran))
    by_argument = engine.call_later(1, nothing, Mine(lambda: ACTIONS[action](engine, other), ran))
    for timer in (by_callback, by_argument):
        RELEASES[release](engine, timer)
    # `close` inside a finalizer may leave the mine of the other timer to the end of this scope.
    del by_callback, by_argument, timer
    gc.collect()
    assert ran == ["finalized", "finalized"]
    engine.check()
    stats = engine.stats()
    assert stats["sets"] == stats["pending"] + stats["cancels"] + stats["fires"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_weak_reference_may_do_anything(action: str) -> None:
    """
    The callback of a weak reference to a timer's callback may call the engine.

    This callback runs when the timer is cancelled.
    """
    engine = Engine(ManualClock())
    other = engine.call_later(5, nothing)
    ran: list[str] = []

    def act(_: object) -> None:
        with contextlib.suppress(ClosedError):
            ACTIONS[action](engine, other)
        ran.append(action)

    target = Mine(nothing, [])
    watch = weakref.ref(target, act)
    timer = engine.call_later(1, target)
    del target
    timer.cancel()
    assert ran == [action]
    assert watch() is None
    engine.check()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_clock_may_do_anything(action: str) -> None:
    """
    If a clock calls the engine at each reading, the engine stays intact.
    """
    acting = False

    class Clock(ManualClock):
        def monotonic_ns(self) -> int:
            nonlocal acting
            if not acting:
                acting = True
                with contextlib.suppress(ClosedError, NameError):
                    ACTIONS[action](engine, other)
                acting = False
            return super().monotonic_ns()

    engine = Engine(Clock())
    other = engine.call_later(5, nothing)
    with contextlib.suppress(ClosedError):
        timer = engine.call_later(1, nothing)
        timer.restart(2)
        engine.move_many([timer, other], 1)
        engine.call_later_many([1, 2], nothing)
        engine.fire_due()
    engine.check()
    stats = engine.stats()
    assert stats["sets"] == stats["pending"] + stats["cancels"] + stats["fires"]


@pytest.mark.parametrize("action", ACTIONS)
def test_the_wake_may_do_anything(action: str) -> None:
    """
    `on_earlier` may call the engine that calls it.
    """
    engine = Engine(ManualClock())
    other = engine.call_later(5, nothing)
    engine.on_earlier = lambda: ACTIONS[action](engine, other)
    engine.arm()
    engine.call_later(1, nothing)
    engine.check()


def test_a_delay_that_acts_when_it_is_read() -> None:
    """
    The `__float__` of a delay may close the engine or cancel the timer.

    The result is the same as if this had happened before the call that reads the delay.
    """
    engine = Engine(ManualClock())

    class Delay:
        def __float__(self) -> float:
            engine.close()
            return 1.0

    with pytest.raises(ClosedError):
        engine.call_later(Delay(), nothing)  # type: ignore[arg-type]
    timer = Engine(ManualClock()).call_later(1, nothing)

    class Cancelling:
        def __float__(self) -> float:
            timer.cancel()
            return 1.0

    assert timer.restart(Cancelling()) is False  # type: ignore[arg-type]
    assert timer.cancelled()


def test_a_payload_is_never_compared() -> None:
    """
    Neither wheel nor engine compares or hashes callbacks and payloads.
    """

    class Sour:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __call__(self) -> None:
            pass

    wheel = Wheel()
    ids = [wheel.insert(5, Sour()) for _ in range(10)]
    assert wheel.cancel(ids[3])
    assert len(wheel.advance(5)) == 9
    clock = ManualClock()
    engine = Engine(clock)
    timers = [engine.call_later(1, Sour()) for _ in range(10)]
    assert engine.cancel_many(timers[:3]) == 3
    clock.jump(1)
    assert engine.fire_due() == 7


def test_a_wheels_payload_acts_when_it_is_dropped() -> None:
    """
    If the `__del__` of a payload uses the wheel, it finds the wheel consistent, however the payload left the wheel.
    """
    wheel = Wheel()
    ran: list[str] = []

    def act() -> None:
        wheel.check()
        wheel.insert(99, None)

    ids = [wheel.insert(5, Mine(act, ran)) for _ in range(4)]
    wheel.cancel(ids[0])
    wheel.advance(5, 1)
    wheel.drain()
    assert ran == ["finalized"] * 4
    wheel.check()
