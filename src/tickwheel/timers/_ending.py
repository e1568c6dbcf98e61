"""
An end that comes once, and the callbacks that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from weakref import ref

from tickwheel.errors import TickwheelError
from tickwheel.timers.locks import OUTER, new_lock
from tickwheel.timers.log import logger

__all__ = ["Ending", "Reason"]

Reason: TypeAlias = tuple[type[TickwheelError], Any]
"""The class of the error that says why, and its fact: a new error is made each time, as a raised one keeps frames."""


class Ending:
    """
    The end of one context. All methods may be called from any thread; nothing is called under the lock.

    It holds what is above. What is below is held only while something waits for its end, by a dict that all share.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._above: Ending | None = None
        self._calls: dict[object, ref[Ending] | Callable[[Reason], object]] = {}
        self._kept: dict[object, Ending] = {}
        self._lock = new_lock(OUTER)

    def then(self, call: Callable[[Reason], object]) -> Callable[[], object]:
        """
        Call *call* with the reason once the end comes, or at once if it has; return what takes this back.
        """
        name = object()
        with self._lock:
            if self.reason is None:
                self._calls[name] = call
                self._kept[name] = self
                return lambda: self._forget(name)
        call(self.reason)
        return bool

    def follow(self, above: Ending) -> None:
        """
        End when *above* does: at once, if it has ended.
        """
        below = ref(self, above._forget)  # called wherever memory is freed, so it takes no lock
        with above._lock:
            if above.reason is None:
                above._calls[below] = below
                self._above = above
                self._kept = above._kept
                return
        self.come(above.reason)

    def come(self, reason: Reason) -> bool:
        """
        End by *reason*, and call everything that waits, in the order it was added in; return whether this was the end.

        What follows is called in turn, by a loop: a chain of contexts may be of any length.
        What a callback raises is logged; the first that is not an `Exception` is raised once all were called.
        """
        kept = self._kept  # what waits below is held until it was called
        calls = self._take(reason, kept)
        if calls is None:
            return False
        failures: list[BaseException] = []
        ways = [calls]
        while ways:
            call = next(ways[-1], None)
            if call is None:
                ways.pop()
            elif isinstance(call, ref):
                below = call()
                calls = None if below is None else below._take(reason, kept)  # noqa: SLF001 the two ends of one tie
                if calls is not None:
                    ways.append(calls)
            else:
                try:
                    call(reason)
                except Exception:  # noqa: BLE001 - the others are to be called as well
                    logger().exception("what a context was to call at its end raised: %r", call)
                except BaseException as failure:  # noqa: BLE001 - likewise
                    failures.append(failure)
        if failures:
            raise failures[0]
        return True

    def _take(
        self, reason: Reason, kept: dict[object, Ending]
    ) -> Iterator[ref[Ending] | Callable[[Reason], object]] | None:
        """
        End, and return what is to be called; None if the end has come before.
        """
        with self._lock:
            if self.reason is not None:
                return None
            self.reason = reason
            calls, self._calls = self._calls, {}
            above, self._above = self._above, None
            self._kept = {}
        if above is not None:
            above._forget(ref(self))  # noqa: SLF001 the two ends of one tie
        for name in calls:
            kept.pop(name, None)
        return iter(calls.values())

    def _forget(self, name: object) -> None:
        self._kept.pop(name, None)
        self._calls.pop(name, None)
