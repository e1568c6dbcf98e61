"""
The rate limit of each client, as a token bucket that fills at a steady rate.

A client with a valid token is identified by the token; any other client is identified by its address. So a client that
guesses tokens uses up only the limit of its address. Clients with valid tokens behind the same proxy are not affected.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from tickwheel.service.problems import ProblemError

__all__ = ["Rate"]

_CLIENTS_MAX: Final = 10_000
"""Maximum number of remembered clients. If there are more, the client that was idle longest is forgotten."""


@dataclass(slots=True)
class _Bucket:
    turns: float
    since: float


class Rate:
    def __init__(self, per_s: float) -> None:
        # a bucket holds twice the requests of a second
        self._per_s = per_s
        self._burst = max(1.0, 2 * per_s)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def check(self, client: str) -> None:
        now = time.monotonic()
        bucket = self._bucket(client, now)
        bucket.turns = min(self._burst, bucket.turns + (now - bucket.since) * self._per_s)
        bucket.since = now
        if bucket.turns < 1:
            wait_s = math.ceil((1 - bucket.turns) / self._per_s)
            message = f"a client may ask {self._per_s:g} times a second: wait {wait_s} s"
            raise ProblemError("too_many_requests", message, headers={"retry-after": str(wait_s)})
        bucket.turns -= 1

    def _bucket(self, client: str, now: float) -> _Bucket:
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self._burst, now)
            if len(self._buckets) > _CLIENTS_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
        return bucket
