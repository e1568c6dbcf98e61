"""
The event loops of a client, each in its own thread: one for requests, and one for all coroutines of handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from tickwheel.errors import ClosedError
from tickwheel.loops import new_event_loop, run_coroutine_threadsafe
from tickwheel.threads import Lock, Thread

__all__ = ["HandlerLoop", "start_loop"]

_LAST_S: Final = 1.0
"""Time limit for cancelled coroutines when a loop is closed."""


def start_loop(name: str) -> tuple[asyncio.AbstractEventLoop, Thread]:
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
    The event loop of async handlers: the loop on which the scheduler was started, or else a loop in its own thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._lent = loop
        self._own: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._is_closed = False

    def result_of(self, work: Coroutine[Any, Any, object]) -> object:
        try:
            loop = self._lent or self._started()
        except BaseException:
            work.close()
            raise
        return run_coroutine_threadsafe(work, loop).result()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            loop, self._own = self._own, None
        if loop is not None:
            run_coroutine_threadsafe(_wind_up(loop), loop)

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
    await asyncio.sleep(0)
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks, timeout=_LAST_S)
    await loop.shutdown_asyncgens()
