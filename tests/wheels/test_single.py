"""
The single ring passes the contract suite of wheels.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.single import SingleWheel


class TestSingleWheel(WheelSuite):
    """
    The contract suite on a ring of a minute.
    """

    def make_wheel(self, start: int) -> SingleWheel:
        wheel = SingleWheel(tick=0.1, slots=600)
        wheel.advance(start)
        return wheel


class TestSmallSingleWheel(WheelSuite):
    """
    The contract suite on a ring of 63 nanoseconds, which is the shortest span that the suite allows.
    """

    def make_wheel(self, start: int) -> SingleWheel:
        wheel = SingleWheel(tick=7e-9, slots=9)
        wheel.advance(start)
        return wheel
