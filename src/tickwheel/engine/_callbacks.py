"""
The calls between the parts of the engine (the parts are in parentheses), in the order in which a job causes them.

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
    The methods of the engine that its parts call. All methods may be called from any thread.
    """

    def set_leases(self, leases: Sequence[Lease], lost: set[int]) -> None: ...

    def on_renewed(self) -> None:
        """
        Start, in another thread, the work that waited for a trusted lease.
        """

    def on_renewal_failed(self) -> None: ...

    def can_claim(self) -> bool:
        """
        Return True if jobs may be claimed now. If not, they wait until `on_renewed` is called.
        """

    def lease_is_valid(self, epoch: int) -> bool: ...

    def on_external_writes(self, partitions: Collection[int] | None = None) -> None: ...

    def sweep_overdue(self) -> None: ...

    def rescan(self) -> None: ...

    def on_committed(self, jobs: Sequence[Job], cancelled: Sequence[str] = ()) -> None:
        """
        Stage the unpaused *jobs* that a commit of this process made pending; drop the jobs of the *cancelled* keys.
        """

    def on_capacity(self) -> None: ...

    def on_lanes_moved(self) -> None: ...

    def needs_redate(self, job: Job) -> bool: ...

    def dispatch(self, entries: list[StagedJob]) -> None:
        """
        Fire *entries*, which are claimed and due. Drop entries whose lease has ended.
        """

    def release_claims(self, entries: list[StagedJob]) -> None: ...

    def on_completing(self) -> None: ...

    def on_completed(self, ended: Sequence[StagedJob], freed: list[StagedJob]) -> None:
        """
        Claim the jobs that waited for the *ended* attempts.

        *freed* has the jobs that waited for an attempt of the same key. Other jobs waited for places in their lanes.
        """
