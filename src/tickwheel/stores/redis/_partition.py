"""
The partitions of a store. Each partition has its own hash tag, so that a cluster keeps it on one master.
"""

from __future__ import annotations

from binascii import crc_hqx
from itertools import count
from typing import Final, NamedTuple

from tickwheel.stores._leap import leap

__all__ = ["WHOLE", "Partition"]

_SLOTS: Final = 16_384


class Partition(NamedTuple):
    """
    Partition *number*, from 0 on, of *total* partitions of a store, with its own generations, epochs and shards.

    Generations and epochs of partition 2 of 3 are 2, 5, 8, ..., so no two partitions assign the same number.
    """

    number: int = 0
    total: int = 1

    def tag(self, prefix: str) -> str:
        """
        Return the hash tag of this partition's keys; for the first partition it is *prefix* itself.

        A cluster's masters have ranges of hash slots. The slots are divided into as many ranges as there are
        partitions, and each partition gets a tag in its range. O(`total`) on average.
        """
        first = _slot(prefix) * self.total // _SLOTS
        wanted = (first + self.number) % self.total
        tags = (f"{prefix}.{self.number}.{attempt}" for attempt in count())
        fitting = (tag for tag in tags if _slot(tag) * self.total // _SLOTS == wanted)
        return next(fitting) if self.number else prefix

    def aligned(self, floor: int) -> int:
        """
        Return the smallest sequence number that is at least *floor* and belongs to this partition.
        """
        return floor + (self.number - floor) % self.total

    def leap(self) -> int:
        """
        Return the distance by which the sequences of generations and epochs are raised after a change of server.
        """
        return leap() // self.total * self.total


WHOLE: Final = Partition()
"""The only partition of an undivided store."""


def _slot(tag: str) -> int:
    # CRC16 (XMODEM) modulo 16,384, as in the Redis Cluster specification
    return crc_hqx(tag.encode(), 0) % _SLOTS
