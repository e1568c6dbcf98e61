from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Self

from tickwheel.clock import seconds
from tickwheel.drivers import _trio
from tickwheel.drivers._tasks import running_loop
from tickwheel.errors import ClosedError
from tickwheel.timers.contract import Engine, Timer
from tickwheel.timers.phase import Phase
from tickwheel.timers.proxy import TimerProxy
from tickwheel.typing import Seconds

__all__ = ["Sleep", "Ticks"]


class Sleep(TimerProxy):
    """
    The result of `TimerWheel.sleep`: an awaitable timer with the methods of `Timer`.

    Any number of coroutines of asyncio or trio may await the timer, even after its end. The result of `await` is True
    if the timer fired, and False if it was cancelled or its wheel was drained or closed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._timer: Timer | None = None
        self._has_fired: bool | None = None
        self._calls: dict[object, Callable[[], object]] = {}

    def start(self, delay: Seconds) -> Self:
        self._timer = self._engine.call_later(delay, self)
        return self

    def start_at(self, when: Seconds) -> Self:
        self._timer = self._engine.call_at(when, self)
        return self

    def __repr__(self) -> str:
        state = "pending" if self._has_fired is None else "fired" if self._has_fired else "cancelled"
        return f"<Sleep {state} when={self.when()}>"

    def __await__(self) -> Generator[Any, Any, bool]:
        return self._ended().__await__()

    async def _ended(self) -> bool:
        name = object()
        if self._has_fired is None:
            call, wait = _signal()
            self._calls[name] = call
            try:
                if self._has_fired is None:
                    await wait()
            finally:
                self._calls.pop(name, None)
        return bool(self._has_fired)

    def cancel(self) -> bool:
        """
        Cancel the timer. Return True if this call prevented it from firing. An `await` of the timer then returns False.
        """
        is_cancelled = self._set_timer.cancel()
        if is_cancelled:
            self._end(has_fired=False)
        return is_cancelled

    def cancelled(self) -> bool:
        return self._set_timer.cancelled()

    def pending(self) -> bool:
        return self._set_timer.pending()

    def when(self) -> float:
        return self._set_timer.when()

    def reschedule(self, when: Seconds) -> bool:
        return self._has_fired is None and self._set_timer.reschedule(when)

    def restart(self, delay: Seconds) -> bool:
        return self._has_fired is None and self._set_timer.restart(delay)

    @property
    def _set_timer(self) -> Timer:
        assert self._timer is not None, "it is set before a user gets it"
        return self._timer

    def handle(self, timer: Any) -> Sleep:
        return self

    def __call__(self) -> None:
        self._end(has_fired=True)

    def ended(self) -> None:
        self._end(has_fired=False)

    def refused(self) -> None:
        # run in this thread although the pool is full: this calls no user function
        self()

    def failed(self) -> None:
        # this is harmless if the waiting tasks are awake
        self()

    def _end(self, *, has_fired: bool) -> None:
        if self._has_fired is None:
            self._has_fired = has_fired
        for call in list(self._calls.values()):
            call()


class Ticks:
    """
    The result of `TimerWheel.every`: an asynchronous iterator over the times of a series.

    A time is in seconds of the wheel's clock. The iterator ends when the wheel is drained or closed. A timer is pending
    only while the iterator is awaited, so a `break` out of the loop leaves no timer behind.
    """

    def __init__(self, engine: Engine, phase: Phase, times: int | None) -> None:
        self._engine = engine
        self._phase = phase
        self._left = times
        self._begun = False
        self.missed = 0
        """Number of ticks that were left out because their time had passed."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> float:
        if self._begun:
            self.missed += self._phase.go_on(self._phase.read(self._engine.clock))
        self._begun = True
        if self._left == 0 or self._phase.is_over():
            raise StopAsyncIteration
        when = seconds(self._phase.time(self._phase.read(self._engine.clock), self._engine.span_ns))
        sleep = Sleep(self._engine)
        try:
            sleep.start_at(when)
        except ClosedError:
            raise StopAsyncIteration from None
        try:
            if not await sleep:
                raise StopAsyncIteration
        finally:
            sleep.cancel()
        if self._left is not None:
            self._left -= 1
        return when


def _signal() -> tuple[Callable[[], object], Callable[[], Any]]:
    """
    Return a function that wakes the current task, from any thread, and a function that waits for the wake-up.
    """
    if _trio.is_in_trio():
        return _trio.signal()
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def end() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        if running_loop() is loop:
            end()
        else:
            with suppress(RuntimeError):  # the loop is closed, so no task waits there
                loop.call_soon_threadsafe(end)

    async def wait() -> None:
        await future

    return wake, wait
