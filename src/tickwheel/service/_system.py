"""
The differences between systems for a service: the loop that it runs on, and the signals that stop it.
"""

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
"""What has to be installed."""

_STOP_SIGNALS: Final = [
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGBREAK") if name in signal.Signals.__members__
]
"""Ctrl-C, what process managers send, and on Windows Ctrl-Break, which is what can be sent there."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    if not _HAS_UVLOOP:
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415 it is not everywhere

    return uvloop.new_event_loop()


def on_stop_signal(call: Callable[[int, None], object]) -> None:
    """
    Call *call* on the running loop for every signal that asks the process to stop; in the main thread.

    By Python's own handlers: Windows' loops have no others.
    """
    loop = asyncio.get_running_loop()

    def pass_on(number: int, _frame: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: it has stopped
            loop.call_soon_threadsafe(call, number, None)

    for number in _STOP_SIGNALS:
        signal.signal(number, pass_on)


@contextmanager
def stop_signals_restored() -> Iterator[None]:
    """
    Give those signals their handlers back at the end.
    """
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
