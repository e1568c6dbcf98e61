"""
The shard of a key.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final

__all__ = ["SHARDS", "sharding"]

SHARDS: Final = 16
"""How many a new store gets: room for some nodes, and a look at each costs little."""


def sharding(shards: int) -> Callable[[str], int]:
    """
    Return the function from a key to its shard, which is the same everywhere; a firing asks some ten times.
    """

    def shard_of(key: str) -> int:
        return zlib.crc32(key.encode("utf-8", "surrogatepass")) % shards

    return lru_cache(maxsize=16_384)(shard_of)
