"""
Waits until the owner of a store ends, and then takes over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.errors import InvalidJobError, StoreError

if TYPE_CHECKING:
    import threading

__all__ = ["Standby", "check_role"]

_log = logging.getLogger("tickwheel.scheduler")

_ROLES: Final = ("owner", "auto")
_PAUSE_S: Final = 0.5
"""Seconds between two attempts to become the owner. The release of a file lock does not wake a waiting process."""
_LOOK_EVERY: Final = 10
"""Number of attempts to become the owner between two searches for jobs that the present owner has not fired in time."""


def check_role(role: str) -> None:
    if role not in _ROLES:
        raise InvalidJobError("role", role, f"pass one of {', '.join(_ROLES)}")


class Standby:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._ended = runtime.event()
        self._thread: threading.Thread | None = None

    def begin(self, start: Callable[[], object], look: Callable[[], object]) -> None:
        """
        Call *start* in a new thread, and again after each transient `StoreError`. Meanwhile, *look* finds overdue jobs.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # the child of a fork lacks the thread
                make = self._runtime.thread
                self._thread = make(target=self._run, args=(start, look), name="tickwheel-standby", daemon=True)
                self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def _run(self, start: Callable[[], object], look: Callable[[], object]) -> None:
        for number in count():
            if self._ended.wait(_PAUSE_S):
                return
            try:
                if number % _LOOK_EVERY == 0:
                    look()
                start()
            except ClosedError:
                return
            except StoreError as error:
                if not error.is_transient:
                    _log.exception("this scheduler no longer waits to become the owner")
                    return
            except Exception:  # noqa: BLE001  without this thread no process might fire any more
                _log.exception("this scheduler could not become the owner; it will try again")
            else:
                _log.info("this scheduler has become the owner")
                return
