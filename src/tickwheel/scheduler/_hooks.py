"""
Who is told what happens.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tickwheel.observe._events import Event, EventHook

__all__ = ["Hooks"]

_log = logging.getLogger("tickwheel.scheduler")


class Hooks:
    """
    The subscribed hooks; telling costs nothing where there is none.

    `is_active` is read before an event is made, so that a scheduler nobody listens to makes none.
    """

    __slots__ = ("_hooks", "_lock", "is_active")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hooks: tuple[EventHook, ...] = ()
        self.is_active = False

    def subscribe(self, hook: EventHook) -> Callable[[], None]:
        """
        Tell *hook* from now on; return what ends that. Subscribing twice tells twice.
        """

        def told(event: Event) -> object:
            return hook(event)

        def unsubscribe() -> None:
            with self._lock:
                self._hooks = tuple(each for each in self._hooks if each is not told)
                self.is_active = bool(self._hooks)

        with self._lock:
            self._hooks = (*self._hooks, told)
            self.is_active = True
        return unsubscribe

    def tell(self, event: Event) -> None:
        """
        Give *event* to every hook, in the order of their subscription; what one raises is logged.
        """
        for hook in self._hooks:
            try:
                hook(event)
            except Exception:  # noqa: BLE001  a hook's fault may not stop a firing
                _log.exception("a hook raised on %r", event)
