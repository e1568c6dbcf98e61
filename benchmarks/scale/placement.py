"""
Which key is of which primary: a key is in one of 256 buckets, and a map says which primary has the bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel.scheduler.stores._sharding import BUCKETS, bucket_of

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """
    Which primary has which bucket.

    Attributes:
        version: Goes up with each change; here there is one, and it stays.
        primaries: For each bucket the number of its primary.
    """

    version: int
    primaries: tuple[int, ...]

    @classmethod
    def even(cls, count: int) -> Placement:
        """
        Return the map that gives *count* primaries the buckets in turn.
        """
        return cls(1, tuple(bucket % count for bucket in range(BUCKETS)))

    def primary_of(self, key: str) -> int:
        """
        Return the number of the primary of *key*.
        """
        return self.primaries[bucket_of(key)]
