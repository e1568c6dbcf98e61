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

    def set_leases(self, leases: Sequence[Lease], lost: set[int]) -> None: ...

    def on_renewed(self) -> None:
        """
        Start, in another thread, the work that waited for a trusted lease.
        """

    def on_renewal_failed(self) -> None: ...

    def can_claim(self) -> bool:
        """
        Return True if attempts may be counted now. Otherwise, the jobs wait until `on_renewed`.
        """

    def lease_is_valid(self, epoch: int) -> bool: ...

    def on_external_writes(self, partitions: Collection[int] | None = None) -> None: ...

    def sweep_overdue(self) -> None: ...

    def rescan(self) -> None: ...

    def on_committed(self, jobs: Sequence[Job], cancelled: Sequence[str] = ()) -> None:
        """
        Stage (hold in memory) *jobs* that a commit here made pending, unless paused, and drop the *cancelled* keys.
        """

    def on_capacity(self) -> None: ...

    def on_lanes_moved(self) -> None: ...

    def needs_redate(self, job: Job) -> bool: ...

    def dispatch(self, entries: list[StagedJob]) -> None:
        """
        Fire *entries*, which are begun and due. Drop entries whose lease has ended.
        """

    def release_claims(self, entries: list[StagedJob]) -> None: ...

    def on_completing(self) -> None: ...

    def on_completed(self, ended: Sequence[StagedJob], freed: list[StagedJob]) -> None:
        """
        Begin the jobs that waited for the *ended* attempts.

        These are the jobs *freed*, later generations of the same keys, and other jobs that waited for a free place.
        """
