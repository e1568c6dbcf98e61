"""
The time limits of calls on a server, which depend on the length of a lease.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["LONG_CALLS", "call_s", "calls_of"]

_SHARE: Final = 0.2
"""Maximum share of a lease that a call may take: the last part of the lease, in which it is not trusted."""
_LEAST_S: Final = 0.5
"""Minimum limit for leases of a second or two, so that a busy machine is not taken for a silent server."""
_MOST_S: Final = 10.0
LONG_CALLS: Final = 3
"""
Time limit of a read of many rows or a prune, in calls: it is shorter than the lease, and no renewal waits for it.
"""
_PAGE: Final = 1_000
"""Number of writes per call; the writer's batches are no larger."""


def call_s(lease_s: float) -> float:
    return min(max(lease_s * _SHARE, _LEAST_S), _MOST_S)


def calls_of(writes: int) -> int:
    """
    Return the number of calls whose time limits a batch of *writes* writes gets: one per page.
    """
    return max(1, math.ceil(writes / _PAGE))
