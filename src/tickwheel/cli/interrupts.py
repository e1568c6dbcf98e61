from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

__all__ = ["run_interruptible"]

_T = TypeVar("_T")
_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def run_interruptible(work: Coroutine[Any, Any, _T], end: Callable[[], object] | None = None) -> _T:
    """
    Run *work* on a new event loop, and return its result.

    At the first signal, such as SIGINT, *end* is called, so that *work* can complete. The next signal cancels *work*.
    Without *end*, the first signal cancels *work*. Signals that this process ignores, for example under nohup, stay
    ignored. If *work* was cancelled, a KeyboardInterrupt is raised.
    """
    try:
        return asyncio.run(_heeding(work, end))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _heeding(work: Coroutine[Any, Any, _T], end: Callable[[], object] | None) -> _T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "it is run in one"
    steps = iter(() if end is None else (end,))

    def interrupted(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(next(steps, task.cancel))

    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, interrupted)  # not the loop's method, which loops on Windows lack
    try:
        return await work
    finally:
        for number in heeded:
            signal.signal(number, before[number])
