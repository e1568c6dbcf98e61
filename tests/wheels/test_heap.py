"""
The heap keeps the wheel's contract.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.heap import HeapWheel


class TestHeap(WheelSuite):
    """
    The contract suite on the heap.
    """

    def make_wheel(self, start: int) -> HeapWheel:
        """
        Return a heap, which has no pointer that could be set to *start*.
        """
        wheel = HeapWheel()
        wheel.advance(start)
        return wheel
