"""
The native engine keeps the contract.
"""

from tickwheel._core import Engine
from tickwheel.testing import ManualClock
from tickwheel.testing.engine_suite import EngineSuite


class TestNativeEngine(EngineSuite):
    """
    The contract suite on the native engine.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> Engine:
        """
        Return a native engine.
        """
        return Engine(clock, max_pending=max_pending)
