"""
The verdict on a finished attempt: done, again or dead, and the time of the next attempt or run. Pure functions.

    result of the attempt              one-time job                     recurring job
    success                            deleted                          next run; deleted after the last run
    failure, attempts left             tried again, by its policy       tried again, by its policy
    failure of the last attempt        dead letter                      next run, with the error kept; paused after
                                                                        `pause_after` such runs; if there is no next
                                                                        run, dead letter
    Snooze                             tried again; no attempt is used  tried again; no attempt is used
    Retry, as an object or a class     like a failure                   like a failure
    an exception that is returned      like a failure                   like a failure
    DeadLetter, or a final error       dead letter                      dead letter; the series ends until a replay
    no handler                         dead letter                      dead letter; the series ends until a replay
    every attempt cut off ("poison")   dead letter                      dead letter; the series ends until a replay
    expired or missed                  deleted                          next run
    any result, but the job's          -                                dead letter, because it is unknown whether
      recurrence rule raises                                            there is a next run
    any result, but this node cannot   -                                the outcome is stored, and the first node that
      read the rule                                                     can read the rule finds the next run
    cancelled while it ran             deleted                          deleted
    stopped when its next run was due  -                                next run, with the error kept
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, TypeAlias

from tickwheel._core import make_fast
from tickwheel.engine._staged_job import RunSpan, StagedJob
from tickwheel.jobs.checks import delay_ms
from tickwheel.jobs.columns import text_of
from tickwheel.jobs.errors import (
    ERROR_CHARS_MAX,
    HandlerNotFoundError,
    error_text,
    kept_text,
)
from tickwheel.jobs.model import STOPPED, Answer, Job, Outcome, Pause, Settle, Settled
from tickwheel.jobs.record import replace
from tickwheel.jobs.recurrence import Recurrence
from tickwheel.jobs.retry import wait_ms
from tickwheel.jobs.tracebacks import place_of, traceback_text
from tickwheel.jobs.unreadable import is_readable, with_end, with_retry
from tickwheel.targets import DeadLetter, FinalError, Retry, Snooze
from tickwheel.targets.contract import GIVE_BACK
from tickwheel.targets.misuse import misuse_of

__all__ = [
    "Ending",
    "Verdict",
    "fatal",
    "given_back",
    "is_refused",
    "judge_ended",
    "judge_error",
    "judge_expired",
    "judge_result",
    "overtaken_at",
    "poison",
    "stopped",
    "verdict_of",
]

Chance: TypeAlias = Callable[[], float]
"""Returns a random float in [0, 1)."""

_OVERTAKEN = "its next run was due"
_BY: Final = "pause_after"
"""The name that the store records as the author of an automatic pause after failed runs."""
_NOTE_CHARS: Final = 240
"""Maximum length of a note (a handler's remark) in characters. In UTF-8, it then takes at most a thousand bytes."""


class Ending(StrEnum):
    SUCCEEDED = "succeeded"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    DIED = "died"
    EXPIRED = "expired"
    GIVEN_BACK = "given_back"
    STOPPED = "stopped"


_NOT_RUN: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)
_NOBODY_RUNS_IT: Final = "which nobody runs: register the `async def` itself, or what awaits or iterates it"
SNOOZE_MIN_MS: Final = 1_000
"""Minimum snooze in ms, so that a handler cannot run without a pause."""
_SUCCEEDED: Final = Ending.SUCCEEDED  # a constant, as an enum look-up is slow


@make_fast
@dataclass(frozen=True, slots=True)
class Verdict:
    settle: Settle
    ending: Ending
    rests: bool = False
    """True if the job stays out of memory for now, although it is pending again in the store."""
    traceback: str | None = None
    """Location of the failure in the target, if known."""
    reason: str = ""
    """The reason that the handler gave for a retry or snooze."""


def verdict_of(entry: StagedJob) -> Verdict:
    verdict = entry.verdict
    return Verdict(Settle(entry.job, entry.epoch), _SUCCEEDED) if verdict is None else verdict


def judge_result(job: Job, epoch: int, result: Any, ran: RunSpan, random: Chance) -> Verdict:
    kind = type(result)  # not isinstance(), which also reads the object's `__class__`: that may raise
    if issubclass(kind, _NOT_RUN):
        with suppress(Exception):
            result.close()  # a coroutine warns otherwise
        return _failed(job, epoch, f"the handler returned a {kind.__name__}, {_NOBODY_RUNS_IT}", ran, random)
    if (misuse := misuse_of(result)) is not None:
        return _failed(job, epoch, misuse, ran, random)
    if issubclass(kind, DeadLetter):
        return _dead(job, epoch, kept_text(result.reason))
    if issubclass(kind, Snooze):
        pause = _ms(result.delay) if result is GIVE_BACK else max(_ms(result.delay), SNOOZE_MIN_MS)
        reason = kept_text(result.reason)
        again = _again(job, epoch, job.attempt, ran.after(pause), reason or job.error, begun=ran.begun)
        return _unless_overtaken(Verdict(again, Ending.SNOOZED, reason=reason), ran)
    if issubclass(kind, Retry):
        wait = None if result.after is None else _ms(result.after)
        return _failed(job, epoch, kept_text(result.reason), ran, random, wait=wait)
    return _done(job, epoch, ran, Ending.SUCCEEDED)


def judge_error(job: Job, epoch: int, error: BaseException, ran: RunSpan, random: Chance) -> Verdict:
    is_fatal = issubclass(type(error), HandlerNotFoundError | FinalError)
    if issubclass(type(error), FinalError):
        error = error.__cause__ or error
    text = error_text(error)
    verdict = _dead(job, epoch, text) if is_fatal else _failed(job, epoch, text, ran, random)
    place = place_of(error)
    if place is not None and verdict.settle.error is not None:
        verdict = replace(verdict, settle=replace(verdict.settle, raised_in=place))
    trace = traceback_text(error)
    return verdict if trace is None else replace(verdict, traceback=trace)


def judge_expired(job: Job, epoch: int, now: int) -> Verdict | None:
    is_late = job.expires_at is not None and now >= job.expires_at
    if not is_late and job.recurrence is not None:
        recurrence = Recurrence.from_text(job.recurrence)
        is_late = recurrence.is_missed(job.due_at, now) or recurrence.is_past(job.key, job.due_at)
    if not is_late:
        return None
    return _done(job, epoch, RunSpan(now, now), Ending.EXPIRED, has_run=False)


def judge_ended(job: Job, epoch: int) -> Verdict | None:
    """
    Return the verdict on a run that ended on a node that could not read the job's rule.

    Return None if there was no such run, or if the job was moved since: a moved job must run at its new due time.
    """
    if job.recurrence is None or (ended := Recurrence.from_text(job.recurrence).ended) is None:
        return None
    if ended.due_at != job.due_at:
        return None
    ran = RunSpan(ended.begun, ended.ended)
    return _done(job, epoch, ran, Ending.GIVEN_BACK, job.error, has_run=ended.has_run)


def poison(job: Job, epoch: int) -> Verdict:
    """
    Return the verdict on a *job* that has used all its attempts, none of which has ended.

    A failed attempt would have been settled, so the process died during each attempt. The job is probably the cause.
    """
    error = f"all {job.attempt} attempts were cut off by the end of the process: find out why, then replay it"
    return _dead(job, epoch, error, attempt=job.attempt)


def fatal(job: Job, epoch: int, error: BaseException) -> Verdict:
    """
    Return the verdict on a job that cannot be run, or to which no other verdict applies. No attempt is counted.
    """
    return _dead(job, epoch, error_text(error), attempt=job.attempt)


def stopped(entry: StagedJob, ran: RunSpan) -> Verdict:
    """
    Return the verdict on an attempt that was asked to stop and did not succeed. The attempt is not retried.

    A cancelled job is removed. A job whose next run was due continues with that run.
    """
    if entry.overlap_cancelled:
        return _done(entry.job, entry.epoch, ran, Ending.DIED, _OVERTAKEN)
    return Verdict(Settle(entry.job, entry.epoch, error="cancelled while it ran"), Ending.STOPPED)


def is_refused(entry: StagedJob, answer: Answer) -> bool:
    """
    Return True if the store refused the outcome of *entry*, which then has no effect.

    The result is False for a recurring job that was removed while it ran.
    """
    if answer.outcome is Outcome.SETTLED:
        return False
    is_stopped = entry.verdict is not None and entry.verdict.ending is Ending.STOPPED
    return not is_stopped or entry.job.recurrence is None or answer.outcome is Outcome.NOT_OWNER


def overtaken_at(job: Job, begun: int) -> int | None:
    if job.recurrence is None:
        return None
    with suppress(Exception):  # if the rule cannot be read or raises, the end of the run reports it
        return Recurrence.from_text(job.recurrence).overtaken_at(job.key, job.due_at, begun)
    return None


def given_back(job: Job, epoch: int, *, rests: bool = False, is_doubtful: bool = False) -> Verdict:
    """
    Return the verdict on an attempt that never started. The attempt is not counted, so the next one has its number.

    If *is_doubtful* is True, an earlier write about the attempt may still take effect in the store. The job becomes due
    a millisecond later, so that such a late write does not match the next attempt.
    """
    again = _again(job, epoch, job.attempt, job.due_at + is_doubtful, job.error, begun=job.due_at)
    return Verdict(again, Ending.GIVEN_BACK, rests)


def _failed(job: Job, epoch: int, error: str, ran: RunSpan, random: Chance, *, wait: int | None = None) -> Verdict:
    attempt = job.attempt + 1
    if attempt < job.retry.attempts:
        if wait is None:
            wait = wait_ms(job.retry, attempt, random())
        again = _again(job, epoch, attempt, ran.after(wait), error, begun=ran.begun)
        return _unless_overtaken(Verdict(again, Ending.RETRIED), ran)
    done = _done(job, epoch, ran, Ending.DIED, error)
    is_last = done.settle.how is Settled.DONE and done.settle.due_at is None
    return _dead(job, epoch, error) if is_last else done


def _unless_overtaken(again: Verdict, ran: RunSpan) -> Verdict:
    settle = again.settle
    limit = overtaken_at(settle.job, ran.begun)
    if limit is None or settle.due_at is None or settle.due_at < limit:
        return again
    return _done(settle.job, settle.epoch, ran, Ending.DIED, settle.error or _OVERTAKEN)


def _again(job: Job, epoch: int, attempt: int, due_at: int, error: str | None, *, begun: int) -> Settle:
    text = job.recurrence
    if text is not None and due_at != job.due_at:
        length = None if job.expires_at in (None, STOPPED) else job.expires_at - job.due_at
        try:
            text = Recurrence.from_text(text).postponed(job.key, job.due_at, begun, length).to_text()
        except Exception:  # noqa: BLE001  the attempt has ended even if its rule raises
            text = with_retry(text, job.due_at, length)
    return Settle(job, epoch, Settled.AGAIN, attempt, due_at, error, text, raised_in=_place_kept(job, error))


def _place_kept(job: Job, error: str | None) -> str | None:
    return job.raised_in if error is job.error else None


def _dead(job: Job, epoch: int, error: str, attempt: int | None = None) -> Verdict:
    count = job.attempt + 1 if attempt is None else attempt
    return Verdict(Settle(job, epoch, Settled.DEAD, count, None, error[:ERROR_CHARS_MAX]), Ending.DIED)


def _done(
    job: Job, epoch: int, ran: RunSpan, ending: Ending, error: str | None = None, *, has_run: bool = True
) -> Verdict:
    if job.recurrence is None:
        return Verdict(Settle(job, epoch), ending)
    try:
        before = Recurrence.from_text(job.recurrence)
        has_failed = has_run and (ending is Ending.DIED or (ending is Ending.GIVEN_BACK and error is not None))
        due_at, after = before.after_run(
            job.key, job.due_at, ran.begun, ran.ended, has_run=has_run, has_failed=has_failed
        )
    except Exception as unknown:  # noqa: BLE001  perhaps more runs are left, so the series must not end silently
        if is_readable(job.recurrence):
            return _dead(job, epoch, error_text(unknown))
        text = with_end(job.recurrence, job.due_at, ran.begun, ran.ended, has_run=has_run)
        place = _place_kept(job, error)
        return Verdict(Settle(job, epoch, Settled.DONE, 0, job.due_at, error, text, raised_in=place), ending)
    pause = None
    if has_run and not has_failed:
        after = replace(after, succeeded_at=ran.ended)
    elif due_at is not None and after.pauses():
        note = f"failed runs in a row: {after.failures}, the last with {text_of(error)}"
        pause, after = Pause(ran.ended, _BY, note[:_NOTE_CHARS]), replace(after, failures=0)
    text = job.recurrence if after is before else after.to_text()
    place = _place_kept(job, error)
    return Verdict(Settle(job, epoch, Settled.DONE, 0, due_at, error, text, pause=pause, raised_in=place), ending)


def _ms(seconds: Any) -> int:
    return delay_ms(seconds, "the delay that the handler returned")
