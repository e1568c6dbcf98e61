"""
Event loops and pools that run on threads of the system, also where gevent has put greenlets in their place.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import asyncio
import selectors
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tickwheel.threads import Gate, Lock, Semaphore, Thread, is_patched, original

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["new_event_loop", "new_pool", "result_of"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULT_WORKERS = 32
"""As many as asyncio has on a large machine."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """
    Return a loop for a thread of the system: asyncio's own, with the selector that gevent has replaced.
    """
    if not is_patched():
        return asyncio.new_event_loop()
    loop = asyncio.SelectorEventLoop(original(selectors, "DefaultSelector")())
    loop.set_default_executor(_Pool(_DEFAULT_WORKERS, "tickwheel-loop"))
    return loop


def new_pool(workers: int, name: str) -> ThreadPoolExecutor:
    return _Pool(workers, name) if is_patched() else ThreadPoolExecutor(workers, name)


def result_of(future: Future[R], timeout: float | None = None) -> R:
    """
    Wait for the result of a future of another thread, and return it; a greenlet that waits lets the others run.

    Raises:
        TimeoutError: If it has none in time.
    """
    if is_patched():
        gate = Gate()
        future.add_done_callback(lambda _: gate.open())
        gate.wait(timeout)
        timeout = 0
    return future.result(timeout)


class _Pool(ThreadPoolExecutor):
    """
    A pool that starts a thread for each call: the standard one would start greenlets.
    """

    def __init__(self, workers: int, name: str) -> None:
        super().__init__(workers, name)
        self._places = Semaphore(workers)
        self._calls: dict[Future[Any], Thread] = {}
        self._guard = Lock()
        self._name = name

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()

        def run() -> None:
            try:
                with self._places:
                    if future.set_running_or_notify_cancel():
                        try:
                            future.set_result(fn(*args, **kwargs))
                        except BaseException as error:  # noqa: BLE001 - it is the caller's
                            future.set_exception(error)
            finally:
                with self._guard:
                    self._calls.pop(future, None)

        thread = Thread(target=run, name=self._name, daemon=True)
        with self._guard:
            if self._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls[future] = thread
        try:
            thread.start()
        except BaseException:
            with self._guard:
                self._calls.pop(future, None)
            raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - its base has it so
        with self._guard:
            self._shutdown = True
            calls = list(self._calls.items())
        for future, thread in calls:
            if cancel_futures:
                future.cancel()
            if wait:
                thread.join()
