"""
Circuit breakers: a failing receiver gets no calls for a while, and then one firing probes it.

    state        meaning                                    event                       next
    closed       every call may begin                       n failures in a row         open
    open         no call may begin                          the wait is over            half-open
    half-open    one call may begin; other calls wait       the call succeeds           closed
                                                            the call fails              open
    full         like open, but the receiver works and      the wait is over            half-open
                 has no room

The longer an outage lasts, the longer are the waits between probes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tickwheel.observe.events import CircuitClosed, CircuitOpened, Event

__all__ = ["Breakers", "Wait", "back_off", "jitter"]

_BREAKERS_MAX: Final = 10_000
"""Maximum number of failing destinations to remember. The oldest is dropped."""
_WAIT_MIN_S: Final = 1.0
_SHARE: Final = 1 / 100
"""A receiver is probed again after this fraction of its downtime."""
_SPREAD: Final = 0.25
_TURNS_PER_S: Final = 500.0
"""Maximum number of a receiver's jobs that are tried again per second while its breaker is open."""


def back_off(elapsed_s: float, most_s: float) -> float:
    return min(max(_WAIT_MIN_S, elapsed_s * _SHARE), most_s) * jitter()


def jitter() -> float:
    return 1 + _SPREAD * random.random()  # noqa: S311  not a secret


class Wait(NamedTuple):
    seconds: float
    reason: str


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    reason: str = ""
    down_at: float = 0.0
    ask_at: float = 0.0
    last_turn: float = 0.0
    is_open: bool = False
    is_full: bool = False
    is_probed: bool = False


class Breakers:
    """
    The circuit breakers of one target, one for each destination. Only `figures` may be called on another thread.

    *failures_max* consecutive failures open a breaker. *open_s* is the longest wait before the next probe.
    """

    def __init__(
        self, failures_max: int = 1, open_s: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._failures_max = failures_max
        self._open_s = open_s
        self.clock = clock
        self._breakers: dict[str, _Breaker] = {}
        self.emit: Callable[[Event], object] = lambda _event: None

    def enter(self, name: str) -> Wait | None:
        breaker = self._breakers.get(name)
        if breaker is None or not breaker.is_open:
            return None
        now = self.clock()
        if now >= breaker.ask_at and not breaker.is_probed:
            breaker.is_probed = True
            return None
        return self._turn(breaker, now)

    def turn(self, name: str) -> Wait | None:
        """
        Return the wait before a call to *name*, or None if the call may begin now.

        While the breaker is open, the wait lasts until the next probe may be sent.
        """
        breaker = self._breakers.get(name)
        if breaker is None or not breaker.is_open:
            return None
        return self._turn(breaker, self.clock())

    def _turn(self, breaker: _Breaker, now: float) -> Wait:
        wait = max(breaker.ask_at - now, back_off(now - breaker.down_at, self._open_s))
        breaker.last_turn = turn = max(now + wait, breaker.last_turn + 1 / _TURNS_PER_S)
        return Wait(turn - now, breaker.reason)

    def leave(
        self, name: str, *, is_up: bool | None, reason: str = "", is_full: bool = False, after_s: float | None = None
    ) -> None:
        """
        Record the result of a call to *name*. *is_up* is True for success, False for failure, None for neither.

        If *is_full* is True (the destination works but lacks room), a single failure opens the breaker. *after_s* is
        the wait that the destination requests.
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
        breaker.reason, breaker.is_full = reason, is_full
        if breaker.failures >= self._failures_max or is_full:
            self._open(name, breaker, after_s)

    def _open(self, name: str, breaker: _Breaker, after_s: float | None) -> None:
        now = self.clock()
        was_open, breaker.is_open = breaker.is_open, True
        if not was_open:
            breaker.down_at = now
        wait = back_off(now - breaker.down_at, self._open_s) if after_s is None else after_s * jitter()
        breaker.ask_at = now + wait
        if not was_open:
            self.emit(CircuitOpened(name, breaker.failures, wait))

    def figures(self) -> dict[str, Any]:
        now = self.clock()
        return {
            name: {
                "state": _state(breaker, now),
                "failures": breaker.failures,
                "open_s": max(0.0, breaker.ask_at - now) if breaker.is_open else 0.0,
                "reason": breaker.reason,
            }
            for name, breaker in self._breakers.copy().items()
        }


def _state(breaker: _Breaker, now: float) -> str:
    if not breaker.is_open:
        return "closed"
    if now >= breaker.ask_at:
        return "half-open"
    return "full" if breaker.is_full else "open"
