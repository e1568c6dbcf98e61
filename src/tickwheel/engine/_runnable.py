"""
Decides which jobs this node can run now.

The node must have the job's handler or target, which must accept the payload, and be able to read the job's rule, so
that it finds the next run; and no scope may pause the job.

The store has the scopes. They are read before anything is staged, every other second, and at once after a pause or
resume through this scheduler: from then on no paused job starts here. A job paused by its scope waits in the store like
one without a handler; after the resume the first node that looks takes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from tickwheel.engine import _verdict
from tickwheel.engine._settler import Settler
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import Phase, StagedJob
from tickwheel.engine._way import Way
from tickwheel.engine.resources import Resources
from tickwheel.host.registry import Registry
from tickwheel.jobs.explanation import WaitReason
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job, scope_over
from tickwheel.jobs.unreadable import is_readable, unreadable_part
from tickwheel.stores import Skill

__all__ = ["Runnable"]

_NAMED_MAX: Final = 1_000
"""Maximum number of handlers and reasons that are remembered."""

_UNFIT_MAX: Final = 1_000
"""Maximum number of single jobs with unfit payloads that are left to other nodes; past it, their handlers are."""

_log = logging.getLogger("tickwheel.scheduler")


class Runnable:
    """
    The registry without paused scopes. All methods may be called from any thread.

    Args:
        staged: The table, from which newly paused jobs are taken back.
        settler: Gives back counted attempts that have not started.
        way: Reads dropped jobs again, and takes up resumed ones.
    """

    def __init__(
        self, resources: Resources, registry: Registry, staged: StagedJobs, settler: Settler, way: Way
    ) -> None:
        self._store = resources.store
        self._registry = registry
        self._waits = resources.hooks.waits
        self._staged = staged
        self._settler = settler
        self._way = way
        self._lock = resources.runtime.lock()
        self._paused: frozenset[str] | None = None
        self._is_aside_unknown = True
        self._unreadable: dict[str, str] = {}
        self._unfit: dict[int, Skill] = {}
        self._left: set[Skill] = set()
        self._named: set[tuple[str, str, str]] = set()

    def skills(self) -> Sequence[Skill]:
        """
        Return the skills of this node, except handlers that too many jobs do not fit. The store filters paused jobs.
        """
        skills = self._registry.skills()
        return [skill for skill in skills if skill not in self._left] if self._left else skills

    def unreadable(self) -> Sequence[str]:
        return list(self._unreadable)

    def unfit(self) -> Sequence[int]:
        return list(self._unfit)

    @property
    def is_complete(self) -> bool:
        return not self._unreadable and self._registry.is_complete

    def look_again(self) -> bool:
        for part, text in [*self._unreadable.items()]:
            if is_readable(text):
                self._unreadable.pop(part, None)
        self._registry.look_again()
        return self.is_complete

    def can_run(self, job: Job) -> bool:
        has_handler = self._registry.can_run(job.target, job.handler)
        return has_handler and self._can_read(job) and not self._is_paused(job) and self.misfit(job) is None

    def lacking(self, jobs: Sequence[Job]) -> Sequence[Job]:
        can_run, names = self._registry.can_run, {(job.target, job.handler) for job in jobs}
        has_all = all(can_run(*name) for name in names) and not any(self._registry.is_choosy(*name) for name in names)
        if has_all and not self._paused and all(job.recurrence is None or self._can_read(job) for job in jobs):
            return ()
        return [job for job in jobs if not self.can_run(job)]

    def warn(self, jobs: Iterable[Job]) -> None:
        """
        Log why *jobs* are set aside, once for each handler and reason; paused jobs are not logged.
        """
        for job in jobs:
            lane, lack = lane_of(job.target, job.handler), self.lack(job)
            self._waits.tell(lane, WaitReason.PAUSED if lack is None else WaitReason.NO_HANDLER, lack or "")
            if lack is not None:
                self._warn_once(job.target, job.handler, lack, f"job {job.key!r} waits for a node that can run it")

    def lack(self, job: Job) -> str | None:
        """
        Return, for logs, why this node cannot run *job*; None if it can, or if only a pause prevents it.
        """
        lack = self._registry.lack_of(job.target, job.handler)
        if lack is None and job.recurrence is not None and (part := unreadable_part(job.recurrence)) is not None:
            return f"this node cannot read {part} in its rule: install what it needs, such as tzdata or cronsim"
        if lack is None and self.misfit(job) is not None:
            return f"its payload does not fit {job.handler!r} here, as its error says: another version of it may run"
        return lack

    def _warn_of_aside(self) -> None:
        """
        Log the handlers of jobs that were set aside before this node started or while they were paused.
        """
        for each in self._store.aside():
            reason = self._registry.lack_of(each.target, each.handler)
            if reason is not None and scope_over(each.target, each.handler, self._paused or ()) is None:
                jobs = "1 job waits" if each.count == 1 else f"{each.count} jobs wait"
                self._warn_once(each.target, each.handler, reason, f"{jobs} for a node with handler {each.handler!r}")

    def _warn_once(self, target: str, handler: str, reason: str, waiting: str) -> None:
        name = (target, handler, reason)
        if name not in self._named and len(self._named) < _NAMED_MAX:
            self._named.add(name)
            _log.warning("%s: %s", waiting, reason)

    def misfit(self, job: Job) -> str | None:
        """
        Return why its handler here cannot take the payload of *job*, which is then left to other nodes; None if it can.
        """
        reason = self._registry.misfit(job)
        if reason is not None and job.generation not in self._unfit:
            if len(self._unfit) < _UNFIT_MAX:
                self._unfit[job.generation] = (job.target, job.handler)
            else:
                self._left.add((job.target, job.handler))
        return reason

    def _can_read(self, job: Job) -> bool:
        if job.recurrence is None:
            return True
        if any(part in job.recurrence for part in [*self._unreadable]):
            return False
        if is_readable(job.recurrence):
            return True
        part = unreadable_part(job.recurrence)
        if part is not None:
            self._unreadable[part] = job.recurrence
        return part is None

    def reason(self, lane: str) -> WaitReason | None:
        """
        Return PAUSED or NO_HANDLER if no job of *lane* can run here now, else None.
        """
        target, _, name = lane.partition(":")
        if self._paused and scope_over(target, name, self._paused) is not None:
            return WaitReason.PAUSED
        return None if self._registry.can_run(target, name) else WaitReason.NO_HANDLER

    def unpaused(self, entries: list[StagedJob]) -> list[StagedJob]:
        if not self._paused:
            return entries
        paused = [entry for entry in entries if self._is_paused(entry.job)]
        self._give_back(paused)
        gone = set(paused)
        return [entry for entry in entries if entry not in gone]

    def look_once(self) -> None:
        if self._paused is None:
            self.look()

    def look(self) -> None:
        with self._lock:  # of two looks, the one that read later counts
            is_first, before = self._paused is None, self._paused or frozenset()
            self._paused = paused = frozenset(pause.scope for pause in self._store.scopes())
        if paused - before:
            self._staged.drop(job.key for job in self._staged.jobs() if self._is_paused(job))
            self._give_back([entry for entry in self._staged.take(Phase.BEGUN) if self._is_paused(entry.job)])
            self._way.start_over()
        if before - paused:
            self._way.changed()
            self._is_aside_unknown = True
        if self._is_aside_unknown and not is_first:  # programs register handlers just after the start, too
            self._warn_of_aside()
            self._is_aside_unknown = False

    def _is_paused(self, job: Job) -> bool:
        paused = self._paused
        return paused is not None and bool(paused) and scope_over(job.target, job.handler, paused) is not None

    def _give_back(self, entries: Iterable[StagedJob]) -> None:
        for entry in self._staged.recall(entries):
            self._settler.write(entry, _verdict.given_back(entry.job, entry.epoch))
