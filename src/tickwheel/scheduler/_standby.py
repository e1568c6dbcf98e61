"""
Waiting for the owner of a store to end, so as to follow it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tickwheel.errors import ClosedError
from tickwheel.scheduler._runtime import Runtime
from tickwheel.scheduler.errors import StoreError

__all__ = ["Standby"]

_log = logging.getLogger("tickwheel.scheduler")

_PAUSE_S: Final = 0.5
"""Between two tries. The lock of a file wakes nobody when it is let go."""


class Standby:
    """
    A thread that tries to start until it succeeds, or until the scheduler stops. It lives while it has to wait.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ended = runtime.event()

    def begin(self, start: Callable[[], object]) -> None:
        """
        Call *start* from time to time, until it raises no `StoreError` that is transient.
        """
        self._runtime.thread(target=self._run, args=(start,), name="tickwheel-standby", daemon=True).start()

    def end(self) -> None:
        """
        Try no more. Twice is allowed.
        """
        self._ended.set()

    def _run(self, start: Callable[[], object]) -> None:
        while not self._ended.wait(_PAUSE_S):
            try:
                start()
            except ClosedError:
                return
            except StoreError as error:
                if not error.is_transient:
                    _log.exception("this scheduler no longer waits to become the owner")
                    return
            else:
                _log.info("this scheduler has become the owner")
                return
