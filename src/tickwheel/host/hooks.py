"""
The hooks that are called with events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tickwheel.host.runtime import Runtime
from tickwheel.jobs.errors import StoreError, error_text
from tickwheel.observe.events import (
    Event,
    EventHook,
    JobCancelled,
    JobExpired,
    JobFired,
    JobMoved,
    JobPaused,
    JobReplayed,
    JobResumed,
    JobSet,
    JobSnoozed,
    JobStopped,
    JobSucceeded,
    StoreFailed,
)

__all__ = ["Hooks"]

_ROUTINE: Final = (
    JobSet,
    JobMoved,
    JobCancelled,
    JobPaused,
    JobResumed,
    JobReplayed,
    JobFired,
    JobSucceeded,
    JobSnoozed,
    JobStopped,
    JobExpired,
)
"""What goes as it should."""

_LATELY_S: Final = 60.0
"""An action that fails in the same way after so long has succeeded meanwhile, since all are tried again sooner."""

_log = logging.getLogger("tickwheel.scheduler")


class Hooks:
    """
    The subscribed hooks; an event costs nothing where there is none.

    `is_active` is read before an event is made, and `is_curious` before one of the routine, so that a scheduler nobody
    listens to makes none.
    """

    __slots__ = ("_curious", "_failures", "_hooks", "_lock", "_runtime", "is_active", "is_curious")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._failures: dict[str, tuple[str, float]] = {}
        self._hooks: tuple[EventHook, ...] = ()
        self._curious: tuple[EventHook, ...] = ()
        self.is_active = False
        self.is_curious = False

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]:
        """
        Call *hook* from now on, with the *routine* only if it wants; return what ends that.
        """

        def subscribed(event: Event) -> object:
            return hook(event)

        def unsubscribe() -> None:
            with self._lock:
                self._hooks = tuple(each for each in self._hooks if each is not subscribed)
                self._curious = tuple(each for each in self._curious if each is not subscribed)
                self.is_active, self.is_curious = bool(self._hooks), bool(self._curious)

        with self._lock:
            self._hooks = (*self._hooks, subscribed)
            self.is_active = True
            if routine:
                self._curious = (*self._curious, subscribed)
                self.is_curious = True
        return unsubscribe

    def failed(self, action: str, error: Exception) -> None:
        """
        Report that *action* failed, and will be tried again.

        An *error* that no store should raise is logged as well, and one that does not pass, when it comes first.
        """
        if not isinstance(error, StoreError):
            _log.error("%s failed unexpectedly; it will be tried again", action, exc_info=error)
        elif not error.is_transient and self._is_news(action, str(error)):
            _log.error("%s failed, and will be tried again: %s", action, error)
        if self.is_active:
            self.emit(StoreFailed(action, error_text(error)))

    def _is_news(self, action: str, text: str) -> bool:
        """
        Return whether *action* did not fail in this way lately.
        """
        now = self._runtime.monotonic()
        with self._lock:
            before, at = self._failures.get(action, ("", now))
            self._failures[action] = text, now
        return text != before or now - at > _LATELY_S

    def emit(self, event: Event) -> None:
        """
        Give *event* to every hook, in the order of their subscription; what one raises is logged, even SystemExit.

        Only Ctrl-C, which is not the hook's own, goes on to who called.
        """
        for hook in self._curious if isinstance(event, _ROUTINE) else self._hooks:
            try:
                hook(event)
            except BaseException as error:  # a hook's fault may not end the thread, without which nothing fires
                if isinstance(error, KeyboardInterrupt) and not self._runtime.current_thread().daemon:
                    raise  # it comes in the main thread, and those that fire are daemons
                _log.exception("a hook raised on %r", event)
