from __future__ import annotations

from tickwheel.clock import NEVER

__all__ = ["loosened", "roundest"]


def loosened(deadline: int, slack_ns: int, latest: int = NEVER - 1) -> int:
    """
    Return the `roundest` time that is at most *slack_ns* after *deadline*, and not after *latest*.
    """
    last = min(deadline + slack_ns, latest)
    return deadline if last <= deadline or deadline >= NEVER else roundest(deadline, last)


def roundest(first: int, last: int) -> int:
    """
    Return the integer in *first*..*last* with the most trailing zero bits.

    Timers with overlapping ranges therefore tend to choose the same instant. Linux rounds timers in this way.

    >>> roundest(5, 9), roundest(5, 7), roundest(5, 5)
    (8, 6, 5)
    """
    if first == 0:
        return 0
    # All bits of last below the highest bit in which first - 1 and last differ can be cleared; that bit cannot.
    shift = ((first - 1) ^ last).bit_length() - 1
    return last >> shift << shift
