"""
An AsyncScheduler for tests.

Jobs fire when a manual clock moves. Async handlers run on the test's loop.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tickwheel.scheduler import SetRequest, task
from tickwheel.testing import AsyncInlineScheduler, ManualClock

pytest.importorskip("msgspec", reason="msgspec is not installed: pip install 'tickwheel[tasks]'")


@task(name="note")
async def note(text: str) -> None:
    """
    Record the running loop under *text*.
    """
    await asyncio.sleep(0)
    LOOPS.append((text, asyncio.get_running_loop()))


LOOPS: list[tuple[str, asyncio.AbstractEventLoop]] = []


@pytest.fixture(autouse=True)
def loops():
    """
    Return the list to which `note` appends, emptied for this test.
    """
    LOOPS.clear()
    return LOOPS


def test_advance_fires_on_the_loop_of_the_test(async_scheduler, manual_clock, loops):
    """
    Due jobs have ended when `advance` returns.

    Other tasks of the loop run in the meantime.
    """

    async def test():
        async_scheduler.register(note)
        turned = asyncio.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        answer = await async_scheduler.set("a", note.of("a"), delay="1m")
        await async_scheduler.set_many(
            [SetRequest("b", note.of("b"), delay=30), SetRequest("c", note.of("c"), delay=61)]
        )
        await async_scheduler.advance(60)
        assert [(text, loop is asyncio.get_running_loop()) for text, loop in loops] == [("b", True), ("a", True)]
        assert turned.is_set()
        assert answer.job.due == datetime.fromtimestamp(manual_clock.wall_ns() / 1e9, UTC)
        assert [job.key for job in await async_scheduler.jobs_of(note)] == ["c"]

    asyncio.run(test())


def test_it_is_started_and_stopped_as_any_other(loops):
    """
    After a start on another loop, the scheduler's handlers run on that loop.
    """
    clock = ManualClock()
    scheduler = AsyncInlineScheduler(clock)
    scheduler.register(note)

    async def test(key, *, is_last):
        await scheduler.start()
        await scheduler.set(key, note.of(key), delay=5)
        await scheduler.advance(5)
        assert loops[-1] == (key, asyncio.get_running_loop())
        if is_last:
            await scheduler.stop()

    asyncio.run(test("a", is_last=False))
    asyncio.run(test("b", is_last=True))
    assert not scheduler.is_started


def test_the_clock_alone_in_a_running_loop(async_scheduler, manual_clock, loops):
    """
    If the test calls `clock.advance`, which blocks its loop, an async handler runs on another loop.
    """

    async def test():
        async_scheduler.register(note)
        await async_scheduler.set("a", note.of("a"), delay=5)
        manual_clock.advance(5)
        assert loops[0][1] is not asyncio.get_running_loop()

    asyncio.run(test())


def test_advance_raises_an_assertion_error(async_scheduler):
    """
    An AssertionError in a handler is raised by `scheduler.advance`, as it is by `clock.advance`.
    """

    async def test():
        @async_scheduler.task(name="check")
        async def check() -> None:
            raise AssertionError

        await async_scheduler.set("a", check.of(), delay=5)
        with pytest.raises(AssertionError):
            await async_scheduler.advance(5)

    asyncio.run(test())


def test_assert_scheduled(scheduler, async_scheduler, manual_clock):
    """
    `assert_scheduled` returns the job that matches its arguments.

    If no job matches, it raises an error that lists the existing jobs.
    """
    for each in (scheduler, async_scheduler):
        each.register(note)
        other = each.task(name="other")(print_nothing)
        with pytest.raises(AssertionError, match=r"no job is set under 'k': the first jobs are none"):
            each.assert_scheduled(note, "k")
        done = each.set("k", note.of("a"), delay="30m")
        if asyncio.iscoroutine(done):
            asyncio.run(awaited(done))
        assert each.assert_scheduled(note, "k").key == "k"
        each.assert_scheduled(note, "k", delay="30m")
        each.assert_scheduled(note.of(text="a"), "k", delay=1800, at=each.assert_scheduled(note, "k").due)
        for arguments, said in (
            (((other, "k"), {}), "calls 'note', not 'other'"),
            (((note.of("b"), "k"), {}), "not with {'text': 'b'}"),
            (((note, "k"), {"delay": 60}), "is due in 1800 s, not in 60 s"),
            (((note, "k"), {"at": "2001-09-09T01:46:40Z"}), "is due at 2001-09-09T02:16:40"),
            (((note, "l"), {}), "the first jobs are 'k'"),
        ):
            with pytest.raises(AssertionError, match=said):
                each.assert_scheduled(*arguments[0], **arguments[1])
    manual_clock.advance(1790)
    scheduler.assert_scheduled(note, "k", delay=10)


async def awaited(coroutine):
    return await coroutine


def print_nothing() -> None: ...
