"""
Before and after.
"""

from __future__ import annotations

import threading

from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.model import Job, JobQuery, Set
from tickwheel.testing.store_suite._base import EVER, PATIENCE_S, StoreTests, refused


class OpenTests(StoreTests):
    """
    A new store, and a closed one.
    """

    def test_new_store_is_empty(self) -> None:
        """
        A new store holds nothing, and says so everywhere.
        """
        with self.rig() as rig:
            assert rig.counts() == (0, 0, 0)
            assert rig.store.get("nothing") is None
            assert rig.due() == []
            assert rig.store.page(JobQuery()).jobs == ()

    def test_not_open(self) -> None:
        """
        A store that was not opened refuses every use with an error of its own.
        """
        store = self.make_store()
        refused(StoreError, lambda: store.get("key"))
        refused(StoreError, lambda: store.apply([]))
        refused(StoreError, lambda: store.acquire("somebody"))
        store.close()

    def test_closed(self) -> None:
        """
        A closed store refuses every use, and a second close does nothing.
        """
        with self.rig() as rig:
            store = rig.store
        store.close()
        refused(StoreError, lambda: store.get("key"))
        refused(StoreError, lambda: store.apply([Set(Job("key", 0, 0))]))
        refused(StoreError, store.count)
        refused(StoreError, lambda: store.due(0, EVER, None, 1))
        refused(StoreError, lambda: store.page(JobQuery()))

    def test_clock(self) -> None:
        """
        The store's clock is in milliseconds since the epoch, and is not in the last century.
        """
        with self.rig() as rig:
            assert 1_700_000_000_000 < rig.store.now_ms() < 10_000_000_000_000

    def test_wake_ends_the_next_wait(self) -> None:
        """
        A wake-up that comes before the wait ends it at once, and does not count as a change.
        """
        with self.rig() as rig:
            rig.store.wake()
            woken: list[bool] = []
            thread = threading.Thread(target=lambda: woken.append(rig.store.wait_for_change(3_600.0)), daemon=True)
            thread.start()
            thread.join(PATIENCE_S)
            assert woken == [False]
