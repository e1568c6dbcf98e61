"""
Withdraws claimed attempts that have not started, so that their jobs can be moved, cancelled or replaced.

Callers in this process ask on the writer's thread; callers in other processes ask through the store. An attempt is
first withdrawn in memory, so that it cannot start. Then either the caller's write replaces the job in the store, or the
attempt is released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tickwheel.engine._callbacks import EngineCallbacks
from tickwheel.engine._completion import Completer
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.jobs.model import Answer, AttemptState, AttemptStatus, Job, Outcome, State

__all__ = ["Withdrawals"]

_REST_S: Final = 0.25
"""Seconds for which this process does not claim a job that it has just released for a write of another process."""

_REPLACED: Final = frozenset(
    (
        *(Outcome.CANCELLED, Outcome.MOVED, Outcome.REPLACED, Outcome.CHANGED, Outcome.RESTARTED),
        *(Outcome.KEPT, Outcome.PAUSED),
    )
)


class Withdrawals:
    def __init__(
        self,
        resources: Resources,
        staged: StagedJobs,
        completer: Completer,
        stop: Callable[[StagedJob], object],
        callbacks: EngineCallbacks,
    ) -> None:
        self._store = resources.store
        self._pacer = resources.pacer
        self._hooks = resources.hooks
        self._staged = staged
        self._completer = completer
        self._stop = stop
        self._callbacks = callbacks
        self._withdrawn: dict[int, StagedJob] = {}

    def statuses(self, jobs: Sequence[Job]) -> list[AttemptStatus | None]:
        """
        Withdraw the attempts of *jobs*, for writes that follow at once, and return the status of each.
        """
        statuses: list[AttemptStatus | None] = []
        for job in jobs:
            found = self._staged.withdraw(job, is_current=True)
            if found is None:
                statuses.append(None)
                continue
            entry, standing, is_mine = found
            if is_mine:
                self._withdrawn[job.generation] = entry
            statuses.append(AttemptStatus(job.generation, job.due_at, job.attempt, standing))
        return statuses

    def is_waiting(self, job: Job) -> bool:
        return self._staged.is_waiting(job.generation)

    def resolved(self, statuses: Sequence[AttemptStatus], answers: Sequence[Answer] | Exception | None) -> None:
        is_doubtful = isinstance(answers, Exception)
        gone: list[StagedJob] = []
        kept: list[Job] = []
        for index, status in enumerate(statuses):
            answer = None if answers is None or isinstance(answers, Exception) else answers[index]
            if answer is not None and answer.outcome is Outcome.STOPPING:
                self._stop_started(status.generation, status.due_at, status.attempt)
            if status.standing is not AttemptState.WITHDRAWN:
                continue
            entry = self._withdrawn.pop(status.generation, None)
            if answer is None or answer.outcome not in _REPLACED:
                if entry is not None:
                    self._completer.give_back(entry, is_doubtful=is_doubtful)
                continue
            if entry is not None:
                gone.append(entry)
            if answer.outcome is Outcome.KEPT and answer.job is not None:
                kept.append(answer.job)
        if gone:
            self._callbacks.on_completed(gone, self._staged.settle(gone))
        if kept:
            self._callbacks.on_committed(kept)

    def poll(self, shards: Sequence[int]) -> None:
        try:
            asked = self._store.withdrawal_requests(shards) if shards else []
            started: list[Job] = []
            for job in asked:
                if job.attempt < 0:
                    if self._stop_started(job.generation, job.due_at, -job.attempt):
                        started.append(job)
                    continue
                found = self._staged.withdraw(job, is_current=False)
                if found is None:  # another owner has it, or its claim has no answer yet: the caller asks again
                    continue
                entry, standing, is_mine = found
                if standing is AttemptState.STARTED:
                    started.append(job)
                elif is_mine:
                    self._give_back(entry)
            if started:
                self._store.report_started(started)
        except Exception as error:  # noqa: BLE001 - the watcher must not end; the callers ask again
            self._hooks.failed("answering other processes", error)

    def _stop_started(self, generation: int, due_at: int, attempt: int) -> bool:
        entry = self._staged.running(generation)
        if entry is None or (entry.job.due_at, entry.attempt) != (due_at, attempt):
            return False
        self._stop(entry)
        return True

    def _give_back(self, entry: StagedJob) -> None:
        self._completer.give_back(entry, self._given_back, rests=True)

    def _given_back(self, answer: Answer | Exception) -> None:
        job = None if isinstance(answer, Exception) else answer.job
        if job is not None and job.state is State.PENDING:
            with suppress(ClosedError):
                self._pacer.call_later(_REST_S, partial(self._callbacks.on_committed, [job]))
