"""
The native wheel passes the contract suite of wheels.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.native import NativeWheel


class TestNative(WheelSuite):
    """
    The contract suite on the native wheel.
    """

    def make_wheel(self, start: int) -> NativeWheel:
        wheel = NativeWheel()
        wheel.advance(start)
        return wheel
