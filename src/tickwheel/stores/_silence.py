"""
The rule for a server that answers again after a silence longer than a lease.

All leases have then expired, although their owners may live: the first node to get an answer would take them all, and
jobs would run twice. So an owner keeps its own leases under their epochs, and takes no others for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["Silence"]

_SILENT: Final = 0.5
"""The share of a lease without an answer that counts as a silence: its other owners renew up to a third earlier."""
_GRACE: Final = 0.6
"""The share of a lease within which each living owner renews: a third between renewals, and a failed call."""


class Silence:
    """
    Detects periods without answers; used by the thread that renews.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s, self._clock = lease_s, clock
        self._asked_at = 0.0
        self._answered_at: float | None = None
        self._has_failed = False
        self._until = 0.0

    def is_over(self, *, has_leases: bool) -> bool:
        """
        Return False if the server was silent and has not answered for long enough since; call it before each renewal.

        A node that *has_leases* renews often enough to detect silence by time alone; other nodes detect a failed call.
        """
        now = self._asked_at = self._clock()
        may_be_silent, self._has_failed = has_leases or self._has_failed, True
        if may_be_silent and self._answered_at is not None and now - self._answered_at > self._lease_s * _SILENT:
            self._until = now + self._lease_s * _GRACE
        return now >= self._until

    def answered(self) -> None:
        self._answered_at, self._has_failed = self._asked_at, False  # the leases may have begun that early
