"""
A simple model of an engine: a list and linear searches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tickwheel.clock import NEVER, seconds, to_deadline
from tickwheel.errors import ClosedError, ReentrantError, TooManyTimersError
from tickwheel.typing import Pending

__all__ = ["EngineModel", "ModelTimer"]


class ModelTimer:
    def __init__(
        self, model: EngineModel, deadline: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self.model = model
        self.deadline = deadline
        self.arrival = model.arrive()
        self.callback = callback
        self.args = args
        self.state = "pending"

    def cancel(self) -> bool:
        if self.state != "pending":
            return False
        self.state = "cancelled"
        self.model.counts["cancels"] += 1
        return True

    def pending(self) -> bool:
        return self.state == "pending"

    def cancelled(self) -> bool:
        return self.state == "cancelled"

    def when(self) -> float:
        return seconds(self.deadline)

    def reschedule(self, when: float) -> bool:
        if self.state == "firing" and not self.model.is_closed:
            self.model.admit()
            self.model.counts["sets"] += 1
        elif self.state == "pending":
            self.model.counts["moves"] += 1
        else:
            return False
        self.state = "pending"
        self.deadline = to_deadline(when)
        self.arrival = self.model.arrive()
        return True


class EngineModel:
    def __init__(self, now: int, max_pending: int | None) -> None:
        self.now = now
        self.max_pending = max_pending
        self.timers: list[ModelTimer] = []
        self.counts = {"sets": 0, "moves": 0, "cancels": 0, "fires": 0}
        self.is_closed = False
        self.is_firing = False
        self.on_error: Callable[[BaseException, Any], object] = print
        self._arrivals = 0

    def arrive(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def admit(self) -> None:
        if self.max_pending is not None and len(self) >= self.max_pending:
            raise TooManyTimersError(self.max_pending)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, slack: float = 0.0) -> ModelTimer:
        if self.is_closed:
            raise ClosedError
        self.admit()
        deadline = to_deadline(when)
        timer = ModelTimer(self, _loosened(deadline, to_deadline(slack)), callback, args)
        self.timers.append(timer)
        self.counts["sets"] += 1
        return timer

    def due(self) -> list[ModelTimer]:
        return [timer for timer in self.in_order() if timer.deadline <= min(self.now, NEVER - 1)]

    def in_order(self) -> list[ModelTimer]:
        self.timers = [timer for timer in self.timers if timer.state in {"pending", "firing"}]
        pending = [timer for timer in self.timers if timer.state == "pending"]
        return sorted(pending, key=lambda timer: (timer.deadline, timer.arrival))

    def fire_due(self, count: int) -> None:
        if self.is_firing:
            raise ReentrantError("fire_due")
        self.is_firing = True
        last = self._arrivals
        try:
            for _ in range(count):
                self._fire(next(timer for timer in self.due() if timer.arrival <= last))
        finally:
            self.is_firing = False

    def _fire(self, timer: ModelTimer) -> None:
        timer.state = "firing"
        self.counts["fires"] += 1
        failure = None
        try:
            timer.callback(*timer.args)
        except Exception as error:  # noqa: BLE001  as the contract says
            failure = error
        finally:
            if timer.state == "firing":
                timer.state = "fired"
        if failure is not None:
            self.on_error(failure, timer)

    def drain(self) -> list[Pending]:
        drained = []
        for timer in self.in_order():
            timer.cancel()
            remaining = math.inf if timer.deadline == NEVER else (timer.deadline - self.now) / 1e9
            drained.append(Pending(timer.callback, timer.args, timer.when(), remaining))
        return drained

    def close(self) -> list[Pending]:
        self.is_closed = True
        return self.drain()

    def __len__(self) -> int:
        return len(self.in_order())


def _loosened(deadline: int, slack_ns: int) -> int:
    # The largest power of two that has a multiple in the range wins.
    last = min(deadline + slack_ns, NEVER - 1)
    if deadline == 0 or deadline >= NEVER:
        return deadline
    for shift in range(63, -1, -1):
        multiple = -(-deadline >> shift) << shift
        if multiple <= last:
            return multiple
    return deadline
