"""
`ended` waits for the end of a context. `within` runs an awaitable until that end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio

from tickwheel import ContextCancelledError, DeadlineExceededError, TimerWheel, ended, within
from tickwheel.drivers._trio import _in_this_run
from tickwheel.timers.contexts import Context, background, with_cancel, with_timeout

PATIENCE_S = 20.0


def test_a_coroutine_waits_for_the_end():
    """
    `ended` returns the reason why the context ended, even if another thread ends the context.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio()
        assert type(await ended(with_timeout(background(wheel), 0.001))) is DeadlineExceededError
        context = with_cancel(background())
        threading.Thread(target=context.cancel, args=("elsewhere",)).start()
        assert "elsewhere" in str(await asyncio.wait_for(ended(context), PATIENCE_S))
        lasting = background()
        waiting = asyncio.ensure_future(ended(lasting))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert lasting.ending.waiting == 0
        wheel.close()

    asyncio.run(scenario())


def test_within():
    """
    `within` returns the result of its awaitable. If the context ends first, the awaitable is cancelled.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio()
        root = background(wheel)
        cancelled: list[str] = []

        async def work(delay: float | None) -> str:
            try:
                await (asyncio.sleep(0) if delay is None else asyncio.get_running_loop().create_future())
            except asyncio.CancelledError:
                cancelled.append("work")
                raise
            return "result"

        with with_timeout(root, 60) as context:
            assert await within(context, work(None)) == "result"
        assert root.ending.waiting == 0
        with pytest.raises(DeadlineExceededError):
            await within(with_timeout(root, 0.1), work(PATIENCE_S))  # the timeout is long enough for the work to begin
        ended_already = with_cancel(root)
        ended_already.cancel("too late")
        with pytest.raises(ContextCancelledError, match="too late"):
            await within(ended_already, work(PATIENCE_S))
        assert cancelled == ["work"]
        wheel.close()

    asyncio.run(scenario())


def test_within_a_task_that_is_cancelled():
    """
    If the task that awaits `within` is cancelled, the awaitable is cancelled, in any state of the context.
    """

    async def scenario() -> None:
        context = background()
        inner = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(within(context, inner))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert inner.cancelled()
        assert context.ending.waiting == 0

    asyncio.run(scenario())


def test_within_a_context_that_has_ended():
    """
    In a context that has ended, `within` starts nothing. If its awaitable is already running, `within` cancels it.
    """

    async def scenario() -> None:
        loop, made = asyncio.get_running_loop(), []

        def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            made.append(coroutine)
            return asyncio.Task(coroutine, loop=loop, **options)

        context = background()
        context.cancel("too late")
        running = loop.create_task(asyncio.sleep(PATIENCE_S))
        await asyncio.sleep(0)
        loop.set_task_factory(make_task)
        for awaitable in (asyncio.sleep(PATIENCE_S), Awaited(), running):
            with pytest.raises(ContextCancelledError, match="too late"):
                await within(context, awaitable)
        assert made == []
        assert running.cancelled()

    class Awaited:
        def __await__(self) -> Generator[Any, Any, None]:
            pytest.fail("this was begun")

    asyncio.run(scenario())


@pytest.mark.parametrize("again", [False, True])
def test_within_the_clean_up_of_a_cancelled_task(again):
    """
    While a cancelled task cleans up, `within` still ends when its context ends, and raises ContextCancelledError.
    """

    async def clean_up(context: Context) -> None:
        try:
            await asyncio.sleep(PATIENCE_S)
        except asyncio.CancelledError:
            await within(context, asyncio.sleep(PATIENCE_S))

    async def scenario() -> None:
        context = background()
        task = asyncio.ensure_future(clean_up(context))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        context.cancel()
        if again:
            task.cancel()
        with pytest.raises(asyncio.CancelledError if again else ContextCancelledError):
            await task

    asyncio.run(scenario())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_either_back_end(backend):
    """
    `ended` and `within` work in tasks of asyncio and of trio.

    Any thread may end the context.
    """
    reached: list[str] = []

    async def work(seconds: float) -> str:
        reached.append("begun")
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            reached.append("cancelled")
            raise
        return "result"

    async def main() -> None:
        async with TimerWheel.anyio() as wheel:
            root = background(wheel)
            with anyio.fail_after(PATIENCE_S):
                assert type(await ended(with_timeout(root, 0.001))) is DeadlineExceededError
                context = with_cancel(root)
                threading.Thread(target=context.cancel, args=("elsewhere",)).start()
                assert "elsewhere" in str(await ended(context))
                assert await within(root, work(0)) == "result"
                with pytest.raises(DeadlineExceededError):
                    await within(with_timeout(root, 0.001), work(3_600))
                assert reached == ["begun", "begun", "cancelled"]
                with pytest.raises(ContextCancelledError, match="elsewhere"):
                    await within(context, work(0))
                with pytest.raises(LookupError):
                    await within(root, fail())
            with anyio.move_on_after(0.001) as outer:
                await within(root, work(3_600))
            with anyio.move_on_after(0.001):
                await ended(root)
            assert outer.cancelled_caught
            assert reached[-2:] == ["begun", "cancelled"]
            assert root.ending.waiting == 0

    async def fail() -> None:
        raise LookupError

    anyio.run(main, backend=backend)


def test_a_context_that_ends_after_trio():
    """
    If a context ends after the trio run in which a task waited for it, trio is not affected.
    """

    async def main() -> Callable[[], None]:
        return _in_this_run(trio, pytest.fail)

    trio.run(main)()
