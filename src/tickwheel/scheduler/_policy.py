"""
The retry policy of a job.
"""

from __future__ import annotations

from typing import Final

from tickwheel.scheduler._record import record

__all__ = ["USUAL_RETRY", "RetryPolicy"]


@record
class RetryPolicy:
    """
    The rule by which a failed job is tried again.

    Attributes:
        attempts: How often at most, the first included; 1 to 1000.
        kind: "exponential" (base, 2 base, 4 base, ...), "linear" (base, 2 base, 3 base, ...) or "list".
        base_ms: The first wait.
        max_ms: The longest wait.
        jitter: Fraction of the wait that is drawn at random, 0 to 1.
        waits_ms: The waits of a "list", the last one repeated.
    """

    attempts: int = 5
    kind: str = "exponential"
    base_ms: int = 1_000
    max_ms: int = 3_600_000
    jitter: float = 0.1
    waits_ms: tuple[int, ...] = ()


USUAL_RETRY: Final = RetryPolicy()
"""The policy of most jobs; the same object everywhere, so that it is recognised without a comparison."""
