"""
The calls between the parts of the engine, in the order in which a job meets them.

    on_committed -> (prefetcher) -> (claims) on_capacity -> dispatch -> (dispatcher) -> (completer) on_completed
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tickwheel.engine._staged_job import StagedJob
from tickwheel.jobs.model import Job
from tickwheel.stores import Lease

__all__ = ["EngineCallbacks"]


class EngineCallbacks(Protocol):
    """
    The interface of the engine for its parts. All methods may be called from any thread.
    """

    def set_leases(self, leases: Sequence[Lease], lost: set[int]) -> None:
        """
        Fire under *leases* from now on, and no longer under the *lost* epochs.
        """

    def on_renewed(self) -> None:
        """
        Start, in another thread, the work that waited for a trusted lease.
        """

    def on_renewal_failed(self) -> None:
        """
        Report that a renewal failed; does not block.
        """

    def can_claim(self) -> bool:
        """
        Return True if attempts may be counted now. If not, they wait until `on_renewed`.
        """

    def lease_is_valid(self, epoch: int) -> bool: ...

    def on_external_writes(self, partitions: Collection[int] | None = None) -> None:
        """
        Read what other processes may have written or requested in *partitions*, or in all partitions.
        """

    def sweep_overdue(self) -> None:
        """
        Search the store for overdue jobs that are not in memory.
        """

    def rescan(self) -> None:
        """
        Rescan the store: a pending job may be unknown here.
        """

    def on_committed(self, jobs: Sequence[Job], cancelled: Sequence[str] = ()) -> None:
        """
        Stage pending *jobs* of a commit of this process, unless they are paused, and drop the *cancelled* keys.
        """

    def on_capacity(self) -> None:
        """
        Continue staging that stopped for lack of room, since some jobs have begun.
        """

    def on_lanes_moved(self) -> None:
        """
        Stage jobs of lanes that workers ask for now, if they were left in the store.
        """

    def needs_redate(self, job: Job) -> bool:
        """
        Return whether the due time of *job* was written before the clock was set, and is now wrong.
        """

    def dispatch(self, entries: list[StagedJob]) -> None:
        """
        Fire *entries*, which are begun and due, or forget them if their lease has ended.
        """

    def release_claims(self, entries: list[StagedJob]) -> None:
        """
        Make *entries*, which are begun and have not started, pending again.
        """

    def on_completing(self) -> None:
        """
        Begin the next few jobs in the commit of the acknowledgements that are about to be posted.
        """

    def on_completed(self, ended: Sequence[StagedJob], freed: list[StagedJob]) -> None:
        """
        Begin the jobs that waited for *ended* attempts.

        These are *freed*, the next generations of their keys, and jobs that now find a place.
        """
