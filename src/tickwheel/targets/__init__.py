"""
Targets: the destinations of fired jobs.

    handler    a function of this process
    log        a line on standard output
    pull       a queue that workers lease from
    webhook    an HTTP POST

The following targets are passed as `targets=`. They are imported from modules of their own, or made by `make_target`:

    redis_stream, amqp, nats, kafka        a message to a broker
    celery, rq, dramatiq, taskiq           a task in its queue, see `apply_at`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later
from tickwheel.targets._open import make_target, shown_target
from tickwheel.targets.contract import (
    DEFAULT,
    Abandoned,
    Call,
    Checking,
    Choosy,
    DeadLetter,
    Default,
    End,
    FinalError,
    Firing,
    HasHandlers,
    Limiting,
    Limits,
    Reporting,
    Requiring,
    Retry,
    Snooze,
    Target,
)

if TYPE_CHECKING:
    from tickwheel.targets._task import apply_at
else:  # it imports asyncio, which programs with threads need not pay for
    __getattr__, __dir__ = later(__name__, {"tickwheel.targets._task": ("apply_at",)})

__all__ = [
    "DEFAULT",
    "Abandoned",
    "Call",
    "Checking",
    "Choosy",
    "DeadLetter",
    "Default",
    "End",
    "FinalError",
    "Firing",
    "HasHandlers",
    "Limiting",
    "Limits",
    "Reporting",
    "Requiring",
    "Retry",
    "Snooze",
    "Target",
    "apply_at",
    "make_target",
    "shown_target",
]
