from __future__ import annotations

import math
from typing import Final

__all__ = ["LONG_CALLS", "call_s", "calls_of"]

_SHARE: Final = 0.2
"""Maximum length of a call, as a fraction of a lease."""
_LEAST_S: Final = 0.5
"""Minimum time limit of a call. With short leases, a busy server would otherwise look like a silent one."""
_MOST_S: Final = 10.0
LONG_CALLS: Final = 3
"""Time limit of a prune or a large read, in units of `call_s`. It is shorter than a lease."""
_PAGE: Final = 1_000
"""The time limit of one call is enough for a batch of up to this many writes. The writer's batches are no larger."""


def call_s(lease_s: float) -> float:
    return min(max(lease_s * _SHARE, _LEAST_S), _MOST_S)


def calls_of(writes: int) -> int:
    return max(1, math.ceil(writes / _PAGE))
