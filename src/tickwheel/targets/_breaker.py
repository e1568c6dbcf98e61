"""
Circuit breakers: who has failed several times in a row is left alone for a while, and then asked by one firing.

    state        what it means                        event                       next
    closed       everybody may call                   n failures in a row         open
    open         nobody may                           the time is over            half-open
    half-open    one may, and the others wait for it  it succeeds                 closed
                                                      it fails                    open
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tickwheel.observe.events import CircuitClosed, CircuitOpened, Event

__all__ = ["Breakers"]

_BREAKERS_MAX: Final = 10_000
"""How many places that fail are remembered; of more, the one that has failed first is forgotten."""
_PROBE_S: Final = 1.0
"""How long the others wait for the one that asks, before they look again."""
_SPREAD: Final = 0.25
"""Over what share of their wait those that wait are spread, so that they do not come back at once."""


@dataclass(slots=True)
class _Breaker:
    """
    The breaker of a destination that has failed since it last succeeded.
    """

    failures: int = 0
    open_until: float = 0.0
    is_open: bool = False
    is_probed: bool = False


class Breakers:
    """
    The breakers of one target, by the destination's name. Used on one thread; `figures` from any.

    Args:
        failures_max: How many failures in a row open one.
        open_s: For how long.
        clock: Monotonic seconds.
    """

    def __init__(self, failures_max: int, open_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures_max = failures_max
        self._open_s = open_s
        self._clock = clock
        self._breakers: dict[str, _Breaker] = {}
        self.emit: Callable[[Event], object] = lambda _event: None
        """Gets the events."""

    def enter(self, name: str) -> float | None:
        """
        Return None if a call to *name* may begin, which is to `leave` then; or else how many seconds to wait.
        """
        breaker = self._breakers.get(name)
        if breaker is None or not breaker.is_open:
            return None
        left = breaker.open_until - self._clock()
        if left <= 0 and not breaker.is_probed:
            breaker.is_probed = True
            return None
        return max(left, _PROBE_S) * (1 + _SPREAD * random.random())  # noqa: S311  it is not a secret

    def leave(self, name: str, *, is_up: bool | None) -> None:
        """
        Note what a call to *name* has shown: that it works, that it does not, or, with None, neither.
        """
        breaker = self._breakers.get(name)
        if is_up:
            if breaker is not None:
                del self._breakers[name]
                if breaker.is_open:
                    self.emit(CircuitClosed(name))
            return
        if breaker is None:
            if is_up is None:
                return
            if len(self._breakers) >= _BREAKERS_MAX:
                del self._breakers[next(iter(self._breakers))]
            breaker = self._breakers[name] = _Breaker()
        breaker.is_probed = False
        if is_up is None:
            return
        breaker.failures += 1
        if breaker.failures >= self._failures_max:
            breaker.open_until = self._clock() + self._open_s
            if not breaker.is_open:
                breaker.is_open = True
                self.emit(CircuitOpened(name, breaker.failures, self._open_s))

    def figures(self) -> dict[str, Any]:
        """
        Return, for each destination that has failed since it last succeeded, its state, failures, and seconds left.
        """
        now = self._clock()
        return {
            name: {
                "state": _state(breaker, now),
                "failures": breaker.failures,
                "open_s": max(0.0, breaker.open_until - now),
            }
            for name, breaker in self._breakers.copy().items()
        }


def _state(breaker: _Breaker, now: float) -> str:
    if not breaker.is_open:
        return "closed"
    return "open" if now < breaker.open_until else "half-open"
