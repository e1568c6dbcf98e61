"""
The engine passes the contract suite of engines. Here the wheel is a heap.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel.testing import ManualClock
from tickwheel.testing.engine_suite import EngineSuite
from tickwheel.timers.engine import WheelEngine
from tickwheel.wheels.heap import HeapWheel


class TestWheelEngine(EngineSuite):
    """
    The contract suite on `WheelEngine`.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> WheelEngine:
        return WheelEngine(HeapWheel(), clock, max_pending=max_pending)


@pytest.mark.parametrize("part", [lambda engine: engine, lambda engine: engine._filing.wheel], ids=["engine", "wheel"])
def test_the_counts_of_a_drain_that_a_signal_interrupts(part: Callable[[WheelEngine], Any]) -> None:
    """
    If a signal handler sets and cancels a timer while `drain` counts the timers, `stats` includes it.
    """
    engine = WheelEngine(HeapWheel(), ManualClock())
    engine.call_later(1, print)
    here = type(part(engine)).drain.__code__

    def handler(frame: Any, event: str, called: object) -> None:
        if frame.f_code is here and event == "c_call" and called is len:
            if part(engine) is engine:
                engine.call_later(1, print).cancel()
            else:
                part(engine).cancel(part(engine).insert(1, None))

    sys.setprofile(handler)
    try:
        part(engine).drain()
    finally:
        sys.setprofile(None)
    part(engine).check()
    assert part(engine).stats()["cancels"] == 2
