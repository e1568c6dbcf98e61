"""
A job's way through this process: what the roles hand on to each other, in the order in which a job meets it.

    written -> (stager) -> (armer) made_room -> hand_over -> (dispatcher) -> (settler) settled -> written
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tickwheel.engine._staged_job import StagedJob
from tickwheel.jobs.model import Job
from tickwheel.stores import Lease

__all__ = ["Way"]


class Way(Protocol):
    """
    The owner, as its roles see it. All methods may be called from any thread.
    """

    def owns(self, leases: Sequence[Lease], lost: set[int]) -> None:
        """
        Fire under *leases* from now on, and no longer under the *lost* epochs.
        """

    def renewed(self) -> None:
        """
        Do what was not done for lack of trust in a lease; the caller does not wait for it.
        """

    def not_renewed(self) -> None:
        """
        Report that a renewal failed; the caller does not wait for it.
        """

    def may_begin(self) -> bool:
        """
        Return whether attempts may be counted now; what may not is held back until a lease is `renewed`.
        """

    def covers(self, epoch: int) -> bool: ...

    def changed(self, partitions: Collection[int] | None = None) -> None:
        """
        See what other processes may have written or asked, in those *partitions* or in all.
        """

    def look_back(self) -> None:
        """
        Look for what is overdue in the store and not in memory.
        """

    def start_over(self) -> None:
        """
        Stage from the beginning: something may be pending of which nobody here knows.
        """

    def written(self, jobs: Sequence[Job], cancelled: Sequence[str] = ()) -> None:
        """
        Stage pending *jobs* that this process has committed, unless they are paused, and drop the *cancelled* keys.
        """

    def made_room(self) -> None:
        """
        Stage on, where there was no room: some jobs have been begun.
        """

    def is_off(self, job: Job) -> bool:
        """
        Return whether the instant of *job* was written before the clock was set, and means another one.
        """

    def hand_over(self, entries: list[StagedJob]) -> None:
        """
        Fire *entries*, which are begun and due, or forget them if their lease has ended.
        """

    def give_back(self, entries: list[StagedJob]) -> None:
        """
        Make *entries*, which are begun and have not started, pending again.
        """

    def settled(self, ended: Sequence[StagedJob], freed: list[StagedJob]) -> None:
        """
        Begin what waited for *ended*: *freed*, the next of their keys, and whatever finds a place now.
        """
