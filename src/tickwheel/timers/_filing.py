"""
The set of pending timers, and the wheel that contains them.

A step is one call of the wheel. The engine's lock keeps other threads out, but a finalizer or a signal handler may run
in the same thread at any time, and set, move or cancel timers. Therefore:

* The state of a timer (`live`, its `deadline`) is checked and changed without a function call in between.
* The wheel is updated from that state, one step at a time. A re-entrant call only puts its timer into `_late`. The
  interrupted call files the timers in `_late` at the end of its step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from tickwheel.clock import NEVER
from tickwheel.errors import ReentrantError
from tickwheel.timers._timer import WheelTimer
from tickwheel.wheels.contract import Expired, Wheel

__all__ = ["Filing"]

T = TypeVar("T")


class Filing:
    """
    The pending timers of one engine. The engine holds its lock for every call.

    *live* has the pending timers in order of arrival. *wheel* has an entry for each of these timers, except timers that
    were taken from the wheel to be fired now. *is_in_step* is True during a call of the wheel. During that call,
    the wheel must not be called again.
    """

    def __init__(self, wheel: Wheel) -> None:
        self.live: dict[WheelTimer, None] = {}
        self.wheel = wheel
        self.is_in_step = False
        self._batch: deque[Expired] = deque()
        self._reach = NEVER  # no entry of the wheel is due at or before this time
        self._late: deque[WheelTimer] = deque()

    def remove(self, timer: WheelTimer) -> bool:
        try:
            del self.live[timer]  # a statement, because a profiler or a signal could drain the wheel around a call
        except KeyError:
            return False
        return True

    def renew(self, timer: WheelTimer, deadline: int) -> bool:
        """
        Set the deadline of *timer*, and put it after all timers with this deadline. Return False if it was not pending.
        """
        try:
            del self.live[timer]
        except KeyError:
            return False
        self.live[timer] = None  # `self.live` is read again, because a debugger could drain the wheel between two lines
        timer.deadline = deadline
        return True

    def file(self, timer: WheelTimer) -> None:
        """
        Update the wheel for *timer*, now or at the end of the current step.
        """
        if not self.is_in_step:
            self._step(self._follow, timer)
        elif self.wheel.abilities.span_ns is None or timer not in self.live:
            self._late.append(timer)
        else:  # during a step, such a wheel cannot be asked whether it accepts the deadline
            raise ReentrantError("a set or move on a wheel of limited span")

    def next_expiration(self) -> int | None:
        """
        Return the next deadline, or 0 during a call of the wheel, because that call may change the deadline.
        """
        if self.is_in_step:
            return 0
        in_batch = next((entry.deadline for entry in self._batch if self._is_current(entry)), None)
        in_wheel = self._step(self.wheel.next_expiration)
        return min((deadline for deadline in (in_batch, in_wheel) if deadline is not None), default=None)

    def stand_at(self, now: int) -> None:
        if not self.is_in_step:
            self._step(self.wheel.advance, now, 0)

    def collect(self, now: int, limit: int | None) -> None:
        due = self._step(self.wheel.advance, now, limit)
        self._reach = due[-1].deadline if due and len(due) == limit else NEVER
        if self._batch:
            due = sorted([*self._batch, *due], key=lambda entry: entry.deadline)
        self._batch = deque(due)

    def take(self) -> WheelTimer | None:
        """
        Take the next timer that `collect` found due. Return None if `collect` must be called again.
        """
        batch = self._batch
        while batch and batch[0].deadline <= self._reach:
            try:
                entry = batch.popleft()
            except IndexError:  # a re-entrant call has drained the batch just before this line
                break
            timer: WheelTimer = entry.payload
            if timer.entry == entry.id and self.remove(timer):
                timer.has_fired = timer.is_due = True
                return timer
        return None

    def take_all(self) -> tuple[list[WheelTimer], object]:
        """
        Remove all timers. Return them, sorted by deadline, and references that the caller drops outside of the lock.
        """
        live, self.live = self.live, {}
        timers = sorted(live, key=lambda timer: timer.deadline)
        self._batch.clear()
        if self.is_in_step:
            self._late.extend(timers)
            return timers, None
        return timers, self._step(self.wheel.drain)

    def check(self) -> None:
        if self.is_in_step:
            raise ReentrantError("check")
        assert not self._late, "nothing is left to file"
        self._step(self._check)

    def _check(self) -> None:
        # Check within a step, so that re-entrant calls do not change the wheel: they put their timers into `_late`.
        self.wheel.check()
        live, late, in_wheel = list(self.live), list(self._late), len(self.wheel)
        batch = {entry.payload for entry in list(self._batch) if self._is_current(entry)}
        assert late or self._late or in_wheel + len(batch) == len(live), (
            "every pending timer is in the wheel or in the batch, once"
        )
        for timer in live:
            if timer in self._late:
                continue
            assert timer.call is not None, f"{timer!r} has no callback"
            filed = timer.deadline if timer in batch else self.wheel.deadline(timer.entry)
            assert filed == timer.deadline, f"{timer!r} is filed at {filed}, not {timer.deadline}"

    def _is_current(self, entry: Expired) -> bool:
        # A timer that was moved out of the batch has a new entry in the wheel.
        return entry.payload.entry == entry.id and entry.payload in self.live

    def _follow(self, timer: WheelTimer) -> None:
        if timer not in self.live:
            self.wheel.cancel(timer.entry)
        elif not self.wheel.reschedule(timer.entry, timer.deadline):
            timer.entry = self.wheel.insert(timer.deadline, timer)

    def _step(self, step: Callable[..., T], *args: Any) -> T:
        self.is_in_step = True
        try:
            return step(*args)
        finally:
            self.is_in_step = False
            self._catch_up()

    def _catch_up(self) -> None:
        while self._late and not self.is_in_step:
            self.is_in_step = True
            try:
                if self._late:  # otherwise a re-entrant call has filed them just before this line
                    self._follow(self._late.popleft())
            finally:
                self.is_in_step = False
