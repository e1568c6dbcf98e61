"""
Values that this service refuses to set, though a job could have them.
"""

from __future__ import annotations

from tickwheel.scheduler import AsyncScheduler, HandlerNotFoundError, checks
from tickwheel.scheduler.verbs.recurring import interval_of
from tickwheel.service.bodies import SetBody
from tickwheel.service.problems import ProblemError
from tickwheel.typing import Duration

__all__ = ["check_handler", "check_interval", "check_set"]


def check_set(body: SetBody, scheduler: AsyncScheduler, every_min: Duration) -> None:
    """
    Refuse what `check_handler` and `check_interval` refuse.
    """
    check_handler(body.target, body.handler, scheduler)
    check_interval(body.every, body.cron, every_min)


def check_handler(target: str | None, handler: str | None, scheduler: AsyncScheduler) -> None:
    """
    Refuse a handler that is not registered here.

    Raises:
        HandlerNotFoundError: If nobody would run it: this process is the one that fires.
    """
    if target == "handler" and handler and not scheduler.has_handler(handler):
        raise HandlerNotFoundError(handler)


def check_interval(every: Duration | None, cron: str | None, every_min: Duration) -> None:
    """
    Refuse an interval that would keep the service busy.

    Raises:
        InvalidJobError: If the interval cannot be read.
        ProblemError: `invalid_value`, if the interval is less than *every_min*.
    """
    every = interval_of(every, cron)
    if every is None:
        return
    every_min_s = checks.seconds("every_min_s", every_min)
    if checks.seconds("every", every) < every_min_s:
        remedy = f"give at least {every_min_s:g} s, or start the service with a smaller --every-min"
        raise ProblemError("invalid_value", f"every is {every!r}: {remedy}", value=every, remedy=remedy)
