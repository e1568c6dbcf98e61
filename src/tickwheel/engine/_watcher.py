from __future__ import annotations

from typing import Final

from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine.resources import Resources
from tickwheel.stores import Partitioned

__all__ = ["Watcher"]

_NOTIFIED_S: Final = 60.0
"""Seconds between two reads of changes if no notification arrives, because a notification may be lost."""
_POLLED_S: Final = 0.5
"""Seconds between two reads of changes if the store cannot notify. A job that is set to run now can be this late."""
_LOOK_S: Final = 2.0
"""Seconds between two searches for overdue jobs, so that each is found within the promised 5 s."""
_RETRY_S: Final = 1.0


class Watcher:
    """
    Waits in its own thread for writes of other processes, and starts a search for overdue jobs every two seconds.
    """

    def __init__(self, resources: Resources, callbacks: EngineCallbacks) -> None:
        self._store = resources.store
        self._partitioned = self._store if isinstance(self._store, Partitioned) else None
        self._hooks = resources.hooks
        self._callbacks = callbacks
        self._monotonic = resources.runtime.monotonic
        self._stopped = resources.runtime.event()
        self._thread = resources.runtime.thread(target=self._run, name="tickwheel-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        self._store.wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        abilities = self._store.abilities
        if abilities.is_private:
            return
        every_s = _NOTIFIED_S if abilities.has_notify else _POLLED_S
        changes_at = self._monotonic() + every_s
        look_at = self._monotonic() + _LOOK_S
        while not self._stopped.is_set():
            try:
                has_changes = self._store.wait_for_change(max(0.0, min(changes_at, look_at) - self._monotonic()))
            except Exception as error:  # noqa: BLE001 - this thread must not end: nothing would fire any more
                if self._stopped.wait(_RETRY_S):
                    return
                has_changes = True
                self._hooks.failed("waiting for changes", error)
            now = self._monotonic()
            if self._stopped.is_set():
                return
            if now >= changes_at:
                changes_at = now + every_s
                self._callbacks.on_external_writes()
            elif has_changes:
                self._callbacks.on_external_writes(None if self._partitioned is None else self._partitioned.heard())
            if now >= look_at:
                look_at = now + _LOOK_S
                self._callbacks.sweep_overdue()
