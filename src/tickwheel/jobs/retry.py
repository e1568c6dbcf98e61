from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.record import record

__all__ = ["KINDS", "USUAL_RETRY", "RetryPolicy", "check_policy", "wait_ms"]

KINDS = ("exponential", "linear", "list")
ATTEMPTS_MAX = 1000
WAIT_MAX_MS = 366 * 86_400_000
"""Maximum wait: a year, which is far below the end of int64."""


@record
class RetryPolicy:
    """
    The rule by which a failed job is retried. Waits are whole milliseconds.

    Attributes:
        attempts: Maximum number of attempts, including the first; 1 to 1000.
        kind: "exponential" (base, 2 base, 4 base, ...), "linear" (base, 2 base, 3 base, ...) or "list".
        base_ms: The first wait.
        max_ms: The longest wait.
        jitter: Fraction of the wait that is random, 0 to 1.
        waits_ms: The waits of a "list". The last wait is repeated.
    """

    attempts: int = 5
    kind: str = "exponential"
    base_ms: int = 1_000
    max_ms: int = 3_600_000
    jitter: float = 0.1
    waits_ms: tuple[int, ...] = ()

    def in_seconds(self) -> dict[str, Any]:
        """
        Return the fields in the form of the HTTP API: `base_s`, `max_s` and `waits_s` instead of ms.
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
"""The default policy. It is always the same object, so that it is recognised by identity."""


def wait_ms(policy: RetryPolicy, attempt: int, draw: float) -> int:
    """
    Return the wait after failed attempt number *attempt*. *draw* is the random number, in [0, 1), for the jitter.
    """
    if policy.kind == "list":
        wait = policy.waits_ms[min(attempt, len(policy.waits_ms)) - 1]
    elif policy.kind == "linear":
        wait = policy.base_ms * attempt
    else:
        wait = policy.base_ms << (attempt - 1)
    wait = min(wait, policy.max_ms)
    return wait - int(wait * policy.jitter * draw)


def check_policy(policy: RetryPolicy) -> RetryPolicy:
    if not isinstance(policy, RetryPolicy):
        raise InvalidJobError("retry", policy, "pass a RetryPolicy")
    if not isinstance(policy.attempts, int) or not 1 <= policy.attempts <= ATTEMPTS_MAX:
        raise InvalidJobError("retry.attempts", policy.attempts, f"pass an integer in 1..{ATTEMPTS_MAX}")
    if policy.kind not in KINDS:
        raise InvalidJobError("retry.kind", policy.kind, f"pass one of {', '.join(KINDS)}")
    if not 0 <= policy.jitter <= 1:
        raise InvalidJobError("retry.jitter", policy.jitter, "pass a fraction in 0..1")
    if policy.kind == "list" and not policy.waits_ms:
        raise InvalidJobError("retry", policy, "its kind is list, which needs at least one wait")
    for wait in (policy.base_ms, policy.max_ms, *policy.waits_ms):
        if not isinstance(wait, int) or not 0 <= wait <= WAIT_MAX_MS:
            raise InvalidJobError(
                "retry", policy, f"its waits are integers of milliseconds in 0..{WAIT_MAX_MS} (a year)"
            )
    return policy if isinstance(policy.waits_ms, tuple) else replace(policy, waits_ms=tuple(policy.waits_ms))
