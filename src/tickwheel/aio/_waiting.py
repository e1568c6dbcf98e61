from __future__ import annotations

import asyncio
import sys
from asyncio import CancelledError, Future, ensure_future
from asyncio import sleep as asyncio_sleep
from asyncio import wait_for as asyncio_wait_for
from collections.abc import Awaitable
from time import monotonic
from typing import Any, TypeVar, overload

from tickwheel._core import timeout as timeout_after
from tickwheel._core import to_seconds
from tickwheel.typing import Seconds

__all__ = ["sleep", "wait_for"]

T = TypeVar("T")


async def wait_for(fut: Awaitable[T], timeout: Seconds | None) -> T:  # noqa: ASYNC109 - asyncio's signature
    """
    Wait for *fut*, a coroutine, future or task, and cancel it if it takes longer than *timeout* seconds.

    *timeout* may be a timedelta, or None for no limit. If it is 0 or less, only a finished future succeeds. The
    function behaves like `asyncio.wait_for` of the running Python. On Python 3.11 it calls `asyncio.wait_for`, which
    may return as much as 1.5 ms too early on uvloop. From 3.12 on it never ends early, and a coroutine is awaited in
    this task instead of a new one.

    Raises:
        TimeoutError: If *timeout* has passed, after *fut* was cancelled.
    """
    wait_s = None if timeout is None else to_seconds(timeout, "timeout")
    if sys.version_info < (3, 12):
        return await asyncio_wait_for(fut, wait_s)
    if wait_s is None or wait_s > 0:
        async with timeout_after(wait_s):
            return await fut
    future = ensure_future(fut)
    if future.done():
        return future.result()
    await _cancel_and_wait(future)
    try:
        return future.result()
    except CancelledError as error:
        raise TimeoutError from error


async def _cancel_and_wait(future: Future[Any]) -> None:
    ended = asyncio.get_running_loop().create_future()

    def end(_: object) -> None:
        if not ended.done():
            ended.set_result(None)

    future.add_done_callback(end)
    try:
        future.cancel()
        await ended
    finally:
        future.remove_done_callback(end)


@overload
async def sleep(delay: Seconds) -> None: ...


@overload
async def sleep(delay: Seconds, result: T) -> T: ...


async def sleep(delay: Seconds, result: Any = None) -> Any:
    """
    Return *result* after *delay* seconds, like `asyncio.sleep`. NaN is refused on every Python version.

    On `EventLoop`, the timer is in the wheel; on another loop, it is the loop's own timer. If that timer wakes early,
    as on uvloop, `sleep` waits for the rest of the delay. If *delay* is 0 or less, the other tasks get one turn.
    """
    delay_s = to_seconds(delay, "delay")
    begin = monotonic()
    await asyncio_sleep(delay_s)
    if delay_s > 0 and not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        while (left := delay_s - (monotonic() - begin)) > 0:  # noqa: ASYNC110 - it waits for a time only
            await asyncio_sleep(left)
    return result
