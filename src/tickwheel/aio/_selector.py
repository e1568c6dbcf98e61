"""
The selector of a loop that wants to be woken to the microsecond.
"""

from __future__ import annotations

import select
import selectors
from contextlib import suppress

from tickwheel._core import Alarm

__all__ = ["AlarmSelector", "default_selector"]

if hasattr(selectors, "EpollSelector"):

    class AlarmSelector(selectors.EpollSelector):
        """
        An epoll selector with an alarm beside its files.

        `epoll_wait` counts whole milliseconds, and rounding up makes every timer late by half a one.
        `epoll_pwait2` counts nanoseconds, but the kernel lets it oversleep by a thousandth of the wait, at least 50 us.
        The alarm, a `timerfd`, has no such slack.
        """

        _selector: select.epoll

        def __init__(self) -> None:
            self.alarm = Alarm()
            super().__init__()
            # Beside the map of files, so that `get_map()` does not show it.
            # Edge-triggered, so that it need not be read.
            self._selector.register(self.alarm.fileno(), select.EPOLLIN | select.EPOLLET)

        def close(self) -> None:
            """
            Close the alarm and the selector.
            """
            self.alarm.close()
            super().close()


def default_selector() -> selectors.BaseSelector:
    """
    Return the selector that wakes most exactly on this system.
    """
    if hasattr(selectors, "EpollSelector"):
        with suppress(OSError):  # there is no timerfd
            return AlarmSelector()
    return selectors.DefaultSelector()
