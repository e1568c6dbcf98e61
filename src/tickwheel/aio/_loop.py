from __future__ import annotations

import asyncio
import inspect
import sys
from asyncio import base_events, format_helpers
from collections import deque
from collections.abc import Callable, Coroutine
from selectors import BaseSelector
from typing import Any, Final, TypeVar

from tickwheel._core import TimerLoop
from tickwheel.aio._scheduled import Scheduled, WakeUp
from tickwheel.aio._selector import default_selector

__all__ = ["EventLoop", "new_event_loop", "run"]

T = TypeVar("T")

ASYNCIO: Final[Any] = base_events
SHOWS_ARGS_IN_DEBUG_ONLY: Final = "debug" in inspect.signature(format_helpers._format_callback_source).parameters  # noqa: SLF001 loops and handles share internals


class EventLoop(TimerLoop, asyncio.SelectorEventLoop):
    """
    `asyncio.SelectorEventLoop` with its timers in the wheel.

    `call_later`, `call_at` and `cancel()` cost O(1), and a cancelled timer is removed at once. Timers are real
    `asyncio.TimerHandle`s, due exactly at their instant by `self.time()`, which may be overridden or patched.
    Everything else is inherited from asyncio.

    Args:
        selector: Waits for files and sockets; None for the most exact selector of this system. Another selector may
            wake less exactly, but timers never run early.
    """

    # Attributes of asyncio's loops that its stubs lack.
    _debug: bool
    _ready: deque[Any]
    _selector: BaseSelector
    _process_events: Callable[[list[Any]], None]
    _check_thread: Callable[[], None]
    _check_callback: Callable[[object, str], None]

    def __init__(self, selector: BaseSelector | None = None) -> None:
        own = default_selector() if selector is None else selector
        try:
            super().__init__(own)
        except BaseException:
            if selector is None:
                own.close()
            raise
        alarm = getattr(own, "alarm", None)
        if alarm is not None:
            self._set_alarm(alarm)

    @property
    def _scheduled(self) -> Scheduled | list[WakeUp]:
        """
        The pending timers. The view is made on each access, because a stored view would make a reference cycle.
        """
        if type(self)._run_once is _RUN_ONCE:  # noqa: SLF001 - a method of this class
            return Scheduled(self)
        # Other code, such as nest_asyncio, has replaced `_run_once`. It takes due timers from a heap.
        self._deliver()
        earliest = self._pending()[:1]
        return [WakeUp(self._deliver, timer.when()) for timer in earliest]

    @_scheduled.setter
    def _scheduled(self, _timers: object) -> None:
        """
        Ignore the list that asyncio's constructor sets.
        """

    def close(self) -> None:
        """
        Close the loop and drop pending timers, also if the selector or a socket fails to close.
        """
        try:
            super().close()
        finally:
            if not self.is_running():  # a running loop refuses to close, and must keep its timers
                self._close_timers()
                self.__dict__.pop("_tickwheel_deadlines", None)  # they refer to the loop: break the reference cycle

    def _run_once(self) -> None:
        self._process_events(self._selector.select(self._pause()))
        self._deliver()
        if self._debug:
            self._run_ready_watched()
        else:
            self._run_ready()

    def _run_ready_watched(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if handle._cancelled:  # noqa: SLF001 - asyncio's own protocol between loop and handle
                continue
            try:
                self._current_handle = handle
                begin = self.time()
                handle._run()  # noqa: SLF001 loops and handles share internals
                lasted = self.time() - begin
                if lasted >= self.slow_callback_duration:
                    described = ASYNCIO._format_handle(handle)  # noqa: SLF001 loops and handles share internals
                    ASYNCIO.logger.warning("Executing %s took %.3f seconds", described, lasted)
            finally:
                # The traceback of an exception may keep this frame; it must not keep the task alive through its handle.
                self._current_handle = handle = None

    def _check_timer(self, callback: Callable[..., object]) -> None:
        self._check_thread()
        self._check_callback(callback, "call_at")

    def _trace_timer(self, handle: Any) -> None:
        handle._source_traceback = format_helpers.extract_stack(sys._getframe(1))  # noqa: SLF001 loops and handles share internals

    def _callback_failed(self, handle: Any, error: BaseException) -> None:
        words = {"debug": self._debug} if SHOWS_ARGS_IN_DEBUG_ONLY else {}
        source = format_helpers._format_callback_source(handle._callback, handle._args, **words)  # noqa: SLF001 loops and handles share internals
        context = {"message": f"Exception in callback {source}", "exception": error, "handle": handle}
        if handle._source_traceback:  # noqa: SLF001 loops and handles share internals
            context["source_traceback"] = handle._source_traceback  # noqa: SLF001 loops and handles share internals
        self.call_exception_handler(context)


_RUN_ONCE: Final = EventLoop._run_once  # noqa: SLF001 - a method of this class


def new_event_loop() -> EventLoop:
    """
    Return a new loop, for `asyncio.Runner(loop_factory=...)`.
    """
    return EventLoop()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """
    Run *main* on a new loop and return its result, like `asyncio.run`, with timers in the wheel.

    `run` cannot be called while a loop runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(debug=debug, loop_factory=new_event_loop) as runner:
            return runner.run(main)
    message = "a loop runs in this thread: await the coroutine, instead of running it on another loop"
    raise RuntimeError(message)
