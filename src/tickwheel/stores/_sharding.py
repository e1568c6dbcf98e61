from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

__all__ = ["BUCKETS", "SHARDS", "bucket_of", "sharding"]

SHARDS: Final = 16
"""Number of shards of a new store: enough for several nodes, and cheap to scan."""

BUCKETS: Final = 256
"""All keys are divided into this many buckets, and each bucket belongs to one partition."""


def sharding(shards: int) -> Callable[[str], int]:
    # Called about ten times for each firing.
    def shard_of(key: str) -> int:
        return zlib.crc32(key.encode("utf-8", "surrogatepass")) % shards

    return lru_cache(maxsize=16_384)(shard_of)


def shards_of(keys: Iterable[bytes], shards: int) -> list[int]:
    crc32 = zlib.crc32
    return [crc32(key) % shards for key in keys]


def bucket_of(key: str) -> int:
    """
    Return the bucket of *key*, from 0 to 255.

    The first `{tag}` in the key determines the bucket; without a tag, or with an empty tag, the whole key does. Buckets
    use the high bits of a checksum, and shards the low bits. If both used the same bits, a partition's keys would share
    few shards.
    """
    hashed = key
    if "{" in key:
        tag, end, _ = key.partition("{")[2].partition("}")
        if tag and end:
            hashed = tag
    return zlib.crc32(hashed.encode("utf-8", "surrogatepass")) >> 24
