"""
The real scheduler on a simulated machine.

The machine gives it tasks in place of threads, a clock, and random numbers from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from simulation import _threads
from simulation._machine import SimulatedMachine
from simulation._timers import make_timers
from tickwheel.clock import Clock
from tickwheel.host.runtime import Runtime
from tickwheel.scheduler import Scheduler, SchedulerOptions
from tickwheel.targets import Target

__all__ = ["SimulatedScheduler"]

_REFUSED: Final = 0.1
"""Share of the thread starts that fail, for threads whose names begin with a prefix in `_COMING`."""
_HERE: Final = 0.5
"""Share of the callers that may write in their own thread."""
_COMING: Final = ("tickwheel-worker", "tickwheel-coroutines", "tickwheel-pruner")
"""Prefixes of the names of threads that may be refused at their start."""


class SimulatedScheduler(Scheduler):
    """
    A scheduler that takes its random numbers from *chance*.

    *chance* also decides whether a thread can be started.
    """

    def __init__(
        self,
        store: Any,
        options: SchedulerOptions,
        machine: SimulatedMachine,
        chance: random.Random,
        targets: Mapping[str, Target],
    ) -> None:
        self._chance = chance
        super().__init__(store, options=options, clock=machine, targets=targets)

    def _runtime(self, clock: Clock) -> Runtime:
        stand_ins: dict[str, Any] = {
            "monotonic": _threads.monotonic,
            "lock": _threads.Lock,
            "condition": _threads.Condition,
            "event": _threads.Event,
            "call_lock": _threads.Lock,
            "gate": _threads.Gate,
            "thread": self._thread,
            "current_thread": _threads.current_thread,
            "random": self._chance.random,
            "token": lambda size: self._chance.randbytes(size).hex(),
            "timers": make_timers,
            "ran_undisturbed": self._ran_undisturbed,
        }
        assert {*stand_ins, "clock"} == {field.name for field in fields(Runtime)}, "nothing of the system's is left"
        return Runtime(clock=clock, **stand_ins)

    def _ran_undisturbed(self, call: Callable[[], object]) -> bool:
        is_here = self._chance.random() < _HERE
        if is_here:
            call()
        return is_here

    def _thread(self, *, name: str, **rest: Any) -> _threads.Thread:
        is_refused = name.startswith(_COMING) and self._chance.random() < _REFUSED
        return (_Refused if is_refused else _threads.Thread)(name=name, **rest)


class _Refused(_threads.Thread):
    def start(self) -> None:
        what = "can't start new thread"
        raise RuntimeError(what)
