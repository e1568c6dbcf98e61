"""
Named lanes: a registration with `lane="bulk"` puts several handlers into one lane.

The names are not stored: the process that fires jobs takes them from its registrations. The store knows only one lane
per handler. To read the jobs of a named lane, the process asks the store for the lanes of all handlers in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.lane import lane_of
from tickwheel.targets import Default, Limits
from tickwheel.targets.handler import HandlerTarget

__all__ = ["LaneNames", "limits_in"]

_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class LaneLimits(Limits):
    lane: str = ""


class LaneNames:
    def __init__(self) -> None:
        self.named: dict[str, str] = {}
        """The named lane of each handler's lane, such as "lane:bulk" for "handler:mail"."""
        self._members: dict[str, tuple[str, ...]] = {}
        self._seen = 0

    def of(self, target: str, handler: str) -> str:
        lane = lane_of(target, handler)
        return self.named.get(lane, lane)

    def members(self, lane: str) -> tuple[str, ...]:
        return self._members.get(lane, (lane,))

    def update(self, handlers: HandlerTarget) -> None:
        names = handlers.names()
        for name in names[self._seen :]:
            limits = handlers.limits(name)
            if isinstance(limits, LaneLimits):
                lane, member = f"lane:{limits.lane}", lane_of("handler", name)
                self._members[lane] = (*self._members.get(lane, ()), member)
                self.named[member] = lane
        self._seen = len(names)


def limits_in(
    handlers: HandlerTarget, lane: str | None, concurrency: int | Default | None, rate: float | None
) -> Limits:
    if lane is None:
        return Limits(concurrency, rate)
    if not isinstance(lane, str) or not lane:
        raise InvalidJobError("lane", lane, "pass a name, such as 'bulk', or None for a separate lane")
    limits = LaneLimits(concurrency, rate, lane=checks.check_text("lane", lane, _BYTES_MAX))
    for name in handlers.names():
        others = handlers.limits(name)
        if isinstance(others, LaneLimits) and others.lane == lane and others != limits:
            remedy = f"its handler {name!r} has {_words(others)}: give all handlers of a lane the same limits"
            raise InvalidJobError("lane", lane, f"{remedy}, or take another lane")
    return limits


def _words(limits: Limits) -> str:
    return f"concurrency={limits.concurrency!r} and rate={limits.rate!r}"
