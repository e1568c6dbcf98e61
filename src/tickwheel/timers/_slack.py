"""
Slack: deadlines put off a little so that many timers share one wake-up.
"""

from __future__ import annotations

from tickwheel.clock import NEVER, to_deadline
from tickwheel.typing import Seconds

__all__ = ["loosened", "roundest"]


def loosened(deadline: int, slack: Seconds) -> int:
    """
    Return the deadline to file instead of *deadline*, at most *slack* seconds later.

    Raises:
        InvalidDelayError: If *slack* is NaN.
        TypeError: If *slack* is not a number.
    """
    slack_ns = to_deadline(slack, "slack")
    return deadline if not slack_ns or deadline >= NEVER else roundest(deadline, min(deadline + slack_ns, NEVER - 1))


def roundest(first: int, last: int) -> int:
    """
    Return the integer in *first*..*last* with the most trailing zero bits.

    There is only one, 0 apart: between two multiples of 2**k is a multiple of 2**(k + 1). Ranges that overlap enough
    therefore choose the same instant, without knowing of each other. Linux rounds its timers likewise.

    >>> roundest(5, 9), roundest(5, 7), roundest(5, 5)
    (8, 6, 5)
    """
    if first == 0:
        return 0
    # Below the highest bit in which first - 1 and last differ, last's bits can all be cleared, and no higher one.
    shift = ((first - 1) ^ last).bit_length() - 1
    return last >> shift << shift
