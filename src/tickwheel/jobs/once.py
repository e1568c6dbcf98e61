"""
Requests that may come twice: their marks on writes, by which a store answers the second as it answered the first.

A service makes one `Repeat` for each request with an idempotency key. While that is current, every write of its caller
carries a mark, and the store keeps the answer with it in the transaction of the write. So whatever crashes, and
whichever node is asked again, a write under the same mark is done once.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from typing import Final

from tickwheel.jobs.record import record

__all__ = ["ONCE", "Keep", "Once", "Repeat"]


@record
class Once:
    """
    The mark of one write of a request.

    Attributes:
        token: The request's name, the same each time it is sent: 32 hexadecimal digits, from its key and its caller.
        part: The name of the write among those of the request; "" is kept for the reply to all of it.
        asked: A digest of the request, as many digits: another one under the same token is refused.
        lasts_ms: The time for which the answer is kept.
    """

    token: str
    part: str
    asked: str
    lasts_ms: int


@record
class Keep:
    """
    Keep the reply to a whole request, which no single write answers.

    Answers CREATED if it was done; KEPT, with the reply, where one is kept; TOO_LATE to a claim if another
    node has claimed it; KEY_REUSED where the token was used for another request.

    Attributes:
        key: Decides in which partition it is kept: the token.
        once: Its mark, with part "".
        data: The reply; b"" claims the request for as long as *once* lasts, before it is done; None gives the claim up.
    """

    key: str
    once: Once
    data: bytes | None


class Repeat:
    """
    A request that may be repeated; it marks its writes in order.
    """

    def __init__(self, token: str, asked: str, lasts_ms: int) -> None:
        """
        Mark nothing yet.
        """
        self.token, self.asked, self.lasts_ms = token, asked, lasts_ms
        self._counts: Counter[str] = Counter()

    def mark(self, key: str) -> Once:
        """
        Return the mark of the next write to the job of *key*; the marks of one job's writes differ.
        """
        number = self._counts[key]
        self._counts[key] += 1
        return Once(self.token, f"{number}:{key}", self.asked, self.lasts_ms)

    def keep(self, data: bytes | None, lasts_ms: int | None = None) -> Keep:
        """
        Return the write that keeps *data* as the whole reply, or claims or releases the request.
        """
        lasts_ms = self.lasts_ms if lasts_ms is None else lasts_ms
        return Keep(self.token, Once(self.token, "", self.asked, lasts_ms), data)


ONCE: Final[ContextVar[Repeat | None]] = ContextVar("tickwheel_once", default=None)
"""The request of a service's caller that this is part of, if it may come again."""
