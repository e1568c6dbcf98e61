"""
The watcher: notices what other processes write, and has the stager look back regularly.
"""

from __future__ import annotations

from typing import Final

from tickwheel.engine._way import Way
from tickwheel.engine.resources import Resources
from tickwheel.stores import Partitioned

__all__ = ["Watcher"]

_NOTIFIED_S: Final = 60.0
"""How often changes are read without a hint where the store gives one: hints may be lost, and then jobs that are far
away are unknown."""
_POLLED_S: Final = 0.5
"""How often they are where it gives none: what a job set elsewhere may be late if it is due at once."""
_LOOK_S: Final = 2.0
"""How often overdue jobs are looked for: with what counts as overdue, well within the 5 s of the promise."""
_RETRY_S: Final = 1.0


class Watcher:
    """
    Waits in a thread of its own until others may have written.

    Args:
        resources: What all roles share.
        way: Notified that others may have written, and every other second that it is time to look back.
    """

    def __init__(self, resources: Resources, way: Way) -> None:
        self._store = resources.store
        self._partitioned = self._store if isinstance(self._store, Partitioned) else None
        self._hooks = resources.hooks
        self._way = way
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
                self._way.changed()
            elif has_changes:
                self._way.changed(None if self._partitioned is None else self._partitioned.heard())
            if now >= look_at:
                look_at = now + _LOOK_S
                self._way.look_back()
