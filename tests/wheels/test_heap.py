"""
The heap passes the contract suite of wheels.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.heap import HeapWheel


class TestHeap(WheelSuite):
    """
    The contract suite on the heap.
    """

    def make_wheel(self, start: int) -> HeapWheel:
        """
        Return a heap. It ignores *start*, because a heap has no pointer.
        """
        wheel = HeapWheel()
        wheel.advance(start)
        return wheel
