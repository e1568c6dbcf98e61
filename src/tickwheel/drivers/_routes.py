"""
The route from a key to its shard.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable

__all__ = ["jump_hash", "stable_hash"]


def stable_hash(key: Hashable) -> int:
    """
    Return a number for *key* that is the same in every process for text, bytes and integers; for others `hash(key)`.

    Keys that are equal have the same number: 1, 1.0 and True too.
    """
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, bytes):
        return zlib.crc32(key)
    return hash(key) & (2**64 - 1)


def jump_hash(number: int, shards: int) -> int:
    """
    Return a shard in 0..*shards* - 1 for a number, such that one shard more moves only the keys that it gets.

    J. Lamping, E. Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014. O(log shards).
    """
    state = number
    chosen, candidate = -1, 0
    while candidate < shards:
        chosen = candidate
        state = (state * 2862933555777941757 + 1) & (2**64 - 1)
        candidate = int((chosen + 1) * (2.0**31 / ((state >> 33) + 1)))
    return chosen
