"""
Mistakes of users that raise an error or log a warning, because they would have no visible effect otherwise.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from tickwheel.host.runtime import Runtime
from tickwheel.integrations.fastapi import Jobs
from tickwheel.scheduler import (
    AsyncScheduler,
    DeadLetter,
    InvalidJobError,
    Retry,
    RetryPolicy,
    Scheduler,
    SetRequest,
    Snooze,
    UnsupportedError,
)
from tickwheel.stores import Abilities, MemoryStore
from tickwheel.testing import InlineScheduler, ManualClock


@pytest.fixture
def inline():
    """
    Return a manual clock, and a scheduler in memory that fires when the clock moves.
    """
    clock = ManualClock(wall=1_700_000_000.0)
    scheduler = InlineScheduler(clock).start()
    yield clock, scheduler
    scheduler.stop()


@pytest.mark.parametrize("make", [Scheduler, AsyncScheduler, Jobs])
def test_handler_without_brackets(make):
    """
    `@scheduler.handler` without brackets registers the function under its own name, and returns it unchanged.
    """
    registry = make("memory://")

    @registry.handler
    def mail(_payload):
        return None

    assert callable(mail)
    assert mail.__name__ == "mail"
    with pytest.raises(InvalidJobError, match="there is one of that name"):
        registry.handler("mail")(mail)


@pytest.mark.parametrize("name", [None, "<lambda>", "test.<locals>.mail"])
@pytest.mark.parametrize("make", [Scheduler, AsyncScheduler])
def test_a_handler_without_a_unique_name(make, name):
    """
    A lambda is refused as a handler, because other processes could not identify it by its name.
    """
    with pytest.raises(InvalidJobError, match=r"handler is .*: .*pass"):
        make("memory://").handler(name)(lambda _: None)


def test_the_wrong_with():
    """
    If an async scheduler is used with `with`, the error names `async with`.

    If a blocking scheduler is used with `async with`, the error names `with`.
    """
    with pytest.raises(TypeError, match="write `async with`, or use Scheduler"), AsyncScheduler("memory://"):
        pass

    async def wrong():
        async with Scheduler("memory://"):
            pass

    with pytest.raises(TypeError, match="write `with`, or use AsyncScheduler"):
        asyncio.run(wrong())


RESULTS = {
    "Retry": Retry,
    "Snooze": Snooze,
    "DeadLetter": DeadLetter,
    "an exception": ValueError("x"),
    "a class of exceptions": ValueError,
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_result_that_is_probably_a_mistake(inline, result):
    """
    If a handler returns a result class instead of an instance, or returns an exception, the attempt has failed.

    The error names the probable intention.
    """
    clock, scheduler = inline
    scheduler.handler("h", retry=RetryPolicy(1))(lambda _: result)
    scheduler.set("k", delay=1, handler="h")
    clock.advance(2)
    job = scheduler.get("k")
    assert job.state == "dead"
    assert "the handler returned" in job.error


@pytest.mark.parametrize("delay", [0, -5, 0.001, timedelta(0), 0.999])
def test_a_snooze_waits_a_second_at_least(inline, delay):
    """
    If a handler snoozes for zero seconds, its job waits one second.

    Otherwise there would be a busy loop.
    """
    clock, scheduler = inline
    calls = []
    scheduler.handler("h")(lambda payload: calls.append(payload) or Snooze(delay))
    scheduler.set("k", delay=1, handler="h")
    clock.advance(10)
    assert 8 <= len(calls) <= 10
    assert scheduler.get("k").attempt == 0


@pytest.mark.parametrize("at", [0, 30, 99_999_999.0, -1])
def test_a_number_that_is_not_a_date(inline, at):
    """
    `at=30` is refused, because a delay was probably meant.

    A past date and a past first run of an interval are accepted.
    """
    _, scheduler = inline
    for call in (
        lambda: scheduler.set("k", at=at, handler="h"),
        lambda: scheduler.set("k", at=at, cron="0 9 * * *", handler="h"),
        lambda: scheduler.set_many([SetRequest("k", at=at, handler="h")]),
        lambda: scheduler.move("k", at=at),
    ):
        with pytest.raises(InvalidJobError, match="pass delay="):
            call()
    assert scheduler.get("k") is None
    scheduler.set("phase", at=at, every=60, handler="h")
    scheduler.set("date", at=datetime(1970, 1, 1, tzinfo=UTC), handler="h")
    scheduler.set("text", at="1970-01-01T00:00Z", handler="h")


@pytest.mark.parametrize("given", [{"delay": 1}, {"at": "2030-01-01T00:00Z"}])
def test_a_zone_without_a_rule(inline, given):
    """
    A time zone is refused for a job without a rule that uses it.
    """
    _, scheduler = inline
    with pytest.raises(InvalidJobError, match="tz is 'Europe/Berlin'"):
        scheduler.set("k", handler="h", tz="Europe/Berlin", **given)


def test_a_move_past_the_end_of_the_series(inline):
    """
    If a job is moved past its `until=`, it does not run.

    If `run_now` is called before `until=`, the job runs.
    """
    clock, scheduler = inline
    runs = []
    scheduler.handler("h")(lambda _payload, firing: runs.append(firing.job.key))
    until = 1_700_000_000.0 + 100
    for key in ("moved", "now"):
        scheduler.set(key, every=10, until=until, handler="h", max_runs=1)
    scheduler.move("moved", delay=1000)
    scheduler.run_now("now")
    clock.advance(2000)
    assert runs == ["now"]
    assert scheduler.get("moved") is None


RULES = {
    "once": ({"delay": 1800}, 1),
    "date": ({"at": datetime.fromtimestamp(1_700_001_800, UTC)}, 1),
    "series": ({"every": 600, "misfire": "all"}, 3),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_a_clock_that_is_moved_by_hand(place, rule, file_url, record):
    """
    If a manual clock passes the due times of many jobs at once, all of them fire, even jobs that were not in memory.
    """
    given, count = rule
    clock = ManualClock(wall=1_700_000_000.0)
    with Scheduler("memory://" if place == "memory" else file_url, clock=clock) as scheduler:
        scheduler.handler("h")(record)
        scheduler.set("k", handler="h", payload=1, **given)
        clock.advance(1799)
        clock.advance(1)
        assert record.wait(count) == [1] * count


def test_a_clock_that_is_moved_by_hand_beside_a_loop():
    """
    With a manual clock, async handlers also work. They run on the loop that started the scheduler.
    """

    async def run():
        clock, done = ManualClock(), asyncio.Event()
        async with AsyncScheduler("memory://", clock=clock) as scheduler:

            @scheduler.handler("h")
            async def _(_payload):
                done.set()

            await scheduler.start()
            await scheduler.set("k", delay=1800, handler="h")
            clock.jump(1800)
            await asyncio.wait_for(done.wait(), 60)

    asyncio.run(run())


def test_a_clock_that_is_moved_by_hand_beside_a_server():
    """
    A manual clock is refused for a store whose server has its own clock, which a test cannot move.
    """

    class Remote(MemoryStore):
        abilities = Abilities(has_many_owners=True)

    clock = ManualClock()
    scheduler = Scheduler(Remote(clock), clock=clock)
    with pytest.raises(UnsupportedError, match="InlineScheduler"):
        scheduler.start()
    scheduler.stop()


FORGOTTEN = [
    *((Scheduler, when) for when in ("overdue", "overdue by a later set", "stopped", "started")),
    *((InlineScheduler, when) for when in ("stopped", "started")),
]


@pytest.mark.parametrize(("kind", "when"), FORGOTTEN)
def test_a_start_that_was_forgotten(kind, when, caplog):
    """
    If no scheduler was started, jobs in memory will never fire, and a warning reports this once.

    The warning is logged when a job is overdue, or at the stop.
    """
    clock = ManualClock()
    scheduler = kind(clock=clock) if kind is InlineScheduler else kind("memory://", clock=clock)
    scheduler.set("a", delay=1000, handler="h")
    if when == "overdue by a later set":
        scheduler.set("b", delay=10, handler="h")
    clock.advance(9)
    if when == "started":
        scheduler.start()
    assert not caplog.records
    if when.startswith("overdue"):
        clock.advance(1002)
        assert len(caplog.records) == 1
    scheduler.stop()
    jobs = "2 jobs wait" if "set" in when else "1 job waits"
    messages = [f"{jobs} in memory://, which fires nothing until start() is called"]
    assert [each.message for each in caplog.records] == ([] if when == "started" else messages)


def test_a_start_that_was_forgotten_until_the_program_ends():
    """
    If a program ends without a stop, it reports jobs in memory that no scheduler will fire.
    """
    program = """
from tickwheel.scheduler import Scheduler
scheduler = Scheduler("memory://")
scheduler.set("k", delay=60, handler="h")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "1 job waits in memory://, which fires nothing until start() is called"


class SkippingScheduler(Scheduler):
    """
    A scheduler whose own clock skips some seconds when the test requests it.
    """

    skipped = 0.0

    def _runtime(self, clock):
        return Runtime(clock=clock, monotonic=lambda: time.monotonic() + self.skipped)


@pytest.mark.parametrize("seconds", [0.5, 1.5])
@pytest.mark.parametrize("step", ["first", "second", "after an error"])
def test_a_handler_that_blocks_the_loop(make, record, step, seconds, caplog):
    """
    An async handler that blocks the loop for more than a second is reported once.

    This holds whichever part of the handler blocks, and even if the handler then raises.
    """
    scheduler = make("memory://", kind=SkippingScheduler)

    @scheduler.handler("h", retry=RetryPolicy(1))
    async def handler(payload):
        if step != "first":
            await asyncio.sleep(0)
        scheduler.skipped += seconds
        record(payload)
        if step == "after an error":
            raise ValueError

    scheduler.start()
    for number in range(3):
        scheduler.set(f"k{number}", delay=0, handler="h")
        record.wait(number + 1)
    scheduler.stop()
    named = [each.message for each in caplog.records if "blocked the event loop" in each.message]
    assert len(named) == (seconds > 1)
    assert all("'h'" in message for message in named)


def test_a_handler_that_blocks_the_loop_for_good(make, record, caplog):
    """
    An async handler that never awaits is reported while it blocks the loop.
    """
    scheduler, named = make("memory://", kind=SkippingScheduler), threading.Event()
    caplog.handler.addFilter(lambda record: "blocked" not in record.getMessage() or named.set() or True)

    @scheduler.handler("h")
    async def handler(_payload):
        scheduler.skipped += 5
        record(named.wait(60))  # nothing else runs on the loop during this wait

    scheduler.start()
    scheduler.set("k", delay=0, handler="h")
    assert record.wait(1) == [True]
