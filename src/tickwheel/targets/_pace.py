"""
Learns the pace of a receiver, the number of messages that it accepts per second, from its refusals.

After the first refusal, the pace is a little less than the number of messages accepted within the last second. The true
limit may be much higher. The pace therefore grows fast until the second refusal. From then on, each refusal cuts the
pace, which then grows, slowly at first. Each refusal also delays all messages for as long as the receiver asks.

If the receiver accepts no message between two refusals, no pace is known. Then one message at a time probes the
receiver. When the receiver accepts one, all waiting messages may be sent.

The module reads no clock: the caller passes the time.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Final

__all__ = ["Pace"]

_TAKEN_MAX: Final = 1_000
"""Number of accepted messages to remember."""
_CAUTION: Final = 0.9
_CUT: Final = 0.7
_GROWTH: Final = 0.002
"""Growth of a known pace: t seconds after a refusal, it has grown by this fraction times t squared."""
_GROWTH_UNKNOWN: Final = 1.5
"""Factor by which the pace grows per second while no limit is known."""
_GROWN_S: Final = 30.0
_RATE_MIN: Final = 1.0
_FORGET_S: Final = 60.0
"""Seconds without a refusal or a waiting message after which the pace is dropped."""
_PAUSE_SHARE: Final = 1 / 50
"""Default wait after a refusal, as a fraction of the time since the first of the consecutive refusals."""
_PAUSE_S: Final = 1.0
"""Minimum of the default wait after a refusal, in seconds."""
_PAUSE_MAX_S: Final = 30.0
"""Maximum of the default wait after a refusal, in seconds."""
_BLIND: Final = 2
"""Number of consecutive refusals after which no pace can be determined."""
_SPREAD_PER_S: Final = 500.0
"""Maximum number of waiting messages per second that are tried again while one message probes the receiver."""
_WAIT_MIN_S: Final = 1.0
"""Minimum seconds before a message is tried again: the minimum of a `Snooze`."""
_GROWING_WAIT_S: Final = 2.0
"""Maximum seconds that a message waits for its turn while no limit is known."""
_BURST_S: Final = 0.5
"""A burst has at most the messages that the current pace allows in this number of seconds."""
_TURNS_MAX: Final = 100_000


class Pace:
    def __init__(self) -> None:
        self._limit: float | None = None
        """Messages per second at the last refusal, from which the pace grows. None before the first refusal."""
        self._is_known = False
        """True after a second refusal, which shows that there is a limit."""
        self._refused_at = 0.0
        self._open_at = 0.0
        self._refusals = 0
        self._since = 0.0
        """Time of the first of the consecutive refusals."""
        self._is_probed = False
        self._taken: deque[float] = deque(maxlen=_TAKEN_MAX)
        self._turns: OrderedDict[str, float] = OrderedDict()
        self._last_turn = 0.0
        self._earliest = 0.0

    def enter(self, name: str, now: float) -> float | None:
        if self._limit is None:
            return None
        if now - self._refused_at > _FORGET_S and self._last_turn < now:
            self._limit, self._refusals, self._is_known = None, 0, False
            return None
        if self._refusals >= _BLIND:
            return self._probe(now)
        turn = self._turns.pop(name, None)
        gap = 1 / self.rate(now)
        may = now >= self._open_at and (turn is not None or self._last_turn <= now)
        if may and now >= self._earliest:
            self._earliest = max(self._earliest, now - _BURST_S) + gap
            return None
        turn = max(self._last_turn + gap, self._open_at, self._earliest, now + _WAIT_MIN_S)
        if not self._is_known:  # the pace grows, so the real wait is shorter: ask again soon
            turn = min(turn, max(self._open_at, now + _GROWING_WAIT_S))
        self._last_turn = turn
        self._turns[name] = turn
        if len(self._turns) > _TURNS_MAX:
            self._turns.popitem(last=False)
        return turn - now

    def note_taken(self, now: float) -> None:
        self._taken.append(now)
        if self._refusals >= _BLIND:
            self._limit, self._is_known = None, False
            self._turns.clear()
            self._last_turn = self._open_at = self._earliest = 0.0
        self._refusals = 0
        self._is_probed = False

    def note_nothing(self) -> None:
        self._is_probed = False

    def note_refused(self, now: float, after_s: float | None) -> float:
        """
        Record a refusal that asks for a wait of *after_s*. Return the seconds for which all messages wait.
        """
        self._is_probed = False
        if now >= self._open_at:  # the first refusal of messages that were sent together
            taken = sum(each > now - 1 for each in self._taken)
            before = self.rate(now) * _CUT if self._limit is not None and self._is_known else 0.0
            self._is_known = self._is_known or (self._limit is not None and not self._refusals)
            self._since = self._since if self._refusals else now
            self._refusals += 1
            self._limit = max(taken, before, _RATE_MIN)
            self._refused_at = now
        pause = after_s
        if pause is None:
            pause = min(max(_PAUSE_S, (now - self._since) * _PAUSE_SHARE), _PAUSE_MAX_S)
        self._open_at = max(self._open_at, now + pause)
        self._earliest = max(self._earliest, self._open_at)
        return self._open_at - now

    @property
    def is_set(self) -> bool:
        return self._limit is not None

    def _probe(self, now: float) -> float | None:
        if now >= self._open_at and not self._is_probed:
            self._is_probed = True
            return None
        self._last_turn = max(self._last_turn + 1 / _SPREAD_PER_S, self._open_at, now + _WAIT_MIN_S)
        return self._last_turn - now

    def rate(self, now: float) -> float:
        assert self._limit is not None
        calm = max(0.0, now - max(self._refused_at, self._open_at))
        if not self._is_known:
            return self._limit * _CAUTION * math.pow(_GROWTH_UNKNOWN, min(calm, _GROWN_S))
        return self._limit * (_CAUTION + _GROWTH * calm * calm)

    def figures(self, now: float) -> dict[str, float | str] | None:
        if self._limit is None:
            return None
        left = max(0.0, self._open_at - now)
        rate = round(self.rate(now), 2)
        reason = f"it takes about {rate:g} messages a second"
        return {"state": "full", "failures": self._refusals, "open_s": left, "rate": rate, "reason": reason}
