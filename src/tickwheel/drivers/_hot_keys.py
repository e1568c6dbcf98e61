"""
Hot keys: the most frequent keys of a stream, in a table of fixed size.

The algorithm is Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k
Elements in Data Streams", 2005). If the table is full, a new key replaces the least frequent key, and its count starts
at the old key's count. So a count is never too low, and every key with more than 1/size of the stream is in the table.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

__all__ = ["HotKeys"]

SIZE: Final = 64
"""Number of keys in the table of counts."""

WINDOW: Final = 4_096
"""Number of operations after which all counts are halved, so that keys do not stay hot forever."""


class HotKeys:
    """
    Counts operations by key. A key is hot if it has at least *share* of all operations; *share* must be more than 1/64.

    The caller must hold a lock.
    """

    def __init__(self, share: float) -> None:
        if not isinstance(share, float | int) or not 1 / SIZE < share <= 1:
            message = f"hot_share is {share!r}: pass a share of the operations above {1 / SIZE:.3f}, at most 1"
            raise (ValueError if isinstance(share, float | int) else TypeError)(message)
        self._threshold = share * WINDOW
        self._counts: dict[Hashable, int] = {}
        self._seen = 0
        self._has_cooled = False

    def count(self, key: Hashable) -> bool:
        """
        Count one operation on *key*, and return True if *key* is hot now. Costs O(1), and O(64) for a new key.
        """
        counts = self._counts
        if key in counts or len(counts) < SIZE:
            count = counts.get(key, 0) + 1
        else:
            least = min(counts, key=counts.__getitem__)
            count = counts.pop(least) + 1
        counts[key] = count
        self._seen += 1
        if self._seen >= WINDOW:
            self._cool()
        return count >= self._threshold

    def is_cold(self, key: Hashable) -> bool:
        return self._counts.get(key, 0) < self._threshold / 4

    def has_cooled(self) -> bool:
        has_cooled, self._has_cooled = self._has_cooled, False
        return has_cooled

    def _cool(self) -> None:
        self._has_cooled = True
        self._seen //= 2
        self._counts = {key: count // 2 for key, count in self._counts.items() if count > 1}
