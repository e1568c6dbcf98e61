"""
Withdrawal requests: this process asks owners in other processes to withdraw claimed attempts.

A request is kept in the store and wakes the owner. The owner either makes the job pending again, or answers that the
attempt has started. If the owner has ended, its lease expires, and its attempts cannot start any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Answer, AttemptState, AttemptStatus, Contested, Job, Outcome, Write
from tickwheel.stores import Store

if TYPE_CHECKING:
    import threading

    from tickwheel.host.referee import UndecidedBatch

__all__ = ["RETRY_S", "WithdrawalRequests", "with_status"]

_PAUSE_FIRST_S: Final = 0.002
_PAUSE_MAX_S: Final = 0.1
"""Maximum interval between polls for an answer. The first intervals are shorter, because most answers come at once."""

_REMIND_S: Final = 1.0
"""Seconds between repetitions of a request, because the notification may be lost, or the owner may have ended."""

_PATIENCE_S: Final = 60.0
"""Maximum time for which a caller waits for an owner: several leases, so that a next owner can answer."""

RETRY_S: Final = 5.0
"""Time for which a failing store is retried, here and in the writer, before the caller gets the error."""


class _Caller:
    __slots__ = ("fails_since", "part")

    def __init__(self, part: UndecidedBatch) -> None:
        self.part = part
        self.fails_since: float | None = None

    def may_ask_again(self, error: Exception, now: float) -> bool:
        if self.fails_since is None:
            self.fails_since = now
        is_transient = isinstance(error, StoreError) and error.is_transient
        return is_transient and now < self.fails_since + RETRY_S


class _Waiting(_Caller):
    __slots__ = ("remind_at", "statuses", "until")

    def __init__(self, part: UndecidedBatch, now: float) -> None:
        super().__init__(part)
        self.until = now + _PATIENCE_S
        self.remind_at = now
        self.statuses: dict[int, AttemptStatus | None] = {}


class _Stopping(_Caller):
    __slots__ = ("answers",)

    def __init__(self, part: UndecidedBatch, answers: list[Answer]) -> None:
        super().__init__(part)
        self.answers = answers


Resubmit = Callable[[list[Write], Callable[[list[Answer] | Exception], object]], object]


class WithdrawalRequests:
    def __init__(self, store: Store, resubmit: Resubmit, runtime: Runtime) -> None:
        self._store = store
        self._resubmit = resubmit
        self._runtime = runtime
        self._lock = runtime.lock()
        self._new: list[_Waiting | _Stopping] = []
        self._wake = runtime.event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def add(self, part: UndecidedBatch) -> None:
        self._add(_Waiting(part, self._runtime.monotonic()))

    def _add(self, waiting: _Waiting | _Stopping) -> None:
        refusal: Exception | None = None
        with self._lock:
            if self._is_closed:
                refusal = ClosedError("scheduler")
            elif self._thread is None:
                thread = self._runtime.thread(target=self._run, name="tickwheel-withdrawals", daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except RuntimeError as error:  # no thread available
                    refusal = error
            if refusal is None:
                self._new.append(waiting)
                self._wake.set()
        if refusal is not None:
            waiting.part.finish(refusal)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._wake.set()
            thread = self._thread
        if thread is not None and thread is not self._runtime.current_thread():
            thread.join()

    def _run(self) -> None:
        waiting: list[_Waiting | _Stopping] = []
        pause_s = _PAUSE_FIRST_S
        while True:
            with self._lock:
                if self._new:
                    pause_s = _PAUSE_FIRST_S
                waiting += self._new
                self._new.clear()
                self._wake.clear()
                if not waiting and not self._is_closed:
                    self._thread = None
                    return
            if self._is_closed:
                break
            waiting = [each for each in waiting if not self._serve(each)]
            if waiting:
                self._wake.wait(pause_s)
                pause_s = min(pause_s * 1.5, _PAUSE_MAX_S)
        for each in waiting:
            each.part.finish(ClosedError("scheduler"))

    def _serve(self, waiting: _Waiting | _Stopping) -> bool:
        return self._look(waiting) if isinstance(waiting, _Waiting) else self._stop(waiting)

    def _look(self, waiting: _Waiting) -> bool:
        part, now = waiting.part, self._runtime.monotonic()
        open_ = {index: part.job(index) for index in part.indexes if index not in waiting.statuses}
        try:
            counted = self._store.attempts(list(open_.values()))
            for index, job in open_.items():
                if job.generation not in counted:
                    waiting.statuses[index] = None  # the store has no such attempt: the write is retried unchanged
                elif counted[job.generation]:
                    waiting.statuses[index] = _status(job, AttemptState.STARTED)
            if now >= waiting.remind_at:
                waiting.remind_at = now + _REMIND_S
                self._remind(waiting, {index: job for index, job in open_.items() if index not in waiting.statuses})
        except Exception as error:  # noqa: BLE001  any error belongs to the caller, and the thread continues
            if not waiting.may_ask_again(error, now):
                part.finish(error)
                return True
        else:
            waiting.fails_since = None
        if len(waiting.statuses) == len(part.indexes):
            self._decide(waiting)
            return True
        if now > waiting.until:
            keys = ", ".join(repr(job.key) for job in list(open_.values())[:3])
            what = f"{self._store.url}: the owner of {keys} does not say whether it has started"
            part.finish(StoreError(what, "check its node, or try again", is_transient=True))
            return True
        return False

    def _remind(self, waiting: _Waiting, open_: dict[int, Job]) -> None:
        orphaned = self._store.request_withdrawal(list(open_.values())) if open_ else set()
        for index, job in open_.items():
            if job.generation in orphaned:
                waiting.statuses[index] = _status(job, AttemptState.CUT_OFF)

    def _decide(self, waiting: _Waiting) -> None:
        part = waiting.part
        writes = [with_status(part.writes[index], waiting.statuses[index]) for index in part.indexes]
        try:
            self._resubmit(writes, partial(self._answered, part))
        except Exception as error:  # noqa: BLE001  any error belongs to the caller
            part.finish(error)

    def _answered(self, part: UndecidedBatch, answers: list[Answer] | Exception) -> None:
        if isinstance(answers, Exception) or not any(answer.outcome is Outcome.STOPPING for answer in answers):
            part.finish(answers)
        else:
            self._add(_Stopping(part, answers))

    def _stop(self, stopping: _Stopping) -> bool:
        jobs = [each.job for each in stopping.answers if each.outcome is Outcome.STOPPING and each.job is not None]
        try:
            self._store.request_withdrawal([replace(job, attempt=-job.attempt) for job in jobs])
        except Exception as error:  # noqa: BLE001  any error belongs to the caller, and the thread continues
            if stopping.may_ask_again(error, self._runtime.monotonic()):
                return False
            stopping.part.finish(error)
            return True
        stopping.part.finish(stopping.answers)
        return True


def _status(job: Job, standing: AttemptState) -> AttemptStatus:
    return AttemptStatus(job.generation, job.due_at, job.attempt, standing)


def with_status(write: Write, status: AttemptStatus | None) -> Write:
    assert isinstance(write, Contested)
    return replace(write, over=status)
