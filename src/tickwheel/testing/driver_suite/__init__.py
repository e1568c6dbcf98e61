"""
The contract suite of drivers. A driver waits for the next deadline of a TimerWheel and fires its timers.

To test a driver, write a subclass. pytest collects it; unittest does, too, if it also derives from `TestCase`. The
subclass defines how to make a wheel, how to run a scenario, and how to wait inside the scenario:

    class TestMyDriver(DriverSuite):
        def make_wheel(self, **options):
            return TimerWheel(driver=MyDriver(), **options)

        def play(self, scenario):
            play_here(scenario)

        async def until(self, signal):
            assert signal.wait(PATIENCE_S)

The suite waits for signals, never for time, and counts events instead of measuring time.
"""

from tickwheel.testing.driver_suite._base import PATIENCE_S, play_here
from tickwheel.testing.driver_suite._end import EndTests
from tickwheel.testing.driver_suite._fire import FireTests
from tickwheel.testing.driver_suite._inside import InsideTests
from tickwheel.testing.driver_suite._surroundings import SurroundingsTests

__all__ = ["PATIENCE_S", "DriverSuite", "play_here"]


class DriverSuite(FireTests, InsideTests, SurroundingsTests, EndTests):
    """
    Tests for the promises of every driver. A subclass provides `make_wheel`, `play` and `until`.

    It may also override `runs_here`, `now` and, on an event loop, `clean_up`.
    """
