from __future__ import annotations

import threading
import time
from contextlib import suppress

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Job, JobQuery, Outcome, Set
from tickwheel.stores.contract import Store
from tickwheel.testing.store_suite._base import EVER, PATIENCE_S, StoreTests, refused

WAIT_S = 0.05


class OpenTests(StoreTests):
    def test_new_store_is_empty(self) -> None:
        with self.rig() as rig:
            assert rig.counts() == (0, 0, 0)
            assert rig.store.get("nothing") is None
            assert rig.due() == []
            assert rig.store.page(JobQuery()).jobs == ()

    def test_not_open(self) -> None:
        store = self.make_store()
        refused(StoreError, lambda: store.get("key"))
        refused(StoreError, lambda: store.apply([]))
        refused(StoreError, lambda: store.acquire("somebody"))
        store.close()

    def test_closed(self) -> None:
        with self.rig() as rig:
            store = rig.store
        store.close()
        refused(StoreError, lambda: store.get("key"))
        refused(StoreError, lambda: store.apply([Set(Job("key", 0, 0))]))
        refused(StoreError, store.count)
        refused(StoreError, lambda: store.due(0, EVER, None, 1))
        refused(StoreError, lambda: store.page(JobQuery()))

    def test_open_twice(self) -> None:
        with self.rig() as rig:
            job, running = rig.pending("pending"), rig.running("running")
            rig.store.open()
            assert rig.get("pending") == job
            assert rig.settle(running).outcome is Outcome.SETTLED

    def test_clock(self) -> None:
        with self.rig() as rig:
            assert 1_000_000_000_000 < rig.store.now_ms() < 10_000_000_000_000

    def test_wake_ends_the_next_wait(self) -> None:
        with self.rig() as rig:
            rig.store.wake()
            woken: list[bool] = []
            thread = threading.Thread(target=lambda: woken.append(rig.store.wait_for_change(3_600.0)), daemon=True)
            thread.start()
            thread.join(PATIENCE_S)
            assert woken == [False]

    def test_a_wait_without_a_change_lasts(self) -> None:
        with self.rig() as rig:
            rig.store.wake()
            assert any(self._lasts(rig.store) for _ in range(20)), "no wait lasts"

    @staticmethod
    def _lasts(store: Store) -> bool:
        begin = time.monotonic()
        store.wait_for_change(WAIT_S)
        return time.monotonic() - begin > WAIT_S / 2

    def test_close_ends_a_wait(self) -> None:
        with self.rig() as rig:
            store = rig.store
            thread = threading.Thread(target=_wait, args=(store,), daemon=True)
            thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _wait(store: Store) -> None:
    with suppress(StoreError):
        store.wait_for_change(3_600.0)
