"""
Bloom filters over the keys of runs (sorted lists of keys on disk). They save look-ups in runs that lack a key.

Each part of a run has a filter with sixteen bits per key, and each key sets two bits. One or two percent of the absent
keys pass a filter. The filters are stored in the file, and each process reads them once.
"""

from __future__ import annotations

import sqlite3
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tickwheel.stores.sqlite._connections import Connections
from tickwheel.stores.sqlite._joining import Joined
from tickwheel.stores.sqlite._queries import SQL, behind
from tickwheel.threads import Lock

__all__ = ["Filters", "filter_of"]

_BYTES_A_KEY: Final = 2

_MIX: Final = 0x9E37_79B9_7F4A_7C15
_MASK: Final = (1 << 64) - 1


@dataclass(slots=True)
class _Run:
    size: int = 0
    lasts: list[str] = field(default_factory=list)
    bits: list[bytes] = field(default_factory=list)


class Filters:
    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._lock = Lock()

    def catch_up(self, connections: Connections) -> None:
        """
        Load new Bloom filters (20 MB per 10 M keys) in advance, so that the next insert need not read them.
        """
        with connections.reading() as connection, self._lock:
            self._read(connection)

    def within(self, connection: sqlite3.Connection | Joined, keys: Sequence[str]) -> list[tuple[int, list[str]]]:
        """
        Return each run (sorted list of keys on disk) that may have some of the sorted *keys*, together with these keys.

        This method caches the filters that it reads, so do not call it in a transaction that has changed a run.
        """
        with self._lock:
            runs = self._read(connection)
            hashes = list(map(_hash, keys)) if runs else []
            found = [(number, _within(run, keys, hashes)) for number, run in runs.items()]
        return [(number, some) for number, some in found if some]

    def _read(self, connection: sqlite3.Connection | Joined) -> dict[int, _Run]:
        # run numbers are never reused, and keys are only appended to a run
        sizes = dict(connection.execute(SQL["runs"]).fetchall())
        known = self._runs
        self._runs = {}
        for number, size in sizes.items():
            run = known.get(number)
            if run is None or run.size > size:
                run = _Run()
            if run.size != size:
                first = behind(run.lasts[-1]) if run.lasts else ""
                for last, bits in connection.execute(SQL["filters_from"], (number, first)).fetchall():
                    run.lasts.append(last)
                    run.bits.append(bits)
                run.size = size
            self._runs[number] = run
        return self._runs


def filter_of(keys: Sequence[str]) -> bytes:
    bits = bytearray(_BYTES_A_KEY * len(keys))
    count = 8 * len(bits)
    for key in keys:
        number = _hash(key)
        place = (number >> 32) % count
        bits[place >> 3] |= 1 << (place & 7)
        place = (number >> 12 & 0xFFFF_FFFF) % count
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


def _within(run: _Run, keys: Sequence[str], hashes: Sequence[int]) -> list[str]:
    found: list[str] = []
    start, part = 0, bisect_left(run.lasts, keys[0])
    while start < len(keys) and part < len(run.lasts):
        end = bisect_right(keys, run.lasts[part], start)
        bits = run.bits[part]
        count = 8 * len(bits)
        for index in range(start, end):
            place = (hashes[index] >> 32) % count
            if bits[place >> 3] >> (place & 7) & 1:
                place = (hashes[index] >> 12 & 0xFFFF_FFFF) % count
                if bits[place >> 3] >> (place & 7) & 1:
                    found.append(keys[index])
        start, part = end, part + 1
    return found


def _hash(key: str) -> int:
    return zlib.crc32(key.encode()) * _MIX & _MASK
