from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tickwheel.host.runtime import Runtime
from tickwheel.host.wait_log import WaitLog
from tickwheel.jobs.errors import StoreError, error_text
from tickwheel.jobs.explanation import EVERY_LANE, WaitReason
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

_LATELY_S: Final = 60.0
"""A failure that repeats is logged again only after this many seconds without it."""

_log = logging.getLogger("tickwheel.scheduler")


class Hooks:
    """
    The subscribed hooks. Without a hook, events cost nothing.

    Callers check `is_active` before they create an event, and `is_curious` before a routine event, such as a firing.
    """

    __slots__ = ("_curious", "_failures", "_hooks", "_lock", "_runtime", "is_active", "is_curious", "waits")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.waits = WaitLog(runtime)
        self._lock = runtime.lock()
        self._failures: dict[str, tuple[str, float]] = {}
        self._hooks: tuple[EventHook, ...] = ()
        self._curious: tuple[EventHook, ...] = ()
        self.is_active = False
        self.is_curious = False

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]:
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
        if not isinstance(error, StoreError):
            _log.error("%s failed unexpectedly; it will be tried again", action, exc_info=error)
        elif not error.is_transient and self._is_news(action, str(error)):
            _log.error("%s failed, and will be tried again: %s", action, error)
        self.waits.tell(EVERY_LANE, WaitReason.STORE_UNREACHABLE, f"{action} failed: {error}")
        if self.is_active:
            self.emit(StoreFailed(action, error_text(error)))

    def _is_news(self, action: str, text: str) -> bool:
        now = self._runtime.monotonic()
        with self._lock:
            before, at = self._failures.get(action, ("", now))
            self._failures[action] = text, now
        return text != before or now - at > _LATELY_S

    def emit(self, event: Event) -> None:
        """
        Call every hook with *event*, in order of subscription. Errors of hooks are logged, even SystemExit.

        KeyboardInterrupt propagates, because it does not come from the hook.
        """
        for hook in self._curious if isinstance(event, _ROUTINE) else self._hooks:
            try:
                hook(event)
            except BaseException as error:  # an error of a hook must not end the thread that fires
                if isinstance(error, KeyboardInterrupt) and not self._runtime.current_thread().daemon:
                    raise  # raised in the main thread; the threads that fire are daemons
                _log.exception("a hook raised on %r", event)
