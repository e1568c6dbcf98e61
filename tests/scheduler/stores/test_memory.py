"""
The memory store follows the protocol, so it is a verified fake.
"""

from tickwheel.stores import MemoryStore
from tickwheel.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    """
    The contract suite on the memory store.
    """

    def make_store(self) -> MemoryStore:
        """
        Return an empty store.
        """
        return MemoryStore()
