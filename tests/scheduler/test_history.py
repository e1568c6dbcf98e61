"""
The history in the store: which attempts it records, with which fields, and which attempts it does not record.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from tickwheel.engine._records import Pruner
from tickwheel.jobs.errors import ERROR_CHARS_MAX
from tickwheel.jobs.tracebacks import TRACEBACK_CHARS_MAX, traceback_text
from tickwheel.observe.events import JobDied, JobExpired, JobFailed, JobSnoozed, JobSucceeded
from tickwheel.scheduler import (
    AsyncScheduler,
    HistoryOptions,
    HistoryRecord,
    InvalidJobError,
    RetryPolicy,
    Scheduler,
    SchedulerOptions,
    Snooze,
)
from tickwheel.testing import ManualClock
from tickwheel.testing.inline import InlineScheduler

AT_ONCE = RetryPolicy(attempts=3, base_ms=0, jitter=0)
ALL = SchedulerOptions(history=HistoryOptions(keep="all"))


@pytest.fixture
def scheduler(url, make):
    """
    Return a started scheduler.
    """
    return make(url).start()


def test_attempts_and_death(scheduler, events):
    """
    Each failed attempt and the final failure are recorded with time, node, duration, error and the line that raised it.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=AT_ONCE)
    def handler(_payload, firing):
        raise RuntimeError(firing.attempt)

    job = scheduler.set("k", delay=0, handler="h").job
    told.of(JobDied)
    records = scheduler.history("k")
    assert [(each.attempt, each.outcome) for each in records] == [(3, "died"), (2, "failed"), (1, "failed")]
    last = records[0]
    assert (last.key, last.generation, last.target, last.handler) == ("k", job.generation, "handler", "h")
    assert last.error == "RuntimeError: 3"
    assert last.traceback.startswith("Traceback (most recent call last):\n")
    assert re.findall(r'File "([^"]+)"', last.traceback) == [__file__], "the frames of tickwheel are left out"
    assert last.traceback.endswith("raise RuntimeError(firing.attempt)\nRuntimeError: 3")
    assert last.begun_at >= last.due_at
    assert 0 <= last.took_ms <= last.at - last.due_at + 1
    assert last.by == scheduler.stats()["owner"]
    assert [record.number for record in scheduler.history("k", limit=1)] == [last.number]
    assert scheduler.history("k", before=last.number) == records[1:]


def test_a_success_of_a_one_time_job_leaves_no_record(scheduler, events):
    """
    By default, a one-time job that succeeds leaves no record, and neither does an attempt that is snoozed.
    """
    told = events(scheduler)
    answers = [Snooze(0.001), None]
    scheduler.handler("h")(lambda _payload: answers.pop(0))
    scheduler.set("k", delay=0, handler="h")
    told.of(JobSnoozed)
    told.of(JobSucceeded)
    assert scheduler.history("k") == []


def test_the_last_note_is_kept(scheduler, events):
    """
    The last progress note of a handler is stored with its attempt.

    So a one-time job that reported a note leaves a record even if it succeeds.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=AT_ONCE)
    def handler(_payload, firing):
        firing.progress(0.5, "half")
        if firing.attempt == 1:
            raise ValueError
        firing.progress(1, "1,204 rows" if firing.attempt == 2 else "\0\udc80")
        if firing.attempt == 2:
            raise ValueError

    scheduler.set("k", delay=0, handler="h")
    told.of(JobSucceeded)
    kept = [(record.outcome, record.note) for record in scheduler.history("k")]
    assert kept == [("succeeded", "\\x00\\udc80"), ("failed", "1,204 rows"), ("failed", "half")]


def test_everything_by_option(url, make, events):
    """
    With the history option "all", each success and each snooze is recorded, too.
    """
    scheduler = make(url, options=ALL).start()
    told = events(scheduler)
    answers = [Snooze(0.001), None]
    scheduler.handler("h")(lambda _payload: answers.pop(0))
    scheduler.set("k", delay=0, handler="h")
    told.of(JobSucceeded)
    assert [record.outcome for record in scheduler.history("k")] == ["succeeded", "snoozed", "created"]


@pytest.mark.parametrize(("keep", "outcomes"), [("none", []), ("failures", ["died"]), ("usual", ["succeeded", "died"])])
def test_runs_of_a_recurring_job(url, make, events, keep, outcomes):
    """
    An option decides whether the history has all runs of a recurring job, only failed runs, or none.
    """
    scheduler = make(url, options=SchedulerOptions(history=HistoryOptions(keep=keep))).start()
    told = events(scheduler)
    runs = []

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(_payload):
        runs.append(1)
        if len(runs) == 1:
            raise ValueError

    scheduler.set("k", every=0.05, max_runs=2, handler="h")
    told.of(JobDied)
    told.of(JobSucceeded)
    records = [record for record in scheduler.history("k") if record.attempt]
    assert [record.outcome for record in records] == outcomes
    assert len({record.generation for record in records}) == len(records)


def test_expired(url, make, events):
    """
    An expired job is recorded as expired, without a start.
    """
    scheduler = make(url)
    told = events(scheduler)
    scheduler.handler("h")(print)
    expires_at = scheduler.set("k", delay=0, expires=0.001, handler="h").job.expires_at
    while time.time() * 1000 <= expires_at:
        time.sleep(0.001)  # nothing signals that an instant has passed
    scheduler.start()
    told.of(JobExpired)
    (record,) = scheduler.history("k")
    assert (record.outcome, record.begun_at, record.took_ms) == ("expired", None, None)


def test_an_interrupted_attempt_and_the_next(file_url, make, events):
    """
    If a stop leaves a running attempt behind, the history records it as interrupted, without a node.

    The next attempt is recorded with its result.
    """
    first = make(file_url).start()
    told = events(first)
    begun = []

    @first.handler("h")
    async def hangs(_payload):
        begun.append(1)
        await asyncio.sleep(3600)

    first.set("k", delay=0, handler="h")
    told.wait_for(lambda: begun)
    first.stop(timeout=0.01)
    second = make(file_url)
    told = events(second)

    @second.handler("h", retry=AT_ONCE)
    def fails(_payload):
        raise ValueError

    second.start()
    told.of(JobFailed)
    records = second.history("k")
    assert (records[-1].outcome, records[-1].attempt, records[-1].by) == ("cut_off", 1, "")
    assert (records[-2].outcome, records[-2].attempt) == ("failed", 2)


def test_the_async_scheduler(url):
    """
    `AsyncScheduler` has a history, too, with the traceback of an async handler.
    """

    async def run():
        async with AsyncScheduler(url) as scheduler:
            failed = asyncio.Event()
            loop = asyncio.get_running_loop()
            scheduler.subscribe(lambda _event: loop.call_soon_threadsafe(failed.set), routine=False)

            @scheduler.handler("h", retry=RetryPolicy(attempts=1))
            async def handler(_payload):
                await asyncio.sleep(0)
                raise ValueError

            await scheduler.set("k", delay=0, handler="h")
            await asyncio.wait_for(failed.wait(), 60)
            (record,) = await scheduler.history("k")
            assert record.traceback.endswith("raise ValueError\nValueError")
            assert "asyncio" not in record.traceback

    asyncio.run(run())


def test_traceback_of_a_process(scheduler, events, monkeypatch):
    """
    An exception in a worker process is recorded with the traceback from that process.
    """
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "targets"))  # so that worker processes find the module
    told = events(scheduler)
    fail = import_module("process_handlers").fail
    scheduler.handler("h", retry=RetryPolicy(attempts=1), executor="process", timeout=60)(fail)
    scheduler.set("k", delay=0, handler="h", payload="way")
    told.of(JobDied)
    (record,) = scheduler.history("k")
    assert record.error == "ValueError: no way"
    assert record.traceback.endswith("raise ValueError(message)\nValueError: no way")
    assert scheduler.get("k").raised_in == "process_handlers.fail+5"


def raised(function):
    """
    Return the exception that *function* raises.
    """
    with pytest.raises(BaseException) as caught:  # noqa: PT011  whatever it is
        function()
    return caught.value


class MuteError(Exception):
    """
    An error whose text cannot be read, because its `__str__` raises a BaseException.
    """

    def __str__(self):
        raise SystemExit


def deep(depth=400):
    """
    Raise an error in the innermost of *depth* frames.
    """
    if depth:
        shallower(depth - 1)
    raise MuteError


def shallower(depth):
    """
    Call `deep`, so that the frames of the traceback alternate between two functions.
    """
    deep(depth)


def chained():
    """
    Raise an exception with a cause and a context.
    """
    try:
        try:
            raise KeyError("one")  # noqa: TRY301  it is what is tested
        except KeyError as error:
            raise ValueError("two") from error
    except ValueError:
        raise OSError("three")  # noqa: B904  it is what is tested


def many():
    """
    Raise an exception group.
    """
    raise ExceptionGroup("all", [ValueError(str(number)) for number in range(1000)])


def huge():
    """
    Raise an error with a text of a hundred megabytes that contains all kinds of characters.
    """
    raise ValueError("\udc80\0é" * 33_000_000)


@pytest.mark.parametrize("function", [deep, chained, many, huge])
def test_tracebacks_are_bounded(function):
    """
    However large an error is, its stored traceback has a limited length, can be stored, and ends with the error.
    """
    text = traceback_text(raised(function))
    assert len(text) <= TRACEBACK_CHARS_MAX
    text.encode()
    assert "\0" not in text


def test_chains_and_groups_in_a_traceback():
    """
    A traceback shows a chain of exceptions, with the root cause first.

    Of a large group it shows only the first members.
    """
    text = traceback_text(raised(chained))
    order = ["KeyError: 'one'", "direct cause", "ValueError: two", "During handling", "OSError: three"]
    assert re.findall("|".join(map(re.escape, order)), text) == order
    assert traceback_text(raised(many)).endswith("  | ValueError: 4\n  | and 995 more")
    assert traceback_text(raised(deep)).endswith("MuteError: its str() raised SystemExit")
    assert traceback_text(ValueError("never raised")) is None


def test_a_loop_of_causes():
    """
    An exception that is its own cause, or whose attributes raise, is recorded like any other exception.
    """
    first, second = raised(chained), raised(many)
    first.__cause__, second.__cause__ = second, first
    assert len(traceback_text(first)) <= TRACEBACK_CHARS_MAX

    class HostileError(Exception):
        @property
        def __cause__(self):
            raise KeyboardInterrupt

        __context__ = __cause__

    def fail():
        raise HostileError

    assert traceback_text(raised(fail)) is None


def test_a_hostile_error_is_kept(scheduler, events):
    """
    An error is recorded like any other error even if its text raises, is huge or is not valid Unicode.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(payload):
        if payload == "mute":
            raise MuteError
        raise ValueError("\udcff\0" * 10_000)

    for payload in ("mute", "huge"):
        scheduler.set(payload, delay=0, handler="h", payload=payload)
        told.of(JobDied, payload)
        (record,) = scheduler.history(payload)
        assert record.outcome == "died"
        assert record.traceback is not None
        assert len(record.error) <= ERROR_CHARS_MAX


@pytest.mark.parametrize(
    ("key", "wrong"), [("", {}), ("k", {"limit": 0}), ("k", {"limit": 1001}), ("k", {"before": 0})]
)
def test_bad_queries(scheduler, key, wrong):
    """
    If a key, limit or number in a query is invalid, the error names it.
    """
    with pytest.raises(InvalidJobError, match=next(iter(wrong), "key")):
        scheduler.history(key, **wrong)


@pytest.mark.parametrize("wrong", [{"keep": "some"}, {"age_s": 0}, {"per_key": 0}, {"total": 1.5}])
def test_bad_options(wrong):
    """
    If an option of the history is invalid, the error names it.
    """
    with pytest.raises(InvalidJobError, match=next(iter(wrong))):
        HistoryOptions(**wrong)


def test_pruned_in_steps(url, make, events, engines):
    """
    The pruner brings the history back within its limits, however far the history exceeds them.
    """
    options = SchedulerOptions(history=HistoryOptions(per_key=3, total=5))
    scheduler = make(url, options=options).start()
    told = events(scheduler)

    @scheduler.handler("h", retry=replace(AT_ONCE, attempts=4))
    def handler(_payload):
        raise ValueError

    for key in ("a", "b"):
        scheduler.set(key, delay=0, handler="h")
        told.of(JobDied, key)
    pruner: Pruner = engines[0].pruner
    assert pruner.prune() == 3  # the record of the deploy is in the log of acts, which has its own limit
    kept = [record.attempt for key in ("a", "b") for record in scheduler.history(key)]
    assert kept == [4, 3, 4, 3, 2]
    assert pruner.prune() == 0


def test_inline():
    """
    The inline scheduler also keeps a history.
    """
    clock = ManualClock()
    with InlineScheduler(clock) as scheduler:

        @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=1000, jitter=0))
        def handler(_payload):
            raise ValueError

        scheduler.set("k", delay=1, handler="h")
        clock.advance(60)
        assert [record.outcome for record in scheduler.history("k")] == ["died", "failed"]


KILLED = textwrap.dedent(
    """
    import os, sys
    from tickwheel.scheduler import RetryPolicy, Scheduler

    scheduler = Scheduler(sys.argv[1])

    @scheduler.handler("h")
    def handler(payload):
        raise ValueError

    scheduler.start()
    policy = RetryPolicy(attempts=1000, kind="list", waits_ms=(0,), jitter=0)
    scheduler.set("k", delay=0, handler="h", retry=policy, if_generation=0)
    print("up", flush=True)
    sys.stdin.read()
    """
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is a POSIX signal")
def test_each_attempt_is_recorded_once_through_kills(file_url, until):
    """
    However often the process is killed, each counted attempt has exactly one record: as failed or as interrupted.
    """
    with Scheduler(file_url) as client:
        pass
    seen = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, file_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "up\n"
            client = Scheduler(file_url)
            until(lambda client=client, seen=seen: (job := client.get("k")) and job.attempt >= seen + 5)
            process.send_signal(signal.SIGKILL)
        client.stop()
        with Scheduler(file_url) as owner:  # has no handler, so it takes over without running the job
            job = owner.get("k")
            attempts = [record.attempt for record in every_record(owner, "k")]
            seen = job.attempt
        assert attempts == list(range(seen, 0, -1))
    with Scheduler(file_url) as owner:
        records = every_record(owner, "k")
    assert {record.outcome for record in records} <= {"failed", "cut_off"}
    assert len({record.by for record in records}) == 6


def every_record(scheduler: Scheduler, key: str) -> list[HistoryRecord]:
    """
    Return the whole history of *key*, read page by page.
    """
    records: list[HistoryRecord] = []
    while page := scheduler.history(key, before=records[-1].number if records else None, limit=7):
        records += page
    return records
