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

_PLACES_MAX: Final = 10_000
"""How many places that fail are remembered; of more, the one that has failed first is forgotten."""
_PROBE_S: Final = 1.0
"""How long the others wait for the one that asks, before they look again."""
_SPREAD: Final = 0.25
"""Over what share of their wait those that wait are spread, so that they do not come back at once."""


@dataclass(slots=True)
class _Place:
    """
    One that has failed since it last succeeded.
    """

    failures: int = 0
    open_until: float = 0.0
    is_open: bool = False
    is_probed: bool = False


class Breakers:
    """
    The breakers of one target, by place. Used on one thread; `figures` from any.

    Args:
        failures_max: How many failures in a row open one.
        open_s: For how long.
        clock: Monotonic seconds.
    """

    def __init__(self, failures_max: int, open_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures_max = failures_max
        self._open_s = open_s
        self._clock = clock
        self._places: dict[str, _Place] = {}
        self.emit: Callable[[Event], object] = lambda _event: None
        """Gets the events."""

    def enter(self, name: str) -> float | None:
        """
        Return None if a call to the place *name* may begin, which is to `leave` then; or else how many seconds to wait.
        """
        place = self._places.get(name)
        if place is None or not place.is_open:
            return None
        left = place.open_until - self._clock()
        if left <= 0 and not place.is_probed:
            place.is_probed = True
            return None
        return max(left, _PROBE_S) * (1 + _SPREAD * random.random())  # noqa: S311  it is not a secret

    def leave(self, name: str, *, is_up: bool | None) -> None:
        """
        Note what a call to *name* has shown: that it works, that it does not, or, with None, neither.
        """
        place = self._places.get(name)
        if is_up:
            if place is not None:
                del self._places[name]
                if place.is_open:
                    self.emit(CircuitClosed(name))
            return
        if place is None:
            if is_up is None:
                return
            if len(self._places) >= _PLACES_MAX:
                del self._places[next(iter(self._places))]
            place = self._places[name] = _Place()
        place.is_probed = False
        if is_up is None:
            return
        place.failures += 1
        if place.failures >= self._failures_max:
            place.open_until = self._clock() + self._open_s
            if not place.is_open:
                place.is_open = True
                self.emit(CircuitOpened(name, place.failures, self._open_s))

    def figures(self) -> dict[str, Any]:
        """
        Return, for each place that has failed since it last succeeded, its state, failures, and seconds left.
        """
        now = self._clock()
        return {
            name: {
                "state": _state(place, now),
                "failures": place.failures,
                "open_s": max(0.0, place.open_until - now),
            }
            for name, place in self._places.copy().items()
        }


def _state(place: _Place, now: float) -> str:
    if not place.is_open:
        return "closed"
    return "open" if now < place.open_until else "half-open"
