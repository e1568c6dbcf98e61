"""
Which engine a wheel gets.
"""

from __future__ import annotations

from tickwheel.clock import Clock
from tickwheel.timers._contract import Engine
from tickwheel.timers._engine import WheelEngine
from tickwheel.wheels._contract import Wheel
from tickwheel.wheels.heap import HeapWheel

__all__ = ["new_engine"]


def new_engine(wheel: Wheel | None, clock: Clock | None, max_pending: int | None) -> Engine:
    """
    Return an engine over *wheel*, or the default one.
    """
    return WheelEngine(HeapWheel() if wheel is None else wheel, clock, max_pending=max_pending)
