"""
The marks of idempotent requests, so that a store recognises a repeated write.

A service creates a `Repeat` for each request with an idempotency key. The store keeps the answer to each marked write
in the transaction of the write, so a repeat gets the kept answer, even after a crash or on another node.
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
    The idempotency mark of one write of a request.

    Attributes:
        token: The name of the request: 32 hexadecimal digits from the idempotency key and the caller.
        part: The name of the write within the request; "" for the reply to the whole request.
        asked: A digest of the request, 32 digits. The same token with another digest is answered KEY_REUSED.
        lasts_ms: The time for which the answer is kept.
    """

    token: str
    part: str
    asked: str
    lasts_ms: int


@record
class Keep:
    """
    Store the reply to a whole request. The answer to a single write needs no `Keep`.

    The answer is CREATED if *data* was stored; KEPT, with the earlier reply, if a reply was stored before; TOO_LATE if
    another node has claimed the request; KEY_REUSED if the token belongs to a different request.

    Attributes:
        key: The token; it determines the partition.
        once: The mark of the whole request; its `part` is "".
        data: The reply; b"" to claim the request before it is executed; None to release the claim.
    """

    key: str
    once: Once
    data: bytes | None


class Repeat:
    def __init__(self, token: str, asked: str, lasts_ms: int) -> None:
        self.token, self.asked, self.lasts_ms = token, asked, lasts_ms
        self._counts: Counter[str] = Counter()

    def mark(self, key: str) -> Once:
        number = self._counts[key]
        self._counts[key] += 1
        return Once(self.token, f"{number}:{key}", self.asked, self.lasts_ms)

    def keep(self, data: bytes | None, lasts_ms: int | None = None) -> Keep:
        lasts_ms = self.lasts_ms if lasts_ms is None else lasts_ms
        return Keep(self.token, Once(self.token, "", self.asked, lasts_ms), data)


ONCE: Final[ContextVar[Repeat | None]] = ContextVar("tickwheel_once", default=None)
"""The current request to a service, if it has an idempotency key."""
