from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

__all__ = ["LIBRARIES", "new_event_loop", "on_stop_signal", "stop_signals_restored"]

_HAS_UVLOOP: Final = sys.platform != "win32"

LIBRARIES: Final = (
    *("msgspec", "starlette", "uvicorn", "httptools", "prometheus_client"),
    *(("uvloop",) if _HAS_UVLOOP else ()),
)

_STOP_SIGNALS: Final = [
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGBREAK") if name in signal.Signals.__members__
]
"""Signals that stop the service. On Windows, another process can send only one of them, SIGBREAK (Ctrl-Break)."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    if not _HAS_UVLOOP:
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415  not available everywhere

    return uvloop.new_event_loop()


def on_stop_signal(call: Callable[[int, None], object]) -> None:
    # call this in the main thread; the handlers are Python's own, because event loops on Windows have none
    loop = asyncio.get_running_loop()

    def pass_on(number: int, _frame: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: it has stopped
            loop.call_soon_threadsafe(call, number, None)

    for number in _STOP_SIGNALS:
        signal.signal(number, pass_on)


@contextmanager
def stop_signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
