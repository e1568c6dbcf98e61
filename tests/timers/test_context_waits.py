"""
Contexts for coroutines: waiting for the end, and working within.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tickwheel import ContextCancelledError, DeadlineExceededError, TimerWheel, ended, within
from tickwheel.timers.contexts import background, with_cancel, with_timeout

PATIENCE_S = 20.0


def test_a_coroutine_waits_for_the_end():
    """
    `ended` returns why, also when another thread ended it, and leaves nothing behind if it is cancelled itself.
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
        assert len(lasting.ending._calls) == 0
        wheel.close()

    asyncio.run(scenario())


def test_within():
    """
    `within` returns the result, or cancels what it awaits and raises why the context ended.
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
        assert len(root.ending._calls) == 0
        with pytest.raises(DeadlineExceededError):
            await within(with_timeout(root, 0.001), work(PATIENCE_S))
        ended_already = with_cancel(root)
        ended_already.cancel("too late")
        with pytest.raises(ContextCancelledError, match="too late"):
            await within(ended_already, work(PATIENCE_S))
        assert cancelled == ["work"]
        wheel.close()

    asyncio.run(scenario())


def test_within_a_task_that_is_cancelled():
    """
    Whoever awaits `within` and is cancelled is cancelled, with what it awaits, whatever the context says.
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
        assert len(context.ending._calls) == 0

    asyncio.run(scenario())
