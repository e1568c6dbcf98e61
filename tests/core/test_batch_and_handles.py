"""
Batches and handles in one turn.

A batch is many timers with one callback. A handle is a single timer. A change that a batch's callback makes to a later
timer takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import _core
from tickwheel.testing import ManualClock
from tickwheel.timers.engine import WheelEngine
from tickwheel.wheels.heap import HeapWheel


@pytest.fixture(params=["native", "heap"])
def engine(request: pytest.FixtureRequest) -> Any:
    clock = ManualClock()
    return _core.Engine(clock) if request.param == "native" else WheelEngine(HeapWheel(), clock)


Act = Callable[[Any, Any], object]
ACTS: dict[str, tuple[Act, int, bool]] = {
    "cancel": (lambda _, timer: timer.cancel(), 0, True),
    "cancel many": (lambda engine, timer: engine.cancel_many([timer]), 0, True),
    "drain": (lambda engine, _: engine.drain(), 0, True),
    "close": (lambda engine, _: engine.close(), 0, True),
    "move away": (lambda _, timer: timer.restart(60), 0, False),
    "move here": (lambda _, timer: timer.restart(0), 0, False),
    "nothing": (lambda *_: None, 1, False),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_batch_may_do_anything_to_the_next_handle(engine: Any, act: str) -> None:
    """
    A batch's callback may cancel or move the handle that is due next, or drain or close the engine.

    While the callback runs, that handle is still pending.
    """
    do, calls, is_cancelled = ACTS[act]
    called: list[str] = []
    was_pending: list[bool] = []

    def batch(_: Any) -> None:
        was_pending.append(timer.pending())
        do(engine, timer)

    engine.call_later_many([0.1, 0.1, 0.1], batch)
    timer = engine.call_later(0.2, called.append, "called")
    engine.clock.advance(1.0)
    engine.fire_due()
    assert was_pending[0]
    assert (len(called), timer.cancelled()) == (calls, is_cancelled)
    engine.check()
    stats = engine.stats()
    assert stats["sets"] == stats["pending"] + stats["cancels"] + stats["fires"]


def test_a_batch_that_ends_the_turn_leaves_the_next_handle(engine: Any) -> None:
    """
    If a batch raises something that is not an Exception, the turn ends.

    The next handle fires in the next turn.
    """
    called: list[str] = []

    def batch(_: Any) -> None:
        raise KeyboardInterrupt

    engine.call_later_many([0.1], batch)
    timer = engine.call_later(0.2, called.append, "called")
    engine.clock.advance(1.0)
    with pytest.raises(KeyboardInterrupt):
        engine.fire_due()
    assert (called, timer.pending()) == ([], True)
    engine.fire_due()
    assert called == ["called"]


def test_a_limit_counts_ids_and_handles_alike(engine: Any) -> None:
    """
    If the number of callbacks in a turn is limited, a batch and a handle each count as one callback.

    The next turn continues in order.
    """
    order: list[Any] = []
    engine.call_later_many([0.1, 0.1], lambda ids: order.extend(["id"] * len(ids)))
    engine.call_later(0.15, order.append, "handle")
    engine.call_later_many([0.2, 0.2], lambda ids: order.extend(["late"] * len(ids)))
    engine.clock.advance(1.0)
    counts = [engine.fire_due(limit) for limit in (1, 2, 1, 5)]
    assert counts == [1, 2, 1, 1]
    assert order == ["id", "id", "handle", "late", "late"]
