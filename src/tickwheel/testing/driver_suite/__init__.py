"""
The contract suite of drivers, which wait and fire for a TimerWheel.

A driver's tests are a subclass, which pytest collects; unittest does if it derives from `TestCase` as well. It defines
how to make a wheel, where a scenario runs, and how to wait there:

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
    The promises of every driver, as tests; a subclass provides `make_wheel`, `play` and `until`.

    It may override more: `runs_here`, `now` and, on an event loop, `clean_up`.
    """
