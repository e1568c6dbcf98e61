"""
The engine over any wheel keeps the contract, on the heap.
"""

from tickwheel.testing import ManualClock
from tickwheel.testing.engine_suite import EngineSuite
from tickwheel.timers.engine import WheelEngine
from tickwheel.wheels.heap import HeapWheel


class TestWheelEngine(EngineSuite):
    """
    The contract suite on `WheelEngine`.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> WheelEngine:
        """
        Return an engine over a heap.
        """
        return WheelEngine(HeapWheel(), clock, max_pending=max_pending)
