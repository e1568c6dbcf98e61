"""
The contract suite of every wheel design.

To test a design, write a subclass. pytest collects it; unittest does, too, if it also derives from `TestCase`:

    class TestMyWheel(WheelSuite):
        def make_wheel(self, start):
            wheel = MyWheel()
            wheel.advance(start)
            return wheel

The suite tests the `abilities` that the design declares: lateness, order and span. A limited span must have at least
eight ticks.
"""

from tickwheel.testing.wheel_suite._ageing import AgeingTests
from tickwheel.testing.wheel_suite._cancel import CancelTests
from tickwheel.testing.wheel_suite._due import DueTests
from tickwheel.testing.wheel_suite._input import InputTests
from tickwheel.testing.wheel_suite._limit import LimitTests
from tickwheel.testing.wheel_suite._machine import MachineTests
from tickwheel.testing.wheel_suite._memory import MemoryTests
from tickwheel.testing.wheel_suite._move import MoveTests
from tickwheel.testing.wheel_suite._next import NextTests

__all__ = ["WheelSuite"]


class WheelSuite(
    DueTests, LimitTests, NextTests, CancelTests, MoveTests, InputTests, MemoryTests, AgeingTests, MachineTests
):
    """
    Tests for all guarantees that a wheel must give. A subclass provides `make_wheel`.
    """
