"""
Internal: event loops and pools that run on system threads, even if gevent has replaced threads by greenlets.
"""

from __future__ import annotations

import asyncio
import queue
import selectors
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tickwheel.futures import Future
from tickwheel.threads import Lock, Semaphore, Thread, is_patched, original

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["new_event_loop", "new_pool", "run_coroutine_threadsafe"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULT_WORKERS = 32
"""Default number of workers. asyncio has the same number on a large machine."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """
    Return an event loop of asyncio for a system thread. Its selector is the system's, even if gevent has replaced it.
    """
    if not is_patched():
        return asyncio.new_event_loop()
    loop = asyncio.SelectorEventLoop(original(selectors, "DefaultSelector")())
    loop.set_default_executor(_Pool(_DEFAULT_WORKERS, "tickwheel-loop"))
    return loop


def run_coroutine_threadsafe(coroutine: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> Future[R]:
    """
    Do what asyncio's function of this name does, but return tickwheel's `Future`.
    """
    future: Future[R] = Future()

    def start() -> None:
        task = loop.create_task(coroutine)
        task.add_done_callback(partial(_pass_on, future))
        future.add_done_callback(partial(_cancel_with, task, loop))

    loop.call_soon_threadsafe(start)
    return future


def _pass_on(future: Future[R], task: asyncio.Task[R]) -> None:
    if task.cancelled():
        future.cancel()
    if not future.set_running_or_notify_cancel():
        return
    error = task.exception()
    if error is None:
        future.set_result(task.result())
    else:
        future.set_exception(error)


def _cancel_with(task: asyncio.Task[R], loop: asyncio.AbstractEventLoop, future: futures.Future[R]) -> None:
    if future.cancelled():
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(task.cancel)


def new_pool(workers: int, name: str) -> ThreadPoolExecutor:
    return _Pool(workers, name)


class _Pool(ThreadPoolExecutor):
    def __init__(self, workers: int, name: str) -> None:
        super().__init__(workers, name)
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], object]] | None] = original(
            queue, "SimpleQueue"
        )()
        self._own: list[Thread] = []
        self._idle = Semaphore(0)
        self._guard = Lock()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[R]:
        if not is_patched():
            return super().submit(fn, *args, **kwargs)
        future: Future[R] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        with self._guard:
            if self._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls.put((future, run))
            if not self._idle.acquire(blocking=False) and len(self._own) < self._max_workers:
                thread = Thread(target=self._work, name=self._name, daemon=True)
                thread.start()
                self._own.append(thread)
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call[1]()
            del call  # the call refers to the callable
            self._idle.release()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - like the base
        with self._guard:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            while cancel_futures and not self._calls.empty():
                with suppress(queue.Empty):  # a worker took it meanwhile
                    call = self._calls.get_nowait()
                    _ = call is not None and call[0].cancel()
            threads = list(self._own)
            for _ in threads:
                self._calls.put(None)
        if wait:
            for thread in threads:
                thread.join()
            super().shutdown()
