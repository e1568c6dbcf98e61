from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import TypeVar

from tickwheel.drivers import _trio
from tickwheel.errors import TickwheelError
from tickwheel.timers.contexts import Context

__all__ = ["ended", "within"]

T = TypeVar("T")


async def ended(context: Context) -> TickwheelError:
    """
    Wait until *context* ends, and return the reason. Call this function in a task of asyncio or trio.
    """
    if _trio.is_in_trio():
        await _trio.ended(context)
    else:
        loop = asyncio.get_running_loop()
        signal = asyncio.Event()
        forget = context.on_end(lambda: _call_on(loop, signal.set))
        try:
            await signal.wait()
        finally:
            forget()
    error = context.err()
    assert error is not None
    return error


async def within(context: Context, awaitable: Awaitable[T]) -> T:
    """
    Await *awaitable* in a task of asyncio or trio, and return its result. Cancel *awaitable* if *context* ends first.

    Raises:
        ContextCancelledError: If the context was cancelled first.
        DeadlineExceededError: If the context's deadline passed first.
    """
    if context.done() and not asyncio.isfuture(awaitable):  # checked first, because an eager task begins at once
        if isinstance(awaitable, Coroutine):
            awaitable.close()
        context.raise_if_ended()
    if _trio.is_in_trio():
        return await _trio.within(context, awaitable)
    loop = asyncio.get_running_loop()
    requests = _cancel_requests()
    task = asyncio.ensure_future(awaitable)
    forget = context.on_end(lambda: _call_on(loop, task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        error = context.err()
        if error is None or _cancel_requests() > requests:
            raise  # the caller itself was cancelled
        raise error from None
    finally:
        forget()


def _cancel_requests() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _call_on(loop: asyncio.AbstractEventLoop, call: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: no task waits there
        loop.call_soon_threadsafe(call)  # type: ignore[arg-type]  # either of the two above
