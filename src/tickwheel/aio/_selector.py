from __future__ import annotations

import select
import selectors
from contextlib import suppress

from tickwheel._core import Alarm

__all__ = ["AlarmSelector", "default_selector"]

if hasattr(selectors, "EpollSelector"):

    class AlarmSelector(selectors.EpollSelector):
        """
        An epoll selector with a timerfd.

        `epoll_wait` counts whole milliseconds, and rounding up makes every timer half a millisecond late on average.
        `epoll_pwait2` counts nanoseconds, but the kernel lets it oversleep by a thousandth of the wait, at least 50 us.
        A `timerfd` has no such slack.
        """

        _selector: select.epoll

        def __init__(self) -> None:
            self.alarm = Alarm()
            super().__init__()
            # Registered directly with epoll, so that `get_map()` does not show it.
            # Edge-triggered, so that it need not be read.
            self._selector.register(self.alarm.fileno(), select.EPOLLIN | select.EPOLLET)

        def close(self) -> None:
            self.alarm.close()
            super().close()


def default_selector() -> selectors.BaseSelector:
    if hasattr(selectors, "EpollSelector"):
        with suppress(OSError):  # the system has no timerfd
            return AlarmSelector()
    return selectors.DefaultSelector()
