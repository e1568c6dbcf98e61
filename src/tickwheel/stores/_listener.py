"""
Waits for notifications of other nodes' writes. A notification may be lost; the store's list of changes is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

from tickwheel.stores._wakeable import WakeableWait
from tickwheel.threads import Lock, is_patched

__all__ = ["Listener", "Subscription"]

_RETRY_S: Final = 1.0
_CHECK_S: Final = 1.0
"""Seconds between two checks that the server answers, because a dead connection reports nothing."""


class Subscription(Protocol):
    """
    A connection that receives notifications of other nodes' writes. If a method raises, the connection is replaced.
    """

    def filenos(self) -> Collection[int]: ...

    def receive(self) -> bool: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


class Listener:
    def __init__(self, connect: Callable[[], Subscription]) -> None:
        self._connect = connect
        self._subscription: Subscription | None = None
        self._is_listening = False
        self._check_at = 0.0
        self._lock = Lock()
        self._wait = WakeableWait()

    def listen(self) -> None:
        self._is_listening = True
        if not is_patched():  # a gevent socket works only in its own thread, so the waiting thread opens it
            with suppress(Exception):  # the next wait tries again
                self._subscribe()
        self._wait.recall()

    @property
    def is_subscribed(self) -> bool:
        return self._subscription is not None

    def stop(self) -> None:
        self._is_listening = False
        self._exchange(None)
        self._wait.recall()

    def wait(self, timeout_s: float) -> bool:
        with self._wait.entered() as is_open:
            return is_open and self._hear(timeout_s)

    def wake(self) -> None:
        self._wait.wake()

    def close(self) -> None:
        self.stop()
        self._wait.close()

    def _hear(self, timeout_s: float) -> bool:
        subscription = self._subscription
        if not self._is_listening:
            self._wait.wait(timeout_s)
            return False
        if subscription is None:
            with suppress(Exception):
                self._subscribe()
                return True  # report a change: earlier notifications were missed
            self._wait.wait(min(timeout_s, _RETRY_S))
            return True
        try:
            if time.monotonic() >= self._check_at:
                self._check_at = time.monotonic() + _CHECK_S
                subscription.check()
                if subscription.receive():
                    return True
            timeout_s = min(timeout_s, self._check_at - time.monotonic())
            return bool(self._wait.wait(timeout_s, *subscription.filenos())) and subscription.receive()
        except Exception:  # noqa: BLE001  after any error the connection is made again
            self._exchange(None)
            return True

    def _subscribe(self) -> None:
        self._exchange(self._connect())
        self._check_at = time.monotonic() + _CHECK_S

    def _exchange(self, subscription: Subscription | None) -> None:
        with self._lock:
            used = [self._subscription]
            if not self._is_listening:  # stopped meanwhile
                used.append(subscription)
                subscription = None
            self._subscription = subscription
        self._wait.retire(*filter(None, used))
