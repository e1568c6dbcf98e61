"""
The rate limit of one client: a bucket of turns for each, which fills at a steady rate.

A client with a token of this service is that token; any other is its address. So a client that guesses tokens, or has
none, has the turns of its address, and takes none from those that have a token, even behind one proxy.
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
"""How many clients are remembered: the one that was quiet longest is forgotten, and so has a full bucket again."""


@dataclass(slots=True)
class _Bucket:
    """
    The turns that one client has left, and since when that is so.
    """

    turns: float
    since: float


class Rate:
    """
    The buckets of all clients, by their names.
    """

    def __init__(self, per_s: float) -> None:
        """
        Let each client ask *per_s* times a second on the average, and two seconds' worth of that at once.
        """
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
