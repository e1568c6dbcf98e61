"""
Low watermarks (floors): as far as this process knows, no job of a shard is pending below the shard's floor.

In the index of due jobs, entries of finished jobs precede pending jobs until the server removes them. An old snapshot
may prevent that. A scan therefore records the first pending due time, and later scans start there.

A floor stays some seconds behind the current time, because a job that is set to run now is committed a moment later. A
process that sets a job for an earlier time leaves a note for the shard's owner, which then lowers the floor. A floor is
valid for a minute. The next scan then starts from the beginning of the index, and finds jobs whose notes were lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tickwheel.threads import Lock

__all__ = ["Floors"]

_BOTTOM: Final = -(2**63)
_MARGIN_MS: Final = 10_000
"""A low watermark stays this far behind the current time, because a job that is set to run now is committed later."""
_KEPT_S: Final = 60.0
"""Time for which a low watermark is valid."""


class Floors:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._floors: dict[int, int] = {}
        self._until: dict[int, float] = {}
        self._turn = 0

    def of(self, shards: Sequence[int] | None = None) -> tuple[dict[str, list[int]], int]:
        """
        Return the watermarks of *shards* (None: all shards), and a counter for `learn`, which `lower` increases.
        """
        now = self._clock()
        with self._lock:
            for shard in [shard for shard, until in self._until.items() if until <= now]:
                del self._floors[shard], self._until[shard]
            shards = list(self._floors) if shards is None else list(shards)
            return {"shards": shards, "floors": [self._floors.get(shard, _BOTTOM) for shard in shards]}, self._turn

    def learn(self, turn: int, firsts: Iterable[tuple[int, int | None]], until: int) -> None:
        """
        Record the first pending due time of each shard; None means that no job is pending up to *until*.

        Does nothing if a watermark was lowered since *turn*, the counter that `of` returned.
        """
        highest = until - _MARGIN_MS
        now = self._clock()
        with self._lock:
            if turn != self._turn:
                return
            for shard, first in firsts:
                self._floors[shard] = highest if first is None else min(first, highest)
                self._until.setdefault(shard, now + _KEPT_S)

    def lower(self, dues: Iterable[int]) -> None:
        """
        Record that jobs due at *dues* are pending, in unknown shards. Call it after the commit.
        """
        lowest = min(dues, default=None)
        if lowest is None:
            return
        with self._lock:
            self._turn += 1
            for shard, floor in self._floors.items():
                if lowest < floor:
                    self._floors[shard] = lowest

    @contextmanager
    def doubted(self) -> Iterator[None]:
        # after an error, jobs unknown to this process may have become pending
        try:
            yield
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        with self._lock:
            self._turn += 1
            self._floors.clear()
            self._until.clear()
