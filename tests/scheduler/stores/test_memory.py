"""
The memory store passes the contract suite, so tests may use it in place of a real store.
"""

from tickwheel.stores import MemoryStore
from tickwheel.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    """
    The contract suite on the memory store.
    """

    def make_store(self) -> MemoryStore:
        """
        Return an empty memory store.
        """
        return MemoryStore()
