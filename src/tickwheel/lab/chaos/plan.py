from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tickwheel.errors import TickwheelError

__all__ = ["FAULTS", "NEEDS_STORE_LINK", "FaultError", "PlannedFault", "plan_of"]

FAULTS: Final[dict[str, tuple[float, float]]] = {
    "kill": (0.0, 0.0),
    "pause": (0.3, 3.0),
    "errors": (0.2, 2.0),
    "cut-target": (0.0, 0.0),
    "close-target": (0.2, 2.0),
    "cut-store": (0.0, 0.0),
    "close-store": (0.2, 2.0),
}
"""
Faults by name, with their minimum and maximum duration in seconds.

kill: SIGKILL, and an immediate restart. pause: SIGSTOP, and SIGCONT later. errors: the target answers 503. cut: every
connection breaks. close: new connections are refused, and existing ones break.
"""
NEEDS_STORE_LINK: Final = frozenset({"cut-store", "close-store"})


class FaultError(TickwheelError, ValueError):
    """
    The fault is unknown or not supported by this store.
    """


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """
    One fault: its kind, its delay after the previous fault has ended, and its duration, both in seconds.
    """

    kind: str
    after_s: float
    for_s: float


def plan_of(seed: int, seconds: float, kinds: Sequence[str], every_s: float) -> list[PlannedFault]:
    """
    Return random faults for *seconds*, about *every_s* apart. Every kind occurs once before any kind is repeated.
    """
    dice = random.Random(seed)  # noqa: S311 no secret
    plan: list[PlannedFault] = []
    at, turn = 0.0, list[str]()
    while True:
        turn = turn or dice.sample(list(kinds), len(kinds))
        kind = turn.pop()
        fault = PlannedFault(kind, dice.uniform(0.5, 1.5) * every_s, dice.uniform(*FAULTS[kind]))
        at += fault.after_s + fault.for_s
        if at > seconds:
            return plan
        plan.append(fault)
