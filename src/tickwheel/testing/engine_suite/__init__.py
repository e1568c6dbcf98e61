"""
The contract suite of engines: wheel, clock and callbacks.

To test an engine, write a subclass. pytest collects it; unittest does, too, if it also derives from `TestCase`:

    class TestMyEngine(EngineSuite):
        def make_engine(self, clock, max_pending=None):
            return MyEngine(clock, max_pending=max_pending)

The engine's deadlines must be exact; an engine that rounds deadlines to ticks fails.
"""

from tickwheel.testing.engine_suite._arm import ArmTests
from tickwheel.testing.engine_suite._bulk import BulkTests
from tickwheel.testing.engine_suite._close import CloseTests
from tickwheel.testing.engine_suite._crossing import CrossingTests
from tickwheel.testing.engine_suite._due import DueTests
from tickwheel.testing.engine_suite._input import InputTests
from tickwheel.testing.engine_suite._life import LifeTests
from tickwheel.testing.engine_suite._limit import LimitTests
from tickwheel.testing.engine_suite._listing import ListingTests
from tickwheel.testing.engine_suite._memory import MemoryTests
from tickwheel.testing.engine_suite._overlap import OverlapTests
from tickwheel.testing.engine_suite._raise import RaiseTests
from tickwheel.testing.engine_suite._reenter import ReenterTests
from tickwheel.testing.engine_suite._runner import RunnerTests
from tickwheel.testing.engine_suite._threads import ThreadTests

__all__ = ["EngineSuite"]


class EngineSuite(
    DueTests,
    ArmTests,
    LifeTests,
    ReenterTests,
    RaiseTests,
    LimitTests,
    CloseTests,
    BulkTests,
    CrossingTests,
    InputTests,
    RunnerTests,
    OverlapTests,
    MemoryTests,
    ThreadTests,
    ListingTests,
):
    """
    Tests for all guarantees that an engine must give. A subclass provides `make_engine`.
    """
