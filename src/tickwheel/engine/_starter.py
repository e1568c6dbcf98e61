"""
Starts temporary threads, and tries again after the system had none to spare.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.drivers import TimerWheel
from tickwheel.errors import ClosedError
from tickwheel.host.hooks import Hooks

__all__ = ["Starter"]

_RETRY_S: Final = 1.0


class Starter:
    """
    Starts threads for one *purpose*, which the log names.
    """

    def __init__(self, purpose: str, hooks: Hooks, pacer: TimerWheel) -> None:
        self._purpose = purpose
        self._hooks = hooks
        self._pacer = pacer
        self._is_refused = False

    def start(self, start: Callable[[], object], again: Callable[[], object]) -> bool:
        """
        Call *start* and return whether the system had a thread to spare; if not, *again* is called in a second.

        Nothing is started until then, so a full system is asked once a second. The caller may hold a lock that *again*
        takes.
        """
        if self._is_refused:
            return False
        try:
            start()
        except (RuntimeError, OSError) as error:  # "can't start new thread", and "too many open files" for a loop
            self._is_refused = True
            with suppress(ClosedError):  # a stop
                self._pacer.call_later(_RETRY_S, self._retry, again, error)
        return not self._is_refused

    def _retry(self, again: Callable[[], object], error: Exception) -> None:
        self._hooks.failed(f"starting {self._purpose}", error)
        self._is_refused = False
        again()
