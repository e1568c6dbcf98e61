"""
Puts the simulated threads, timers and dice in the place of the real ones, for as long as a simulation runs.

The engine's modules are the real ones; what is exchanged are the names by which they reach threads and time.
"""

from __future__ import annotations

import concurrent.futures
import logging
import random
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from simulation._threads import Future, Threads, Times
from simulation._timers import forget_timers, make_timers
from tickwheel.drivers import TimerWheel

__all__ = ["simulated"]

_ROOM: Final = "tickwheel.scheduler"


class Secrets:
    """
    Stands for the module `secrets`: the dice of the run, so that one seed is one history.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def token_hex(self, size: int) -> str:
        """
        Return as many random bytes as hexadecimal digits.
        """
        return self._dice.randbytes(size).hex()


@contextmanager
def simulated(dice: random.Random) -> Iterator[None]:
    """
    Exchange the names in every module of the scheduler that is loaded.
    """
    stands_for: list[tuple[Any, Any]] = [
        (threading, Threads),
        (time, Times),
        (threading.Lock, Threads.Lock),
        (concurrent.futures.Future, Future),
        (TimerWheel, make_timers),
        (random, dice),
        (secrets, Secrets(dice)),
    ]
    changed: list[tuple[Any, str, Any]] = []
    for name, module in sorted(sys.modules.items()):
        if name.startswith(_ROOM):
            for attribute, value in list(vars(module).items()):
                for real, simulated_one in stands_for:
                    if value is real:
                        changed.append((module, attribute, value))
                        setattr(module, attribute, simulated_one)
    log = logging.getLogger("tickwheel")
    level = log.level
    log.setLevel(logging.CRITICAL)  # that a store fails is the rule here
    try:
        yield
    finally:
        log.setLevel(level)
        for module, attribute, value in changed:
            setattr(module, attribute, value)
        forget_timers()
        Threads.forget()
