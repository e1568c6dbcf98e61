"""
Callbacks as asyncio tasks.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tickwheel import TaskExecutor, TimerWheel

PATIENCE_S = 20.0


def test_tasks():
    """
    A coroutine function as a callback becomes a task.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio(executor=TaskExecutor())
        future = asyncio.get_running_loop().create_future()
        plain: list[int] = []

        async def work(number: int) -> None:
            await asyncio.sleep(0)
            future.set_result(number)

        wheel.call_later(0, plain.append, 1)
        wheel.call_later(0, work, 7)
        assert await asyncio.wait_for(future, PATIENCE_S) == 7
        assert plain == [1]
        assert wheel.stats()["executor_ran"] == 2
        wheel.close()

    asyncio.run(scenario())


def test_tasks_from_a_thread():
    """
    With a thread driver, a TaskExecutor passes the callbacks to the loop.
    """

    async def scenario() -> None:
        with TimerWheel(executor=TaskExecutor()) as wheel:
            future = asyncio.get_running_loop().create_future()

            async def work() -> None:
                future.set_result(threading.current_thread())

            wheel.call_later(0, work)
            assert await asyncio.wait_for(future, PATIENCE_S) is threading.current_thread()

    asyncio.run(scenario())


def test_errors_of_tasks():
    async def scenario() -> None:
        told: list[tuple[BaseException, Any]] = []
        signal = asyncio.Event()

        def on_error(error: BaseException, timer: Any) -> None:
            told.append((error, timer))
            signal.set()

        wheel = TimerWheel.asyncio(executor=TaskExecutor(), on_error=on_error)

        async def fail() -> None:
            raise LookupError

        async def give_up() -> None:
            raise asyncio.CancelledError

        wheel.call_later(0, give_up)
        timer = wheel.call_later(0, fail)
        await asyncio.wait_for(signal.wait(), PATIENCE_S)
        assert [(type(error), each is timer) for error, each in told] == [(LookupError, True)]
        wheel.close()

    asyncio.run(scenario())
