"""
The native objects and the garbage collector.

Cycles are collected, and live objects stay.
"""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import TYPE_CHECKING

import pytest

from tickwheel._core import Engine, Timer, Waiter, Wheel
from tickwheel.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable


class Server:
    """
    An object with a wheel, and with timers that call the object. This makes reference cycles.
    """

    def __init__(self, ways: str) -> None:
        """
        Create a reference cycle through this object for each of the *ways*, which are names in `SETTERS`.
        """
        self.engine = Engine(ManualClock())
        self.timers: list[object] = []
        for way in ways.split():
            self.timers.append(SETTERS[way](self))

    def fire(self, *_: object) -> None:
        pass


SETTERS: dict[str, Callable[[Server], object]] = {
    "method": lambda server: server.engine.call_later(1, server.fire),
    "argument": lambda server: server.engine.call_later(1, print, server),
    "default": lambda server: server.engine.call_later(1, lambda server=server: server),
    "batch": lambda server: server.engine.call_later_many([1.0, 2.0], server.fire),
    "error": lambda server: setattr(server.engine, "on_error", server.fire),
    "earlier": lambda server: setattr(server.engine, "on_earlier", server.fire),
    "runner": lambda server: setattr(server.engine, "runner", server.fire),
    "never": lambda server: server.engine.call_later(float("inf"), server.fire),
}


@pytest.mark.parametrize("end", ["left alone", "closed", "drained", "cancelled"])
@pytest.mark.parametrize("ways", [*SETTERS, " ".join(SETTERS)])
def test_a_cycle_is_collected(ways: str, end: str) -> None:
    """
    A cycle of object, wheel, callback and handle is collected, whether or not the wheel was closed.
    """
    server = Server(ways)
    gone = weakref.ref(server)
    if end == "closed":
        server.engine.close()
    elif end == "drained":
        server.engine.drain()
    elif end == "cancelled":
        server.engine.cancel_many([timer for timer in server.timers if isinstance(timer, Timer)])
    del server
    gc.collect()
    assert gone() is None


def test_a_handle_outlives_its_engine() -> None:
    """
    If a wheel is collected while one of its handles is referenced, the handle says that it was cancelled.

    Its methods do no harm.
    """
    server = Server("method")
    timer = server.timers[0]
    assert isinstance(timer, Timer)
    del server
    gc.collect()
    assert timer.cancelled()
    assert not timer.cancel()
    assert not timer.restart(1)
    assert timer.when() > 0
    assert repr(timer).startswith("<Timer cancelled")


def test_reachable_objects_stay() -> None:
    """
    Garbage collection frees nothing of a referenced wheel, even if it runs inside a callback.
    """
    clock = ManualClock()
    engine = Engine(clock)
    log: list[str] = []

    def collect() -> None:
        gc.collect()
        log.append("collect")

    timers = [engine.call_later(1, collect), engine.call_later(1, log.append, "argument")]
    del timers
    gc.collect()
    clock.jump(1)
    assert engine.fire_due() == 2
    assert log == ["collect", "argument"]


def test_an_engine_that_its_callback_drops_completes_the_turn() -> None:
    """
    If a callback drops the last reference to its engine and collects garbage, the turn's other callbacks still run.
    """
    clock = ManualClock()
    log: list[str] = []
    holder = {"engine": Engine(clock)}

    def drop() -> None:
        del holder["engine"]
        gc.collect()
        log.append("dropped")

    holder["engine"].call_later(0, drop)
    holder["engine"].call_later(0, log.append, "sibling")
    holder["engine"].fire_due()
    assert log == ["dropped", "sibling"]


def test_a_queued_timer_keeps_its_engine_alive() -> None:
    """
    A due timer that waits in a queue keeps its engine alive until the timer has run.
    """
    queue: list[Timer] = []
    log: list[str] = []
    engine = Engine(ManualClock())
    gone = weakref.ref(engine)
    engine.runner = queue.append
    engine.call_later(0, log.append, "ran")
    engine.fire_due()
    del engine
    gc.collect()
    assert gone() is not None
    queue.pop().run()
    gc.collect()
    assert log == ["ran"]
    assert gone() is None


@pytest.mark.parametrize("native", [Engine, Waiter, Wheel, Timer])
def test_no_subclass(native: type) -> None:
    """
    The native classes cannot be subclassed.

    Their fast paths would ignore the changes of a subclass.
    """
    with pytest.raises(TypeError):
        type("Sub", (native,), {})


def test_timers_cannot_be_made_directly() -> None:
    """
    A timer can be made only by `call_at` and `call_later`.
    """
    with pytest.raises(TypeError):
        Timer()


@pytest.mark.parametrize("native", [Engine(), Waiter(), Wheel(), Engine().call_later(9, print)])
def test_no_copy(native: object) -> None:
    """
    A timer cannot be pickled or copied, because it belongs to one wheel in one process.
    """
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle"):
            attempt(native)


def test_references_are_counted_exactly() -> None:
    """
    After a timer has ended in any way, its callback, argument and engine have as many references as before.
    """
    clock = ManualClock()
    engine = Engine(clock)

    def callback(*_: object) -> None:
        pass

    argument = object()

    def counts() -> tuple[int, int, int]:
        return (sys.getrefcount(callback), sys.getrefcount(argument), sys.getrefcount(engine))

    def fire() -> object:
        clock.jump(2)
        return engine.fire_due()

    ends: list[Callable[[list[Timer]], object]] = [
        lambda timers: [timer.cancel() for timer in timers],
        engine.cancel_many,
        lambda _: engine.drain(),
        lambda _: fire(),
        lambda _: engine.after_fork(),
    ]
    before = counts()
    for end in ends:
        for _ in range(100):
            timers = [engine.call_later(1, callback), engine.call_later(1, callback, argument)]
            timers[0].restart(1.5)
            ids = engine.call_later_many([1.0, 1.0], callback)
            assert sys.getrefcount(callback) == before[0] + 4
            end(timers)
            engine.cancel_many(ids)
            del timers
        assert counts() == before
    for bad in [(float("nan"), callback, argument), ("x", callback, argument), (1.0, argument, callback)]:
        for _ in range(100):
            with pytest.raises((TypeError, ValueError)):
                engine.call_later(*bad)  # type: ignore[arg-type]
    del bad
    assert counts() == before


@pytest.mark.parametrize("verb", ["pending", "drain", "close"])
def test_objects_are_released_if_a_list_cannot_be_made(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """
    If a `Pending` cannot be created, the objects that its list would have contained are released.
    """

    def refuse(*_: object) -> None:
        raise MemoryError

    def callback(*_: object) -> None:
        pass

    engine = Engine(ManualClock())
    before = sys.getrefcount(callback)
    for delay in (1, 2, 3):
        engine.call_later(delay, callback)
    engine.call_later_many([4, 5], callback)
    with monkeypatch.context() as patch:
        patch.setattr("tickwheel.typing.Pending", refuse)
        with pytest.raises(MemoryError):
            getattr(engine, verb)()
    assert len(engine) == (5 if verb == "pending" else 0)
    engine.drain()
    assert sys.getrefcount(callback) == before
