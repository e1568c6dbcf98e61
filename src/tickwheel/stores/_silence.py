"""
The rule for a server that answers again after a silence longer than a lease.

During the silence all leases have expired, although their owners may be alive. If the first node to get an answer took
all leases, jobs would run twice. An owner therefore keeps its own leases, with their epochs, but takes no new ones for
a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["Silence"]

_SILENT: Final = 0.5
"""Fraction of a lease without an answer that counts as a silence. Owners normally renew after a third of a lease."""
_GRACE: Final = 0.6
"""Fraction of a lease within which each live owner renews: a third, and the time of one failed call."""


class Silence:
    def __init__(self, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s, self._clock = lease_s, clock
        self._asked_at = 0.0
        self._answered_at: float | None = None
        self._has_failed = False
        self._until = 0.0

    def is_over(self, *, has_leases: bool) -> bool:
        """
        Return False during a silence of the server, and for a time after it. Call this before each renewal.

        A node with leases renews often, so a long time without an answer is a silence. For a node without leases, which
        seldom asks, a silence begins with a failed call.
        """
        now = self._asked_at = self._clock()
        may_be_silent, self._has_failed = has_leases or self._has_failed, True
        if may_be_silent and self._answered_at is not None and now - self._answered_at > self._lease_s * _SILENT:
            self._until = now + self._lease_s * _GRACE
        return now >= self._until

    def answered(self) -> None:
        self._answered_at, self._has_failed = (
            self._asked_at,
            False,
        )  # leases may start as early as the call
