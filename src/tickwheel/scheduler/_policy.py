"""
The retry policy of a job.
"""

from __future__ import annotations

from typing import Any, Final

from tickwheel.scheduler._record import record

__all__ = ["USUAL_RETRY", "RetryPolicy"]


@record
class RetryPolicy:
    """
    The rule by which a failed job is tried again. Its waits are whole milliseconds.

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

    def in_seconds(self) -> dict[str, Any]:
        """
        Return the fields as the HTTP API has them: `base_s`, `max_s` and `waits_s` for those in ms.
        """
        return {
            "attempts": self.attempts,
            "kind": self.kind,
            "base_s": self.base_ms / 1000,
            "max_s": self.max_ms / 1000,
            "jitter": self.jitter,
            "waits_s": [wait / 1000 for wait in self.waits_ms],
        }


USUAL_RETRY: Final = RetryPolicy()
"""The policy of most jobs; the same object everywhere, so that it is recognised without a comparison."""
