"""
Threads of a target whose library blocks, so that a hanging receiver does not block the scheduler's workers.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tickwheel.threads import Lock, Thread, original

__all__ = ["Threads"]

_THREADS_MAX: Final = 32
_JOIN_S: Final = 1.0


class Threads:
    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = original(queue, "SimpleQueue")()
        self._threads: list[Thread] = []
        self._idle = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        # *function* continues if the caller is cancelled
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        def call() -> None:
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:  # noqa: BLE001  any error belongs to the caller
                error = raised
            with suppress(RuntimeError):  # the loop was closed in the meantime
                loop.call_soon_threadsafe(settle, result, error)

        self._calls.put(call)
        with self._lock:
            if self._idle < self._calls.qsize() and len(self._threads) < _THREADS_MAX:
                thread = Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return await answer

    async def close(self) -> None:
        for _ in self._threads:
            self._calls.put(None)
        await asyncio.to_thread(self._join, asyncio.get_running_loop())

    def _join(self, clock: asyncio.AbstractEventLoop) -> None:
        give_up = clock.time() + _JOIN_S
        for each in self._threads:
            each.join(max(0.0, give_up - clock.time()))

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            call = self._calls.get()
            with self._lock:
                self._idle -= 1
            if call is None:
                return
            call()
            del call  # the thread that waits must not keep a reference to its last job
