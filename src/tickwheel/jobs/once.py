"""
Requests that may be repeated: by the marks on its writes, a store answers a repeat as it answered the first.

A service makes one `Repeat` for each request with an idempotency key. While it is current, every write of its caller
carries a mark, and the store keeps the answer in the transaction of the write. So a write under the same mark is done
once, after any crash and on any node.

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
        token: The request's name, equal each time it is sent: 32 hexadecimal digits from its key and its caller.
        part: The name of the write among those of the request; "" for the reply to the whole request.
        asked: A digest of the request, 32 digits: another request under the same token is refused.
        lasts_ms: The time for which the answer is kept.
    """

    token: str
    part: str
    asked: str
    lasts_ms: int


@record
class Keep:
    """
    Store the reply to a whole request, if no single write answers it.

    Answers CREATED if the reply, or the claim, was stored; KEPT, with the earlier reply, if there is one; TOO_LATE to a
    claim if another node has claimed the request; KEY_REUSED if the token was used for another request.

    Attributes:
        key: The token; it determines the partition.
        once: The mark of the whole request: its part is "".
        data: The reply; b"" claims the request for as long as *once* lasts, before it is done; None releases the claim.
    """

    key: str
    once: Once
    data: bytes | None


class Repeat:
    """
    A request that may be repeated; it marks its writes in order.
    """

    def __init__(self, token: str, asked: str, lasts_ms: int) -> None:
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
        lasts_ms = self.lasts_ms if lasts_ms is None else lasts_ms
        return Keep(self.token, Once(self.token, "", self.asked, lasts_ms), data)


ONCE: Final[ContextVar[Repeat | None]] = ContextVar("tickwheel_once", default=None)
"""The current request of a service's caller, if it may be repeated."""
