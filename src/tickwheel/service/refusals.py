"""
Refuses values that are valid for the scheduler, but that the options of this service forbid.
"""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Final

from tickwheel.calendar import Cron, Step
from tickwheel.errors import RecurrenceError
from tickwheel.jobs import checks
from tickwheel.jobs.recurring import interval_of
from tickwheel.scheduler import AsyncScheduler, HandlerNotFoundError
from tickwheel.service.bodies import SetBody
from tickwheel.service.problems import ProblemError
from tickwheel.typing import Duration

__all__ = ["check_handler", "check_interval", "check_set"]

_LOOKED_AT: Final = 61
"""Number of runs of a cron line that are compared to find its shortest interval. A minute has at most 60 runs."""


def check_set(body: SetBody, scheduler: AsyncScheduler, every_min: Duration) -> None:
    check_handler(body.target, body.handler, scheduler)
    check_interval(body.every, body.cron, every_min)


def check_handler(target: str | None, handler: str | None, scheduler: AsyncScheduler) -> None:
    if target == "handler" and handler and not scheduler.has_handler(handler):
        raise HandlerNotFoundError(handler)


def check_interval(every: Duration | None, cron: str | None, every_min: Duration) -> None:
    every_min_s, every = checks.seconds("every_min_s", every_min), interval_of(every, cron)
    if every is None:
        if cron is not None and every_min_s > 1 and (gap_s := _least_gap_s(cron)) < every_min_s:
            remedy = f"give one with at least {every_min_s:g} s, or start the service with a smaller --every-min"
            message = f"cron is {cron!r}, with {gap_s:g} s between two runs: {remedy}"
            raise ProblemError("invalid_value", message, value=cron, remedy=remedy)
        return
    step = Step.of(every) if isinstance(every, str) else None
    least_s = checks.seconds("every", every) if step is None else 86_400 * (step.days + 28 * step.months)
    if least_s < every_min_s:
        remedy = f"give at least {every_min_s:g} s, or start the service with a smaller --every-min"
        raise ProblemError("invalid_value", f"every is {every!r}: {remedy}", value=every, remedy=remedy)


def _least_gap_s(cron: str) -> float:
    try:
        line = Cron.parse(cron)
    except RecurrenceError:  # the scheduler reports the error, unless the line is valid with another day_match
        return math.inf
    instants = [time.time_ns() // 1_000_000]
    while len(instants) <= _LOOKED_AT and (instant := line.next(instants[-1])) is not None:
        instants.append(instant)
    return min((later - earlier for earlier, later in pairwise(instants[1:])), default=math.inf) / 1000
