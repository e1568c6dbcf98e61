"""
Finds jobs that are overdue in the store and not in memory.

The stager learns of most jobs from cursors, commits and notes, and each of these can miss one: a hint is lost, a former
owner consumes a note, a write takes effect long after its sender gave up. So one query for all shards asks the store
every other second for overdue jobs; its cost depends on the number that it finds. If the store knows that nothing was
written since a search that found nothing new, only jobs that have become overdue since are searched for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tickwheel.engine._redater import Redater
from tickwheel.engine._shard_progress import Position, position_of
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staging import Staging
from tickwheel.engine.resources import Resources
from tickwheel.jobs.model import Job
from tickwheel.stores import Cursor, LaneSet, Versioned

__all__ = ["Lookout"]

_OVERDUE_MS: Final = 1_000
"""Lateness from which a pending job is looked at: normally it has begun by then."""
_PAGE: Final = 200
_FIRST: Final = (-(2**63), -1)
_LAST: Final = 2**63 - 1
_SCANNED: Final = 10_000
"""Maximum number of pending jobs that one scan reads."""
_BUDGET_S: Final = 0.1
"""Maximum seconds that one search reads past jobs that wait for a place; the next search continues from there."""


class Lookout:
    """
    Finds overdue jobs. Called by one thread at a time.
    """

    def __init__(self, resources: Resources, staged: StagedJobs, staging: Staging, redater: Redater) -> None:
        self._store = resources.store
        self._staged = staged
        self._staging = staging
        self._redater = redater
        self._clock = resources.clock
        self._cursors: dict[int, Position] = {}
        """Scan position of each group of waiting jobs."""
        self._versioned = self._store if isinstance(self._store, Versioned) else None
        self._known: object = None
        """The state of store, leases and lanes in which everything up to `_until` was known; None if it was not."""
        self._until = 0
        self._searched: object = None
        """The state at the start of the search that is under way, and the instant up to which it knows the jobs."""
        self._ends_at = 0
        self._has_news = False

    def look(self, epochs: Mapping[int, int], crowded: LaneSet | None = None) -> None:
        """
        Stage unknown overdue jobs of the shards in *epochs*, except paused ones.

        Args:
            epochs: Epochs by shard number.
            crowded: Lanes to leave out, since they are read separately.
        """
        self._staging.runnable.look()
        known, self._known = self._known, None
        if not epochs or self._staged.free <= 0:
            self._cursors.clear()
            return
        until = self._clock.now_ms() - _OVERDUE_MS
        state: object = None
        if self._versioned is not None:  # read before the jobs: a later write makes the next search a whole one
            state = self._versioned.version(), dict(epochs), crowded, self._clock.era
        is_rest = state is not None and state == known
        if not self._cursors:
            self._searched, self._has_news = state, False
            self._ends_at = max(until, self._until) if is_rest else until
        if is_rest:
            self._look_from((self._until - 1, _LAST), epochs, until, crowded)
        elif crowded is None:
            self._look_at_all(epochs, until)
        else:
            self._look_from(_FIRST, epochs, until, crowded)
        if not self._cursors and not self._has_news and state == self._searched:
            self._known, self._until = state, self._ends_at

    def _look_at_all(self, epochs: Mapping[int, int], until: int) -> None:
        started = self._clock.monotonic()
        by_shard = self._store.overdue(list(epochs), until, _PAGE)
        self._cursors = {
            shard: cursor for shard, cursor in self._cursors.items() if len(by_shard.get(shard, ())) >= _PAGE
        }
        for shard, jobs in by_shard.items():
            page = jobs
            self._stage(page, epochs[shard])
            while len(page) >= _PAGE:
                cursor = self._cursors.get(shard, _last_of(page))
                page = self._store.due(shard, until, cursor, _PAGE)
                self._stage(page, epochs[shard])
                if len(page) < _PAGE:
                    self._cursors.pop(shard, None)
                    break
                self._cursors[shard] = _last_of(page)
                if self._clock.monotonic() - started > _BUDGET_S:
                    break

    def _look_from(self, first: Position, epochs: Mapping[int, int], until: int, crowded: LaneSet | None) -> None:
        """
        Search from *first*, or from the end of the last search, through all lanes except the *crowded* ones.
        """
        started = self._clock.monotonic()
        lanes = LaneSet() if crowded is None else crowded
        for shard, epoch in epochs.items():
            while True:
                cursor = Cursor(shard, epoch, self._cursors.get(shard, first))
                (scan,) = self._store.scan([cursor], until, _PAGE, lanes, inside=False, rows=_SCANNED)
                self._stage(scan.due, epoch)
                if scan.reached is None:
                    self._cursors.pop(shard, None)
                    break
                self._cursors[shard] = scan.reached
                if self._clock.monotonic() - started > _BUDGET_S:
                    break

    def _stage(self, jobs: list[Job], epoch: int) -> None:
        unknown = self._staged.unknown(jobs, epoch) if jobs else jobs
        if unknown:
            self._has_news = True
            if self._staged.free > 0:
                right = self._redater.right(unknown, epoch, is_news=False)
                self._staging.stage({epoch: right}, is_news=False)  # those that are refused are still overdue then


def _last_of(jobs: list[Job]) -> Position:
    return max(map(position_of, jobs))
