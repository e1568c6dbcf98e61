"""
The watcher: notices what other processes write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tickwheel.observe._events import StoreFailed
from tickwheel.scheduler.engine._ground import Ground
from tickwheel.scheduler.errors import StoreError

__all__ = ["Watcher"]

_NOTIFIED_S: Final = 60.0
"""How long one wait is where the store tells; a hint may be lost, so it looks all the same, seldom."""
_POLLED_S: Final = 0.5
"""How long it is where the store cannot tell: what a job set elsewhere may be late if it is due at once."""
_RETRY_S: Final = 1.0


class Watcher:
    """
    Waits in a thread of its own until others may have written, and calls *on_change*.
    """

    def __init__(self, ground: Ground, on_change: Callable[[], object]) -> None:
        self._store = ground.store
        self._hooks = ground.hooks
        self._on_change = on_change
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tickwheel-watcher", daemon=True)

    def start(self) -> None:
        """
        Begin to watch.
        """
        self._thread.start()

    def stop(self, timeout_s: float | None) -> None:
        """
        End the wait that is under way, and the thread.
        """
        self._stopped.set()
        self._store.wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        wait_s = _NOTIFIED_S if self._store.abilities.has_notify else _POLLED_S
        while not self._stopped.is_set():
            try:
                self._store.wait_for_change(wait_s)
            except StoreError as error:
                if self._stopped.wait(_RETRY_S):
                    return
                if self._hooks.is_active:
                    self._hooks.tell(StoreFailed("waiting for changes", str(error)))
            if not self._stopped.is_set():
                self._on_change()
