"""
The suite of durable stores, run on stores that keep their data.

It also runs on a store that only one process may open, and must fail on a store that keeps nothing.
"""

from __future__ import annotations

import pytest

from tickwheel.stores import MemoryStore, make_store
from tickwheel.testing.store_suite import DurableStoreSuite


class TestDurableSqlite(DurableStoreSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def recipe(self):
        """
        Return a function that opens the same SQLite file each time.
        """
        return make_store, (f"sqlite:///{self.folder / 'jobs.db'}",)


class TestDurableServer(DurableStoreSuite):
    @pytest.fixture(autouse=True)
    def _server(self, server_url):
        self.url = server_url

    def recipe(self):
        """
        Return a function that opens the same database each time, with short leases.
        """
        return make_store, (f"{self.url}{'&' if '?' in self.url else '?'}lease_s=2",)


@pytest.mark.needs("os.fork")
class TestDurableExclusive(TestDurableSqlite):
    """
    The suite of durable stores, on a file that only one process at a time may open.
    """

    def recipe(self):
        from exclusive_store import ExclusiveStore  # noqa: PLC0415  its lock is POSIX's

        return ExclusiveStore, (str(self.folder / "jobs.db"),)


class Forgetful(DurableStoreSuite):
    def recipe(self):
        """
        Return a function that opens a store which forgets everything when it closes.
        """
        return MemoryStore, ()


@pytest.mark.parametrize("name", [name for name in dir(DurableStoreSuite) if name.startswith("test_")])
def test_a_store_that_forgets_fails(name):
    """
    Each test of the suite fails on a store that forgets everything, so the suite detects such a store.
    """
    with pytest.raises(AssertionError):
        getattr(Forgetful(), name)()
