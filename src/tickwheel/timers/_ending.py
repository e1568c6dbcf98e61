"""
An end that comes once, and those who wait to be told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tickwheel.errors import TickwheelError
from tickwheel.timers._locks import OUTER, new_lock

__all__ = ["Ending", "Reason"]

Reason: TypeAlias = tuple[type[TickwheelError], Any]
"""The class of the error that says why, and its fact: errors are made anew each time, as a raised one keeps frames."""

_log: Final = logging.getLogger("tickwheel")


class Ending:
    """
    How one context ends. All methods may be called from any thread; nobody is told under the lock.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._calls: dict[object, Callable[[Reason], object]] = {}
        self._lock = new_lock(OUTER)

    def then(self, call: Callable[[Reason], object]) -> Callable[[], object]:
        """
        Call *call* with the reason once the end comes, or at once if it has; return what takes this back.
        """
        name = object()
        with self._lock:
            if self.reason is None:
                self._calls[name] = call
                return lambda: self._calls.pop(name, None)
        call(self.reason)
        return bool

    def come(self, reason: Reason) -> bool:
        """
        End by *reason*, and tell everybody in the order in which they asked; return whether this was the end.
        """
        with self._lock:
            if self.reason is not None:
                return False
            self.reason = reason
            calls, self._calls = self._calls, {}
        for call in calls.values():
            try:
                call(reason)
            except Exception:  # noqa: BLE001 - the others are to be told as well
                _log.exception("what a context was to call at its end raised: %r", call)
        return True
