"""
The engine of a scheduler that fires jobs: it creates all parts, and starts and stops them in order.

The parts do not call each other. Each part calls the engine, which implements `EngineCallbacks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any, Final

from tickwheel.engine import _verdict
from tickwheel.engine._claims import ClaimBatcher, Reservation
from tickwheel.engine._clock_steps import Zones
from tickwheel.engine._completion import Completer
from tickwheel.engine._dispatch import Dispatcher
from tickwheel.engine._explainer import Explainer
from tickwheel.engine._leases import Heartbeat, Journal, Leases
from tickwheel.engine._prefetch import Prefetcher
from tickwheel.engine._records import LaneCounts, MinuteKeeper, Pruner, Recorder
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._staging import PauseFilter
from tickwheel.engine._watcher import Watcher
from tickwheel.engine._withdrawals import Withdrawals
from tickwheel.engine.figures import Figures
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.host.registry import Registry
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.explanation import EVERY_LANE, Explanation, LaneState, WaitReason
from tickwheel.jobs.model import Job, Write
from tickwheel.stores import Lease
from tickwheel.targets import Firing
from tickwheel.targets.contract import GIVE_BACK

__all__ = ["Engine"]

_CLOSING_S: Final = 0.3
"""Seconds of a stop's timeout that are reserved for closing connections and threads."""
_LOOK_S: Final = 0.1
"""Interval at which `stop` checks whether all attempts are settled."""
_DOUBT_S: Final = 0.1
"""Seconds before a retry when the lease is not trusted."""
_REASON_MAX: Final = 200
_NOTED_MAX: Final = 50
"""Maximum number of running jobs whose progress one heartbeat reports, because keys and handlers' notes may be long."""


class Engine:
    """
    Fires the jobs of a store. It can be started once, and then stopped. An interrupted stop may be repeated.
    """

    def __init__(
        self, resources: Resources, registry: Registry, figures: Figures, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self._resources = resources
        self.name = resources.owner
        self._registry = registry
        self._is_stopping = False
        self._is_quiet = resources.runtime.event()
        self._epochs: frozenset[int] = frozenset()
        self.staged = StagedJobs(resources.runtime, resources.options.staged_max, resources.clock.now, registry.lanes)
        self.leases = Leases(resources, callbacks=self)
        recorder = Recorder(resources.options.history, resources.owner, resources.clock.now)
        self._completer = Completer(resources, self.staged, figures, recorder, callbacks=self)
        self._dispatcher = Dispatcher(resources, self.staged, self._completer, registry, loop, callbacks=self)
        self._claims = ClaimBatcher(resources, self.staged, registry, callbacks=self)
        self.pause_filter = PauseFilter(resources, registry, self.staged, self._completer, callbacks=self)
        self._prefetchers = [  # one for each partition of the store, so that they do not wait for each other's reads
            Prefetcher(resources, self.staged, self._claims, self.pause_filter)
            for _ in range(resources.store.abilities.partitions)
        ]
        self.withdrawals = Withdrawals(resources, self.staged, self._completer, self._dispatcher.stop, callbacks=self)
        self._watcher = Watcher(resources, callbacks=self)
        self._zones = Zones(resources, self._rename)
        self.pruner = Pruner(resources, recorder, self._has_first_shard)
        self._explainer = Explainer(
            resources,
            staged=self.staged,
            claims=self._claims,
            dispatcher=self._dispatcher,
            pause_filter=self.pause_filter,
            leases=self.leases,
            prefetchers=self._prefetchers,
        )
        figures.lanes = LaneCounts(resources.runtime.lock(), registry.lanes.of)
        self.minutes = MinuteKeeper(resources, figures.lanes, self._explainer.held_lanes)
        self.journal = Journal(resources, self.leases)
        self.heartbeat = Heartbeat(
            resources,
            figures,
            self.sizes,
            self.progress,
            self.leases,
            lanes=self._lanes_report,
            handlers=registry.handlers.names,
            on_renewed=self.journal.record_deaths,
        )

    def start(self) -> None:
        """
        Take the leases, and fire jobs from now on. After any error nothing runs, and no lease is held.
        """
        resources = self._resources
        try:
            self.journal.remember_owners()
            self.leases.acquire()
            self.journal.start()
            self._registry.pulls.open(
                resources.timers.call_later,
                resources.pacer.call_later,
                resources.clock.now_ms,
                partial(self._claims.widen, "pull"),
            )
            self._registry.listen(self._stage_changes)
            resources.clock.listen(self._request_scan)
            for prefetcher in self._prefetchers:
                prefetcher.start()
            self._claims.start()
            self._watcher.start()
            self.pruner.start()
            self.minutes.start()
            self.heartbeat.start()
        except StoreError:  # there are no leases
            raise
        except BaseException:
            self.stop(resources.runtime.monotonic() + _CLOSING_S, is_last=False)
            with suppress(StoreError):
                self.leases.release()
            raise

    def is_inside(self) -> bool:
        return self._dispatcher.is_inside()

    def stop(self, deadline: float | None, *, is_last: bool = True) -> list[Firing]:
        """
        Stop firing, release attempts that have not started, and wait for the running attempts until *deadline*.

        *deadline* is a time of the runtime's `monotonic`. If *is_last* is True, the targets are also closed. Returns
        the firings that still run.
        """
        self._is_stopping = True
        for prefetcher in self._prefetchers:
            prefetcher.stop(self._left(deadline))
        self._watcher.stop(self._left(deadline))
        self.pruner.stop(self._left(deadline))
        self._zones.stop(self._left(deadline))
        self._claims.stop()
        self._claims.join(self._left(deadline))
        self._registry.pulls.shut()
        held = self._dispatcher.take_held()
        self.staged.forget(held)  # the next owner fires their jobs, which are running in the store
        self.release_claims([*self._dispatcher.take_back(), *self.staged.take(Phase.BEGUN)])
        self._wait(None if deadline is None else deadline - _CLOSING_S)
        running = self.staged.take(Phase.RUNNING)
        self._resources.timers.close()
        self._resources.pacer.close()
        self._completer.flush()
        self._dispatcher.coroutines.close(self._left(deadline), self._registry.closers() if is_last else ())
        self._dispatcher.workers.close(0 if running or self._dispatcher.leaked else self._left(deadline))
        if is_last:
            self._registry.handlers.end_processes()
        self._dispatcher.processes.close(self._left(deadline))
        self._dispatcher.flush_spans()
        self._resources.timers.join(self._left(deadline))
        return [Firing(entry.job, entry.attempt, entry.fired_at) for entry in (*held, *running)]

    def release(self) -> None:
        """
        Release the leases. Call it after `stop`, when the writer is closed.
        """
        self._completer.close()
        self.minutes.stop(_CLOSING_S)
        self.heartbeat.stop(_CLOSING_S)
        self.leases.release()

    def sizes(self) -> dict[str, int]:
        staged, busy, waiting = self.staged.waiting, self.staged.busy, self._dispatcher.waiting
        running = len(self.staged.take(Phase.RUNNING))
        return {"staged": staged, "in_memory": staged + busy, "waiting": waiting, "in_flight": running}

    def progress(self) -> list[dict[str, Any]]:
        noted = ((entry, entry.progress) for entry in self.running() if entry.progress is not None)
        return [
            {"key": entry.job.key, "generation": entry.job.generation, "attempt": entry.attempt, **progress._asdict()}
            for entry, progress in islice(noted, _NOTED_MAX)
        ]

    def backlog(self) -> list[Job]:
        return [entry.job for entry in self._claims.backlog() if entry.phase is Phase.STAGED]

    def waiting_except(self, backlog: Iterable[Job]) -> list[Job]:
        generations = {job.generation for job in backlog}
        return [job for job in self.staged.jobs() if job.generation not in generations]

    def leaked(self) -> list[dict[str, Any]]:
        return self._dispatcher.leaked

    def full_lanes(self) -> list[dict[str, Any]]:
        return [
            {"lane": lane, "staged": self.staged.waiting_in(lane), "reason": reason}
            for lane, reason in islice(self._explainer.full_lanes().items(), _NOTED_MAX)
        ]

    def lanes(self) -> list[LaneState]:
        return self._explainer.lanes()

    def explain(self, job: Job) -> Explanation | None:
        return self._explainer.explain(job)

    def _lanes_report(self) -> dict[str, Any]:
        receivers = [
            {"target": target, "receiver": receiver, "state": each["state"], "reason": each["reason"][:_REASON_MAX]}
            for target, figures in self._registry.figures().items()
            for receiver, each in figures.items()
            if isinstance(each, dict) and each.keys() >= {"state", "reason"}
        ]
        return {
            "lanes": [asdict(state) for state in self._explainer.report()],
            "queues": dict(islice(self._registry.pulls.figures().items(), _NOTED_MAX)),
            "receivers": receivers[:_NOTED_MAX],
        }

    def running(self) -> list[StagedJob]:
        return self.staged.take(Phase.RUNNING)

    def wheel(self) -> dict[str, Any]:
        """
        Return the statistics of the scheduler's timer wheel. Jobs that are due within one slot of time share a timer.
        """
        return self._resources.timers.stats()

    def _has_first_shard(self) -> bool:
        return any(lease.shard == 0 for lease in self.leases.held)

    # ---- the life of a job, in order ------------------------------------------------------------------------------

    def reserve(self, writes: Sequence[Write], first: int) -> Reservation | None:
        """
        Reserve places for due jobs of callers' *writes*, so that one commit sets and claims these jobs.

        Nothing is reserved after a clock step, because the due times of jobs must be checked first.
        """
        epoch = self._prefetchers[0].claims_under() if self._resources.elapsed.is_steady else None
        return None if epoch is None else self._claims.reserve(writes, first, epoch, self.pause_filter.lacking)

    def note_relative(self, jobs: Sequence[Job], clock_step: int) -> None:
        self._resources.elapsed.note(jobs, clock_step)

    def on_committed(self, jobs: Sequence[Job], cancelled: Sequence[str] = ()) -> None:
        if paused := [job.key for job in jobs if job.pause is not None]:
            cancelled = (*cancelled, *paused)
            jobs = [job for job in jobs if job.pause is None]
        if cancelled:
            self.staged.drop(cancelled)
        if jobs:  # one commit has all jobs in one partition
            shard = self._resources.store.shard_of(jobs[0].key)
            self._prefetchers[shard % len(self._prefetchers)].on_committed(jobs)

    def on_external_writes(self, partitions: Collection[int] | None = None) -> None:
        self._stage_changes(partitions)
        shards = [lease.shard for lease in self.leases.held]
        if partitions is not None:
            shards = [shard for shard in shards if shard % len(self._prefetchers) in partitions]
        self.withdrawals.poll(shards)

    def _stage_changes(self, partitions: Collection[int] | None = None) -> None:
        for number, prefetcher in enumerate(self._prefetchers):
            if partitions is None or number in partitions:
                prefetcher.on_external_writes()

    def _request_scan(self) -> None:
        for prefetcher in self._prefetchers:
            prefetcher.request_scan()

    def sweep_overdue(self) -> None:
        for prefetcher in self._prefetchers:
            prefetcher.sweep_overdue()

    def rescan(self) -> None:
        for prefetcher in self._prefetchers:
            prefetcher.rescan()

    def _rename(self, jobs: Sequence[Job], epoch: int) -> None:
        prefetchers = self._prefetchers
        prefetchers[epoch % len(prefetchers)].adjuster.rename(jobs, epoch)

    def needs_redate(self, job: Job) -> bool:
        return self._prefetchers[0].adjuster.needs_redate(job)

    def can_claim(self) -> bool:
        return self.leases.is_trusted()

    def on_capacity(self) -> None:
        for prefetcher in self._prefetchers:
            prefetcher.on_capacity()

    def on_lanes_moved(self) -> None:
        for prefetcher in self._prefetchers:
            prefetcher.on_lanes_moved()

    def dispatch(self, entries: list[StagedJob]) -> None:
        if self._is_stopping:
            self.release_claims(entries)
            return
        if lost := [entry for entry in entries if entry.epoch not in self._epochs]:
            self._claims.ended(lost, self.staged.forget(lost))
        if self.leases.is_trusted():
            self._dispatcher.fire(self.pause_filter.unpaused(entries))
        else:  # try again when the lease is renewed or lost
            self._resources.hooks.waits.tell(EVERY_LANE, WaitReason.LEASE_NOT_TRUSTED, "nothing starts")
            with suppress(ClosedError):  # the stop releases them
                self._resources.pacer.call_later(_DOUBT_S, self.dispatch, entries)

    def lease_is_valid(self, epoch: int) -> bool:
        return epoch in self._epochs and self.leases.is_trusted()

    def release_claims(self, entries: list[StagedJob]) -> None:
        for entry in entries:
            self._completer.add(entry, _verdict.given_back(entry.job, entry.epoch))

    def on_completing(self) -> None:
        if not self._is_stopping:
            self._claims.begin_along()

    def on_completed(self, ended: Sequence[StagedJob], freed: list[StagedJob]) -> None:
        if self._is_stopping:
            self._is_quiet.set()
        else:
            self._claims.ended(ended, freed)

    # ---- leases ---------------------------------------------------------------------------------------------------

    def set_leases(self, leases: Sequence[Lease], lost: set[int]) -> None:
        self._epochs = frozenset(lease.epoch for lease in leases)
        for epoch in lost:
            self.staged.drop_epoch(epoch)
        for number, prefetcher in enumerate(self._prefetchers):
            prefetcher.own([lease for lease in leases if lease.shard % len(self._prefetchers) == number])
        self._zones.own(leases)

    def on_renewed(self) -> None:
        """
        Resume work that waited for a trusted lease, drop attempts of lost shards, and report to the other nodes.

        All of this runs in other threads, because the caller's thread must make the next renewal in time.
        """
        with suppress(ClosedError):  # the stop releases all jobs
            self._resources.pacer.call_later(0, self._go_on)
        self.heartbeat.ask()

    def on_renewal_failed(self) -> None:
        self.heartbeat.ask()

    def _go_on(self) -> None:
        self._let_go()
        self._claims.resume()

    def _let_go(self) -> None:
        """
        End attempts that targets still hold under lost leases. The next owner repeats these attempts.
        """
        # after an orderly hand-over, attempts keep their epoch (see the tail in `Lease`), and continue
        for entry in self._dispatcher.take_held():
            if entry.epoch not in self._epochs:
                if (expire := entry.expire) is not None:
                    expire()
                self._dispatcher.end_held(entry, GIVE_BACK, None, None)

    def _wait(self, deadline: float | None) -> None:
        while self.staged.busy:
            left = self._left(deadline)
            if left == 0:
                return
            self._is_quiet.clear()
            if self.staged.busy:
                self._is_quiet.wait(_LOOK_S if left is None else min(left, _LOOK_S))

    def _left(self, deadline: float | None) -> float | None:
        return None if deadline is None else max(0.0, deadline - self._resources.runtime.monotonic())
