"""
The event loops of a client, in threads of their own: that of its requests, and one for the coroutines of its handlers.

One for all handlers, so that they may share what belongs to a loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from tickwheel.errors import ClosedError
from tickwheel.loops import new_event_loop, result_of
from tickwheel.threads import Lock, Thread

__all__ = ["HandlerLoop", "start_loop"]

_LAST_S: Final = 1.0
"""What a coroutine gets that is cancelled at the end."""


def start_loop(name: str) -> tuple[asyncio.AbstractEventLoop, Thread]:
    """
    Return a new loop that runs in a daemon thread called *name*, and the thread; once it is stopped, it is closed.

    Raises:
        RuntimeError: If there is no thread to spare.
    """
    loop = new_event_loop()
    thread = Thread(target=_run, args=(loop,), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        loop.close()
        raise
    return loop, thread


class HandlerLoop:
    """
    The loop that the scheduler was started on, or else one in a thread of its own, from the first coroutine on.

    Args:
        loop: The one that runs already, if any.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._lent = loop
        self._own: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._is_closed = False

    def result_of(self, work: Coroutine[Any, Any, object]) -> object:
        """
        Return what *work* returns there; blocks.

        Raises:
            ClosedError: After `close`.
        """
        try:
            loop = self._lent or self._started()
        except BaseException:
            work.close()
            raise
        return result_of(asyncio.run_coroutine_threadsafe(work, loop))

    def close(self) -> None:
        """
        Cancel what still runs on a loop of its own, and end that; one that was lent is its owner's. Twice is allowed.
        """
        with self._lock:
            self._is_closed = True
            loop, self._own = self._own, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(_wind_up(loop), loop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise ClosedError("scheduler")
            if self._own is None:
                self._own, _ = start_loop("tickwheel-puller-loop")
            return self._own


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_S)
    loop.call_soon(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end_rest(loop))
        loop.close()


async def _end_rest(loop: asyncio.AbstractEventLoop) -> None:
    """
    End what nobody holds any more: async generators, also those whose end the garbage collector has just asked for.
    """
    await asyncio.sleep(0)
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks, timeout=_LAST_S)
    await loop.shutdown_asyncgens()
