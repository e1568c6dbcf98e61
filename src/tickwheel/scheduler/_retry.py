"""
The wait before the next attempt.
"""

from __future__ import annotations

from dataclasses import replace

from tickwheel.scheduler.errors import InvalidJobError
from tickwheel.scheduler.model import RetryPolicy

__all__ = ["KINDS", "check_policy", "wait_ms"]

KINDS = ("exponential", "linear", "list")
ATTEMPTS_MAX = 1000
WAIT_MAX_MS = 366 * 86_400_000
"""A year: longer than anybody waits for a retry, and far from the end of int64."""


def wait_ms(policy: RetryPolicy, attempt: int, draw: float) -> int:
    """
    Return how long to wait after failed attempt number *attempt*, counted from 1.

    Args:
        policy: Of the job.
        attempt: Which attempt failed.
        draw: A random number in [0, 1). The jitter only shortens, so that `max_ms` is the longest wait.
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
    """
    Return *policy* if it can be followed, with its waits in a tuple.

    Raises:
        InvalidJobError: Naming the attribute, its value and the remedy.
    """
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
