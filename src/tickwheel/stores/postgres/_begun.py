"""
The lists of jobs that this owner has claimed. A takeover reads them to find the jobs that still run.

Each transaction that claims jobs writes their keys into a slot: a row of this owner. When all jobs of a slot have
ended, a later transaction uses the row again. The end of a job changes no list, so a list may contain ended jobs.

If the outcome of a claim is unknown, or another process withdraws a job, the slot stays in use. Now and then a renewal
therefore asks the server which of the listed jobs still run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

from tickwheel.threads import Lock

__all__ = ["BegunLists", "Entry"]

_SLOTS: Final = 32
"""If this many slots (rows that list claimed jobs) are in use, the server is asked which of these jobs still run."""
_UNKNOWN_S: Final = 60.0
"""Time after which a claim with an unknown outcome can no longer take effect. Calls have a shorter time limit."""

Asked: TypeAlias = dict[int, tuple[set[int], frozenset[int]]]


@dataclass(slots=True)
class Entry:
    """
    One transaction's change to the lists of claimed jobs: its slot (a row), and the generations claimed and ended.
    """

    slot: int
    begun: Sequence[int] = ()
    ended: Sequence[int] = field(default=())


class BegunLists:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._slots: dict[int, set[int]] = {}
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._unknown: dict[int, float] = {}
        self._asked_at = _SLOTS

    @contextmanager
    def writing(self) -> Iterator[Entry]:
        """
        Lend a free slot (a row for a list of claimed jobs) to a transaction.

        If the block raises, the outcome of the transaction counts as unknown. If the transaction has surely written
        nothing, clear the entry's `begun` before the error leaves the block.
        """
        with self._lock:
            slot = self._free.pop() if self._free else len(self._slots)
            jobs = self._slots[slot] = set()
        entry = Entry(slot)
        try:
            yield entry
        except BaseException:
            with self._lock:
                jobs.update(entry.begun)
                if jobs:
                    self._unknown[slot] = self._clock()
                else:
                    self._free.append(slot)
            raise
        with self._lock:
            self._end(entry.ended)
            self._end(self._slot_of.keys() & entry.begun)
            jobs.update(entry.begun)
            if jobs:
                self._slot_of.update(dict.fromkeys(jobs, slot))
            else:
                self._free.append(slot)

    def ended(self, generations: Iterable[int]) -> None:
        with self._lock:
            self._end(generations)

    def doubtful(self) -> Asked:
        """
        Return the slots (rows that list claimed jobs) whose jobs may have ended. The result is usually empty.

        The caller asks the server which of these jobs still run, and passes the answer to `learn`.
        """
        latest = self._clock() - _UNKNOWN_S
        with self._lock:
            if (
                len(self._slots) - len(self._free) < self._asked_at
                and min(self._unknown.values(), default=latest) >= latest
            ):
                return {}
            return {
                slot: (jobs, frozenset(jobs))
                for slot, jobs in self._slots.items()
                if jobs and self._unknown.get(slot, -inf) < latest
            }

    def learn(self, asked: Asked, running: Iterable[tuple[int, int]]) -> None:
        """
        Remove jobs that have ended from the lists of claimed jobs: all jobs of *asked* that are not *running*.

        *asked* is the result of `doubtful`. *running* has the slot and the generation of each job that still runs.
        """
        found: dict[int, set[int]] = {}
        for slot, generation in running:
            found.setdefault(slot, set()).add(generation)
        with self._lock:
            for slot, (jobs, generations) in asked.items():
                if self._slots[slot] is not jobs:  # all its jobs have ended, and a later transaction uses the slot
                    continue
                still = found.get(slot, set())
                if self._unknown.pop(slot, None) is not None:
                    jobs.update(still)
                for generation in (generations & jobs) - still:
                    self._remove(slot, generation)
                    if self._slot_of.get(generation) == slot:
                        del self._slot_of[generation]
            self._asked_at = max(_SLOTS, 2 * (len(self._slots) - len(self._free)))

    def _end(self, generations: Iterable[int]) -> None:
        for generation in generations:
            slot = self._slot_of.pop(generation, None)
            if slot is not None:
                self._remove(slot, generation)

    def _remove(self, slot: int, generation: int) -> None:
        jobs = self._slots[slot]
        jobs.discard(generation)
        if not jobs:
            self._free.append(slot)
