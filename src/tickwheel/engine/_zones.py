"""
Moves runs whose instants change with new data of a time zone.

A stored job has the instant that its rule gave when the last run ended; another release of the zone data may give
another one. So a node that takes shards reads their recurring jobs once, in the background, and rewrites instants that
differ by its own data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.model import Job, State
from tickwheel.jobs.query import JobQuery
from tickwheel.stores import Lease

if TYPE_CHECKING:
    import threading

__all__ = ["Zones"]

_WAIT_S: Final = 1.0
"""Delay after a shard was taken: most are taken at a start, whose other work comes first."""
_PAGE: Final = 500
_REST_S: Final = 0.02
"""Seconds between two pages, for other reads and writes."""


class Zones:
    """
    Checks the recurring jobs of shards that were taken.

    Args:
        right: Rewrites the instants of jobs under an epoch, where their rules give others.
    """

    def __init__(self, resources: Resources, right: Callable[[Sequence[Job], int], object]) -> None:
        self._store = resources.store
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._runtime = resources.runtime
        self._starter = resources.starter("the check of zones")
        self._right = right
        self._lock = resources.runtime.lock()
        self._stopped = resources.runtime.event()
        self._epochs: dict[int, int] = {}
        self._unchecked: set[int] = set()
        self._thread: threading.Thread | None = None

    def own(self, leases: Sequence[Lease]) -> None:
        if self._store.abilities.is_private:  # it holds nothing from another process
            return
        epochs = {lease.shard: lease.epoch for lease in leases}
        with self._lock:
            taken = {shard for shard, epoch in epochs.items() if self._epochs.get(shard) != epoch}
            is_planned = bool(self._unchecked)
            self._unchecked = (self._unchecked | taken) & epochs.keys()
            self._epochs = epochs
        if taken and not is_planned:
            self._plan()

    def stop(self, timeout_s: float | None) -> None:
        self._stopped.set()
        if self._thread is not None and self._thread is not self._runtime.current_thread():
            self._thread.join(timeout_s)

    def _plan(self) -> None:
        with suppress(ClosedError):  # a stop
            self._pacer.call_later(_WAIT_S, self._begin)

    def _begin(self) -> None:
        thread = self._runtime.thread(target=self._run, name="tickwheel-zones", daemon=True)
        if not self._stopped.is_set() and self._starter.start(thread.start, self._begin):
            self._thread = thread

    def _run(self) -> None:
        with self._lock:
            shards, self._unchecked = self._unchecked, set()
        try:
            self._check(shards)
        except Exception as error:  # noqa: BLE001  the instants stay as they are until the check is repeated
            self._hooks.failed("checking instants by the data of zones", error)
            with self._lock:
                self._unchecked |= shards & self._epochs.keys()
            self._plan()

    def _check(self, shards: set[int]) -> None:
        cursor: str | None = None
        while shards:
            page = self._store.page(JobQuery(recurring=True, cursor=cursor, limit=_PAGE))
            by_shard: dict[int, list[Job]] = {}
            for job in page.jobs:
                if job.state is State.PENDING and (shard := self._store.shard_of(job.key)) in shards:
                    by_shard.setdefault(shard, []).append(job)
            for shard, jobs in by_shard.items():
                if (epoch := self._epochs.get(shard)) is not None:
                    self._right(jobs, epoch)
            cursor = page.cursor
            if cursor is None or self._stopped.wait(_REST_S):
                return
