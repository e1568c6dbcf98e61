"""
Counts and logs requests that were refused for a missing or invalid token. The log never contains the token.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from tickwheel.service.problems import show

__all__ = ["REASONS", "Reason", "Rejections"]

Reason: TypeAlias = Literal["missing", "unknown", "expired", "forbidden"]
REASONS: Final[tuple[Reason, ...]] = ("missing", "unknown", "expired", "forbidden")
_LOG: Final = logging.getLogger("tickwheel.service")
_EVERY_S: Final = 10.0
"""Minimum seconds between two log lines about one reason, so that a flood does not fill the disk."""


class Rejections:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._counts = dict.fromkeys(REASONS, 0)
        self._logged: dict[Reason, tuple[float, int]] = {}

    def counts(self) -> dict[Reason, int]:
        return dict(self._counts)

    def note(self, reason: Reason, client: str, name: str = "") -> None:
        """
        Count a rejection. Log it, unless another rejection with this reason was logged within the last ten seconds.

        A missing token is counted but not logged, because every page makes one request without a token.
        """
        self._counts[reason] += 1
        if reason == "missing":
            return
        now, count = self._monotonic(), self._counts[reason]
        last, counted = self._logged.get(reason, (now - _EVERY_S, 0))
        if now - last < _EVERY_S:
            return
        self._logged[reason] = now, count
        more = f", and {count - counted - 1} others since the last such line" if count - counted > 1 else ""
        whose = f" {show(name)}" if name else ""
        _LOG.warning("a request from %s was refused: its token%s is %s%s", show(client), whose, reason, more)
