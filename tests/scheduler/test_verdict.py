"""
The verdict for each way in which an attempt can end.
"""

from __future__ import annotations

from datetime import timedelta
from random import random

import pytest

from tickwheel.engine._staged_job import RunSpan, StagedJob
from tickwheel.engine._verdict import (
    Ending,
    fatal,
    given_back,
    judge_error,
    judge_expired,
    judge_result,
    poison,
    stopped,
)
from tickwheel.jobs.errors import ERROR_CHARS_MAX
from tickwheel.jobs.model import Settled
from tickwheel.jobs.recurrence import Exclusion, Interval, Misfire, Overlap, Recurrence
from tickwheel.scheduler import DeadLetter, HandlerNotFoundError, Job, Retry, RetryPolicy, Snooze

NOW = 1_700_000_000_000
RAN = RunSpan(NOW, NOW + 5)
POLICY = RetryPolicy(attempts=3, kind="list", waits_ms=(10, 20), jitter=0)
MINUTELY = Recurrence(Interval(60_000, NOW)).to_text()
OVERTAKEN = Recurrence(Interval(12, NOW), overlap=Overlap.CANCEL).to_text()


def job(attempt=0, recurrence=None, **more):
    """
    Return a pending job due at NOW.
    """
    return Job("k", 1, NOW, attempt=attempt, retry=POLICY, recurrence=recurrence, **more)


def facts(verdict):
    """
    Return the fields of a verdict as a flat tuple.
    """
    settle = verdict.settle
    return verdict.ending, settle.how, settle.attempt, settle.due_at, settle.error


@pytest.mark.parametrize(
    ("one", "result", "expected"),
    [
        (job(), None, (Ending.SUCCEEDED, Settled.DONE, 0, None, None)),
        (job(), 42, (Ending.SUCCEEDED, Settled.DONE, 0, None, None)),
        (job(0, MINUTELY), None, (Ending.SUCCEEDED, Settled.DONE, 0, NOW + 60_000, None)),
        (job(1), Snooze(2), (Ending.SNOOZED, Settled.AGAIN, 1, NOW + 2_005, None)),
        (job(1), Snooze(timedelta(seconds=2)), (Ending.SNOOZED, Settled.AGAIN, 1, NOW + 2_005, None)),
        (job(0, MINUTELY), Snooze(0), (Ending.SNOOZED, Settled.AGAIN, 0, NOW + 1_005, None)),
        (job(0), Retry(1, "why"), (Ending.RETRIED, Settled.AGAIN, 1, NOW + 1_005, "why")),
        (job(0), Retry(reason="why"), (Ending.RETRIED, Settled.AGAIN, 1, NOW + 15, "why")),
        (job(2), Retry(1, "why"), (Ending.DIED, Settled.DEAD, 3, None, "why")),
        (job(0, OVERTAKEN), Snooze(1), (Ending.DIED, Settled.DONE, 0, NOW + 12, "its next run was due")),
        (job(0, OVERTAKEN), Snooze(0), (Ending.DIED, Settled.DONE, 0, NOW + 12, "its next run was due")),
        (job(0), DeadLetter("no"), (Ending.DIED, Settled.DEAD, 1, None, "no")),
        (job(0, MINUTELY), DeadLetter("no"), (Ending.DIED, Settled.DEAD, 1, None, "no")),
    ],
)
def test_results(one, result, expected):
    """
    Each result of a handler leads to the expected verdict.
    """
    assert facts(judge_result(one, 7, result, RAN, random)) == expected


@pytest.mark.parametrize(
    ("one", "result", "due_at"),
    [
        (job(1), Snooze(2), NOW + 2_305),
        (job(0), Retry(1, "why"), NOW + 1_305),
        (job(0), Retry(reason="why"), NOW + 315),
        (job(0), ValueError("x"), NOW + 315),
        (job(0), Retry(0), NOW + 5),
        (job(0, MINUTELY), None, NOW + 60_000),
    ],
)
def test_a_wait_counts_from_the_latest_instant_of_the_end(one, result, due_at):
    """
    The delay of a retry counts from the latest time at which the attempt can have ended.

    A retry without a delay, and the next run of a series, are not delayed.
    """
    judge = judge_error if isinstance(result, Exception) else judge_result
    assert judge(one, 7, result, RunSpan(NOW, NOW + 5, 300), random).settle.due_at == due_at


@pytest.mark.parametrize(
    ("one", "error", "expected"),
    [
        (job(0), ValueError("x"), (Ending.RETRIED, Settled.AGAIN, 1, NOW + 15, "ValueError: x")),
        (job(0, OVERTAKEN), ValueError("x"), (Ending.DIED, Settled.DONE, 0, NOW + 12, "ValueError: x")),
        (job(1), ValueError(), (Ending.RETRIED, Settled.AGAIN, 2, NOW + 25, "ValueError")),
        (job(2), ValueError("x"), (Ending.DIED, Settled.DEAD, 3, None, "ValueError: x")),
        (job(2, MINUTELY), ValueError("x"), (Ending.DIED, Settled.DONE, 0, NOW + 60_000, "ValueError: x")),
        (
            job(0),
            HandlerNotFoundError("h"),
            (Ending.DIED, Settled.DEAD, 1, None, "no handler is named 'h': register it with @scheduler.handler('h')"),
        ),
    ],
)
def test_errors(one, error, expected):
    """
    Each error of a handler leads to the expected verdict.

    A missing handler does not lead to a retry.
    """
    assert facts(judge_error(one, 7, error, RAN, random)) == expected


def pay():
    raise ValueError("x")


@pytest.mark.parametrize("recurrence", [None, MINUTELY])
@pytest.mark.parametrize("attempt", [0, 2])
def test_the_place_of_an_error(attempt, recurrence):
    """
    The line that raised an error is stored for as long as the error is stored.
    """
    before = job(attempt, recurrence, error="before", raised_in="shop.pay+7")
    with pytest.raises(ValueError, match="x") as caught:
        pay()
    settle = judge_error(before, 7, caught.value, RAN, random).settle
    assert (settle.error, settle.raised_in) == ("ValueError: x", f"{__name__}.pay+1")
    assert judge_error(before, 7, ValueError("never raised"), RAN, random).settle.raised_in is None
    for verdict in (given_back(before, 7), judge_result(before, 7, Snooze(1), RAN, random)):
        assert (verdict.settle.error, verdict.settle.raised_in) == ("before", "shop.pay+7")
    for result in (Retry(1, "why"), Snooze(1, "why"), DeadLetter("no"), None):
        assert judge_result(before, 7, result, RAN, random).settle.raised_in is None


class MuteError(Exception):
    """
    An error whose text cannot be read, because `__str__` raises the given error.
    """

    def __str__(self):
        raise self.args[0]


class LiarError(Exception):
    """
    An error whose class cannot be read.
    """

    @property
    def __class__(self):
        raise RuntimeError


class Text(str):
    """
    An object that is a string by its class, but cannot be used like a string.
    """

    __slots__ = ()

    def __getitem__(self, _index):
        raise RuntimeError

    __format__ = __add__ = __len__ = encode = isascii = __getitem__


class OddError(Exception):
    """
    An error whose text is an instance of a subclass of str.
    """

    def __str__(self):
        return Text("odd")


class NamelessType(type):
    """
    A type whose name is an instance of a subclass of str.
    """

    @property
    def __name__(cls):
        return Text("Nameless")


class NamelessError(Exception, metaclass=NamelessType):
    """
    An error whose type is a `NamelessType`.
    """


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MuteError(ValueError()), "MuteError: its str() raised ValueError"),
        (lambda: MuteError(SystemExit()), "MuteError: its str() raised SystemExit"),
        (lambda: MuteError(KeyboardInterrupt()), "MuteError: its str() raised KeyboardInterrupt"),
        (lambda: LiarError("x"), "LiarError: x"),
        (OddError, "OddError: odd"),
        (lambda: NamelessError("x"), "Nameless: x"),
        (lambda: KeyboardInterrupt("x"), "KeyboardInterrupt: x"),
        (lambda: ExceptionGroup("both", [MuteError(ValueError())]), "ExceptionGroup: both (1 sub-exception)"),
        (lambda: ValueError("a\0b\udc80c"), "ValueError: a\\x00b\\udc80c"),
        (lambda: ValueError("\0" * 10_000), "ValueError: " + "\\x00" * 497),
    ],
)
def test_errors_whose_text_is_anything(make, text):
    """
    An error with any kind of text fails the attempt.

    Its text is stored as a plain string that every store accepts.
    """
    verdict = judge_error(job(0), 7, make(), RunSpan(NOW, NOW), random)
    assert verdict.ending is Ending.RETRIED
    assert verdict.settle.error == text
    assert type(verdict.settle.error) is str


def test_results_of_any_class():
    """
    The result of a handler, and the reason in a result, may be objects of any type.

    Even an object whose text cannot be read leads to a verdict.
    """
    error = judge_result(job(0), 7, LiarError(), RunSpan(NOW, NOW), random).settle.error
    assert error == "the handler returned a LiarError: raise it"
    assert judge_result(job(0), 7, DeadLetter(Text("no")), RunSpan(NOW, NOW), random).settle.error == "no"
    assert judge_result(job(0), 7, DeadLetter(None), RunSpan(NOW, NOW), random).settle.error == "None"
    assert (
        judge_result(job(0), 7, DeadLetter(MuteError(ValueError())), RunSpan(NOW, NOW), random).settle.error
        == "its str() raised ValueError"
    )
    assert judge_result(job(0), 7, Retry(reason=5), RunSpan(NOW, NOW), random).settle.error == "5"


def test_long_errors_are_cut():
    """
    An error's text is truncated to the maximum that a job can carry.
    """
    assert (
        len(judge_error(job(2), 7, ValueError("x" * 10_000), RunSpan(NOW, NOW), random).settle.error) == ERROR_CHARS_MAX
    )
    assert len(fatal(job(), 7, ValueError("x" * 10_000)).settle.error) == ERROR_CHARS_MAX


def test_expiry():
    """
    A one-time job that has expired is omitted.

    A recurring job continues with its next run.
    """
    assert judge_expired(job(expires_at=NOW + 10), 7, NOW + 9) is None
    assert facts(judge_expired(job(expires_at=NOW + 10), 7, NOW + 10)) == (Ending.EXPIRED, Settled.DONE, 0, None, None)
    verdict = judge_expired(job(0, MINUTELY, expires_at=NOW + 10), 7, NOW + 100_000)
    assert facts(verdict) == (Ending.EXPIRED, Settled.DONE, 0, NOW + 120_000, None)


def test_skipped_runs():
    """
    With the misfire policy `skip`, a run that is more than a minute late is omitted.
    """
    skipping = Recurrence(Interval(60_000, NOW), Misfire.SKIP).to_text()
    assert judge_expired(job(0, skipping), 7, NOW + 60_000) is None
    assert facts(judge_expired(job(0, skipping), 7, NOW + 60_001))[:2] == (Ending.EXPIRED, Settled.DONE)


@pytest.mark.parametrize("ends", ["succeeds", "fails", "is late", "is overtaken"])
def test_a_search_that_gave_up(ends):
    """
    If exclusions make the search for the next run give up, the series becomes a dead letter.

    Its error names the exclusions.
    """
    exclude = tuple(map(Exclusion.parse, ("*/2 * * 14-20 * *", "1-59/2 * * 14-20 * *")))
    one = job(2, Recurrence(Interval(1_000, NOW), exclude=exclude).to_text(), expires_at=NOW + 9)
    if ends == "is overtaken":
        entry = StagedJob(one, 7, 0.0)
        entry.overlap_cancelled = True
        verdict = stopped(entry, RAN)
    elif ends == "is late":
        verdict = judge_expired(one, 7, NOW + 10)
    else:
        result = Retry() if ends == "fails" else None
        verdict = judge_result(one, 7, result, RAN, random)
    ending, how, _, due_at, error = facts(verdict)
    assert (ending, how, due_at) == (Ending.DIED, Settled.DEAD, None)
    assert error.startswith("exclude is ['*/2 * * 14-20 * *', ")


def test_poison():
    """
    A pending job that has no attempts left becomes a dead letter.
    """
    kind, how, attempt, _, error = facts(poison(job(3), 7))
    assert (kind, how, attempt) == (Ending.DIED, Settled.DEAD, 3)
    assert error.startswith("all 3 attempts were cut off by the end of the process")


def test_an_attempt_that_did_not_start():
    """
    An attempt that did not start is not counted, and the due time of its job stays the same.
    """
    assert facts(given_back(job(1), 7)) == (Ending.GIVEN_BACK, Settled.AGAIN, 1, NOW, None)
