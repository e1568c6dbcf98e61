"""
A wait for sockets and pipes that another thread can end.

It is made from what every system has: select() of Windows knows sockets alone, so what ends the wait is a pair of them.
Elsewhere poll() waits, which does not mind how many files are open.
"""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from typing import Final

__all__ = ["WakeableWait"]

_Selector: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)
_WAIT_MAX_S: Final = 1e6
"""poll() counts milliseconds in a C int."""


class WakeableWait:
    """
    Waits in any number of threads; `wake` is a token, which ends one of their waits or the next one.
    """

    def __init__(self) -> None:
        """
        Make the pair of sockets.
        """
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)

    def wait(self, timeout_s: float, *others: int) -> set[int]:
        """
        Block until one of the *others* can be read, `wake`, or the timeout; return which of them can be read.
        """
        with _Selector() as selector:
            for each in (self._woken.fileno(), *others):
                selector.register(each, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(min(max(timeout_s, 0), _WAIT_MAX_S))}
        if self._woken.fileno() in ready:
            self.forget()
        return ready.intersection(others)

    def wake(self) -> None:
        """
        End a wait, this one or the next; nothing once it is closed.
        """
        with suppress(OSError):  # BlockingIOError: the token is there many times over
            self._waker.send(b"\0")

    def forget(self) -> None:
        """
        Take the token away, if it is there.
        """
        with suppress(BlockingIOError):
            self._woken.recv(65536)

    def close(self) -> None:
        """
        Give the sockets back; nobody may be waiting.
        """
        self._woken.close()
        self._waker.close()
