"""
The cascading wheel passes the contract suite of wheels.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.cascading import CascadingWheel


class TestCascadingWheel(WheelSuite):
    """
    The contract suite on a cascading wheel with ticks of ten milliseconds.
    """

    def make_wheel(self, start: int) -> CascadingWheel:
        wheel = CascadingWheel(tick=0.01)
        wheel.advance(start)
        return wheel


class TestSmallCascadingWheel(WheelSuite):
    """
    The contract suite on a cascading wheel with ticks of seven nanoseconds, whose counter wraps twice a minute.
    """

    def make_wheel(self, start: int) -> CascadingWheel:
        wheel = CascadingWheel(tick=7e-9)
        wheel.advance(start)
        return wheel
