"""
The stagers: one for each partition of the store, so that none waits for what another one reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tickwheel.scheduler.engine._armer import Armer
from tickwheel.scheduler.engine._runnable import Runnable
from tickwheel.scheduler.engine._staged import StagedJobs
from tickwheel.scheduler.engine._stager import Stager
from tickwheel.scheduler.engine.resources import Resources
from tickwheel.scheduler.model import Job
from tickwheel.scheduler.stores import Lease

__all__ = ["Stagers"]


class Stagers:
    """
    Has a `Stager` for each partition, whose methods these are.
    """

    def __init__(self, resources: Resources, staged: StagedJobs, armer: Armer, runnable: Runnable) -> None:
        self._count = resources.store.abilities.partitions
        self._shard_of = resources.store.shard_of
        self._clock = resources.clock
        self._monotonic = resources.runtime.monotonic
        self._all = [Stager(resources, staged, armer, runnable) for _ in range(self._count)]

    def start(self) -> None:
        """
        Begin with a look at everything that is owned.
        """
        self._clock.listen(self._want_look)
        for stager in self._all:
            stager.start()

    def stop(self, timeout_s: float | None) -> None:
        """
        Stage nothing more, and wait for looks that are under way.
        """
        end = None if timeout_s is None else self._monotonic() + timeout_s
        for stager in self._all:
            stager.stop(None if end is None else max(0.0, end - self._monotonic()))

    def own(self, leases: Sequence[Lease]) -> None:
        """
        Stage the shards of *leases* from now on, and no others.
        """
        for number, stager in enumerate(self._all):
            stager.own([lease for lease in leases if lease.shard % self._count == number])

    def written(self, jobs: Sequence[Job]) -> None:
        """
        Take notice of pending *jobs* from a commit of this process, which is in one partition.
        """
        self._all[self._shard_of(jobs[0].key) % self._count].written(jobs)

    def dropped(self, keys: Sequence[str]) -> None:
        """
        Take notice of cancelled jobs.
        """
        self._all[0].dropped(keys)

    def changed(self, partitions: Collection[int] | None = None) -> None:
        """
        Take notice that other processes may have written to those *partitions*, or to any.
        """
        for number, stager in enumerate(self._all):
            if partitions is None or number in partitions:
                stager.changed()

    def look_back(self) -> None:
        """
        Look for what is overdue in the store and not in memory.
        """
        for stager in self._all:
            stager.look_back()

    def start_over(self) -> None:
        """
        Read everything up to the horizon again.
        """
        for stager in self._all:
            stager.start_over()

    def made_room(self) -> None:
        """
        Go on, if staging stopped for lack of room.
        """
        for stager in self._all:
            stager.made_room()

    def is_off(self, job: Job) -> bool:
        """
        Return whether the instant of *job* was written before the clock was set, and means another one.
        """
        return self._all[0].redater.is_off(job)

    def _want_look(self) -> None:
        for stager in self._all:
            stager.want_look()
