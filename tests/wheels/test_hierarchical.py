"""
The hierarchical wheel passes the contract suite of wheels.
"""

from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.wheels.hierarchical import HierarchicalWheel


class TestHierarchicalWheel(WheelSuite):
    """
    The contract suite on wheels of Kafka's sizes.
    """

    def make_wheel(self, start: int) -> HierarchicalWheel:
        wheel = HierarchicalWheel(tick=0.001, slots=20)
        wheel.advance(start)
        return wheel


class TestSmallHierarchicalWheel(WheelSuite):
    """
    The contract suite on levels of two slots each, of which there are about sixty.
    """

    def make_wheel(self, start: int) -> HierarchicalWheel:
        wheel = HierarchicalWheel(tick=7e-9, slots=2)
        wheel.advance(start)
        return wheel
