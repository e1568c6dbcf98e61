"""
The contract suite of stores.

To test a store, write a subclass. pytest collects it; unittest does, too, if it also derives from `TestCase`:

    class TestMyStore(StoreSuite):
        def make_store(self):
            return MyStore(...)          # empty, not open

If several processes can open the store at once, add a second class:

    class TestMySharedStore(SharedStoreSuite):
        def make_store(self): ...
        def make_peer(self, store): ...  # another object on the same data, not open

If the data outlives the process, add a third class:

    class TestMyDurableStore(DurableStoreSuite):
        def recipe(self):
            return MyStore, (path,)      # another process calls it, too
"""

from __future__ import annotations

from tickwheel.testing.store_suite._acts import ActTests
from tickwheel.testing.store_suite._adopt import AdoptTests
from tickwheel.testing.store_suite._aside import AsideTests
from tickwheel.testing.store_suite._batch import BatchTests
from tickwheel.testing.store_suite._begin import BeginTests
from tickwheel.testing.store_suite._bulk import BulkTests
from tickwheel.testing.store_suite._cancel import CancelTests
from tickwheel.testing.store_suite._claim import ClaimTests
from tickwheel.testing.store_suite._columns import ColumnTests
from tickwheel.testing.store_suite._dead import DeadTests
from tickwheel.testing.store_suite._declare import DeclareTests
from tickwheel.testing.store_suite._due import DueTests
from tickwheel.testing.store_suite._durable import DurabilityTests
from tickwheel.testing.store_suite._handover import HandoverTests
from tickwheel.testing.store_suite._history import HistoryTests
from tickwheel.testing.store_suite._input import InputTests
from tickwheel.testing.store_suite._last_check import LastCheckTests
from tickwheel.testing.store_suite._list import ListTests
from tickwheel.testing.store_suite._machine import MachineTests
from tickwheel.testing.store_suite._message import MessageTests
from tickwheel.testing.store_suite._minutes import MinuteTests
from tickwheel.testing.store_suite._move import MoveTests
from tickwheel.testing.store_suite._open import OpenTests
from tickwheel.testing.store_suite._owner import OwnerTests
from tickwheel.testing.store_suite._pause import PauseTests
from tickwheel.testing.store_suite._redate import RedateTests
from tickwheel.testing.store_suite._relative import RelativeTests
from tickwheel.testing.store_suite._repeat import RepeatTests
from tickwheel.testing.store_suite._replay import ReplayTests
from tickwheel.testing.store_suite._scopes import ScopeTests
from tickwheel.testing.store_suite._series import SeriesTests
from tickwheel.testing.store_suite._set import SetTests
from tickwheel.testing.store_suite._settle import SettleTests

__all__ = ["DurableStoreSuite", "SharedStoreSuite", "StoreSuite"]


class StoreSuite(
    OpenTests,
    SetTests,
    ColumnTests,
    SeriesTests,
    DeclareTests,
    RepeatTests,
    MoveTests,
    MessageTests,
    CancelTests,
    ReplayTests,
    AdoptTests,
    BeginTests,
    ClaimTests,
    LastCheckTests,
    SettleTests,
    HistoryTests,
    ActTests,
    MinuteTests,
    AsideTests,
    PauseTests,
    ScopeTests,
    RedateTests,
    RelativeTests,
    BatchTests,
    DueTests,
    DeadTests,
    ListTests,
    OwnerTests,
    InputTests,
    BulkTests,
    MachineTests,
):
    """
    Tests for every promise that one store object can keep. A subclass provides `make_store`.
    """


class SharedStoreSuite(HandoverTests):
    """
    Tests for the promises of two store objects on the same data. A subclass provides `make_store` and `make_peer`.
    """


class DurableStoreSuite(DurabilityTests):
    """
    Tests that data outlives the process, after a close and after kill -9. A subclass provides `recipe`.

    The suite never opens two stores at once, so a store that only one process may open can pass.
    """
