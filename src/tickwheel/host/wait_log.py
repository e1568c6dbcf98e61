from __future__ import annotations

import logging
from typing import Final

from tickwheel.host.runtime import Runtime
from tickwheel.jobs.explanation import EVERY_LANE, WaitReason

__all__ = ["WaitLog"]

_INTERVAL_S: Final = 1.0
_LINES_MAX: Final = 1_000
"""Maximum number of lanes and reasons whose last log line is remembered."""

_log = logging.getLogger("tickwheel.scheduler")


class WaitLog:
    """
    Logs each reason why a lane waits, at most once a second. Do not call `tell` while you hold a lock.
    """

    __slots__ = ("_lock", "_logged_at", "_monotonic")

    def __init__(self, runtime: Runtime) -> None:
        self._monotonic = runtime.monotonic
        self._lock = runtime.lock()
        self._logged_at: dict[tuple[str, WaitReason], float] = {}

    @property
    def is_on(self) -> bool:
        return _log.isEnabledFor(logging.DEBUG)

    def tell(self, lane: str, reason: WaitReason, text: str = "") -> None:
        if not _log.isEnabledFor(logging.DEBUG):
            return
        name, now = (lane, reason), self._monotonic()
        with self._lock:
            logged_at = self._logged_at.get(name)
            if logged_at is not None and now - logged_at < _INTERVAL_S:
                return
            self._logged_at.pop(name, None)  # moves to the end
            self._logged_at[name] = now
            if len(self._logged_at) > _LINES_MAX:
                del self._logged_at[next(iter(self._logged_at))]
        subject = "every lane" if lane == EVERY_LANE else f"lane {lane!r}"
        _log.debug("%s waits: %s%s", subject, reason, text and f" ({text})")
