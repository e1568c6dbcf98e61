"""
One load for each missing key: who asks while it runs waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import Any, Protocol

from tickwheel.drivers._fork import tell_after_fork
from tickwheel.errors import ReentrantError
from tickwheel.timers._locks import OUTER, new_lock

__all__ = ["Flights"]


class Loading(Protocol):
    """
    What a cache is to its loads.
    """

    def find_loaded(self, key: Any) -> tuple[Any] | None:
        """
        Return `(value,)` if the key has got a value by now, else None, which counts as no miss.
        """

    def __setitem__(self, key: Any, value: Any, /) -> None: ...


class Flights:
    """
    The loads that are under way for one cache: by key, and for coroutines by event loop too.

    The cache is handed in with each call: to hold it here would make a cycle of it.
    """

    def __init__(self) -> None:
        self._lock = new_lock(OUTER)
        self._loads: dict[Hashable, _Load] = {}
        self._tasks: dict[tuple[asyncio.AbstractEventLoop, Hashable], _LoadTask] = {}
        tell_after_fork(self)

    def after_fork(self) -> None:
        """
        Forget the loads of threads that are not in this process.
        """
        here = threading.get_ident()
        self._loads = {key: load for key, load in self._loads.items() if load.thread == here}

    def load(self, cache: Loading, key: Hashable, loader: Callable[[Any], Any]) -> Any:
        """
        Return `loader(key)`, called by the first thread that asks; the others wait for its outcome.
        """
        while True:
            with self._lock:
                found = cache.find_loaded(key)
                if found is not None:
                    return found[0]
                load = self._loads.get(key)
                is_first = load is None
                if load is None:
                    load = self._loads[key] = _Load()
            if is_first:
                return self._lead(cache, key, loader, load)
            if load.thread == threading.get_ident():
                call = f"take({key!r})"
                raise ReentrantError(call)
            outcome = load.future.result()
            if outcome is not None:
                return outcome[0]

    def _lead(self, cache: Loading, key: Hashable, loader: Callable[[Any], Any], load: _Load) -> Any:
        value, error, is_loaded = None, None, False
        try:
            value = loader(key)
            cache[key] = value
            is_loaded = True
        except Exception as failure:
            error = failure
            raise
        finally:
            with self._lock:
                if self._loads.get(key) is load:
                    del self._loads[key]
            # What is no Exception ends this thread's work, not that of others: one of them loads instead.
            if error is not None:
                load.future.set_exception(error)
            else:
                load.future.set_result((value,) if is_loaded else None)
        return value

    async def load_async(self, cache: Loading, key: Hashable, loader: Callable[[Any], Awaitable[Any]]) -> Any:
        """
        Return `await loader(key)`, run in a task of its own, which ends early only if nobody waits any more.
        """
        name = (asyncio.get_running_loop(), key)
        with self._lock:
            found = cache.find_loaded(key)
            if found is not None:
                return found[0]
            load = self._tasks.get(name)
            if load is None or load.task.done() or load.task.cancelling():
                load = self._tasks[name] = _LoadTask(_run(cache, key, loader))
                load.task.add_done_callback(lambda task: self._end(name, task))
        if load.task is asyncio.current_task():
            call = f"take_async({key!r})"
            raise ReentrantError(call)
        return await load.wait()

    def _end(self, name: tuple[asyncio.AbstractEventLoop, Hashable], task: asyncio.Task[Any]) -> None:
        with self._lock:
            load = self._tasks.get(name)
            if load is not None and load.task is task:
                del self._tasks[name]
        if not task.cancelled():
            task.exception()  # so that an error is not reported as lost when all who waited have given up


async def _run(cache: Loading, key: Hashable, loader: Callable[[Any], Any]) -> Any:
    value = await loader(key)
    cache[key] = value
    return value


class _Load:
    """
    A load by a thread; the outcome is `(value,)`, an error, or None where somebody else has to load.
    """

    __slots__ = ("future", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.future: Future[tuple[Any] | None] = Future()


class _LoadTask:
    """
    A load by a task, and how many wait for it.
    """

    __slots__ = ("task", "waiting")

    def __init__(self, load: Any) -> None:
        self.waiting = 0
        self.task: asyncio.Task[Any] = asyncio.ensure_future(load)

    async def wait(self) -> Any:
        """
        Wait for the outcome; the last one who gives up cancels the load.
        """
        self.waiting += 1
        try:
            await asyncio.wait({self.task})
        finally:
            self.waiting -= 1
            if self.waiting == 0 and not self.task.done():
                self.task.cancel()
        return self.task.result()
