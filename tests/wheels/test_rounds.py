"""
The ring of rounds passes the contract suite of wheels.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.rounds import RoundsWheel


class TestRoundsWheel(WheelSuite):
    """
    The contract suite on a ring of Netty's size.
    """

    def make_wheel(self, start: int) -> RoundsWheel:
        wheel = RoundsWheel(tick=0.1, slots=512)
        wheel.advance(start)
        return wheel


class TestSmallRoundsWheel(WheelSuite):
    """
    The contract suite on the smallest ring, in which almost every delay takes several rounds.
    """

    def make_wheel(self, start: int) -> RoundsWheel:
        wheel = RoundsWheel(tick=7e-9, slots=2)
        wheel.advance(start)
        return wheel
