"""
Waits on CLOCK_BOOTTIME, which counts suspend. A timer that became due during a suspend fires when the machine resumes.

Most system calls that wait exclude the time of a suspend. On Linux, a timerfd includes it. Python supports timerfd only
from 3.13 on, so this module calls it through the C library.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time
from typing import Any

from tickwheel.threads import original

__all__ = ["BootWaiter"]

TFD_TIMER_ABSTIME = 1
NS_PER_S = 1_000_000_000


class BootWaiter:
    def __init__(self) -> None:
        self._libc = _libc()
        flags = os.O_CLOEXEC | os.O_NONBLOCK
        self._timer = _checked(self._libc.timerfd_create(time.CLOCK_BOOTTIME, flags))
        self._token = os.eventfd(0, flags)
        self._poll = original(select, "poll")()
        self._poll.register(self._timer, select.POLLIN)
        self._poll.register(self._token, select.POLLIN)

    @staticmethod
    def is_available() -> bool:
        return sys.platform == "linux" and hasattr(time, "CLOCK_BOOTTIME") and hasattr(_libc(), "timerfd_create")

    def wait(self, deadline_ns: int | None) -> bool:
        # Time 0 would disarm the timerfd; time 1 has also passed.
        seconds, ns = (0, 0) if deadline_ns is None else divmod(max(deadline_ns, 1), NS_PER_S)
        setting = (ctypes.c_long * 4)(0, 0, seconds, ns)
        _checked(self._libc.timerfd_settime(self._timer, TFD_TIMER_ABSTIME, setting, None))
        self._poll.poll()
        try:
            os.eventfd_read(self._token)
        except BlockingIOError:
            return False
        return True

    def wake(self) -> None:
        if self._token >= 0:
            os.eventfd_write(self._token, 1)

    def __del__(self) -> None:
        for name in ("_timer", "_token"):
            if getattr(self, name, -1) >= 0:
                os.close(getattr(self, name))
                setattr(self, name, -1)  # a garbage cycle may call this object later, when another file has the number


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
