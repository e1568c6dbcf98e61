"""
Checks that timers in a run of your own kept their guarantees.

    log = PromiseLog(wheel)
    timer = log.call_later(0.5, work)
    ...
    check_promise(log.events)

A `PromiseLog` sets timers on a wheel and records their events. `check_promise` reads such a log, or a log that you
made with another timer system. It reports each firing that breaks a guarantee: early, twice, after a cancel that
returned True, out of order, too late, or missing.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tickwheel.timers.contexts import Timers
from tickwheel.timers.contract import Timer

__all__ = ["Event", "LoggedTimer", "PromiseBrokenError", "PromiseLog", "check_promise"]

Kind: TypeAlias = Literal["set", "move", "cancel", "fire", "end"]


@dataclass(slots=True)
class Event:
    """
    One event. A log lists events in the order of *begun*.

    Attributes:
        kind: "set", "move" and "cancel" are calls, and "fire" is the start of a callback. "end" has the timer None, and
            means that all timers due by then should have fired.
        begun: Start of the call or callback, in seconds of the wheel's clock.
        ended: Time at which the call had returned; equal to *begun* if unknown.
        deadline: The new deadline of the timer in a "set" or "move".
        answer: The result of a "move" or "cancel". A call that returned False changed nothing.
    """

    kind: Kind
    timer: Hashable
    begun: float
    ended: float = math.nan
    deadline: float = math.nan
    answer: bool = True


class PromiseBrokenError(AssertionError):
    """
    A log shows that a timer broke a guarantee; `breaches` has a line for each such event.
    """

    def __init__(self, breaches: list[str]) -> None:
        self.breaches = breaches
        super().__init__(f"the promise is broken {len(breaches)} times:\n" + "\n".join(breaches))


class LoggedTimer:
    """
    The handle of a timer whose events are recorded. Its methods are those of `Timer`.
    """

    def __init__(self, log: PromiseLog, number: int) -> None:
        self._log = log
        self.number = number
        self.timer: Timer

    def __repr__(self) -> str:
        return f"<LoggedTimer {self.number}>"

    def cancel(self) -> bool:
        answer = self.timer.cancel()
        self._log.note(Event("cancel", self.number, self._log.time(), answer=answer))
        return answer

    def reschedule(self, when: float) -> bool:
        return self._move(self.timer.reschedule, when)

    def restart(self, delay: float) -> bool:
        return self._move(self.timer.restart, delay)

    def pending(self) -> bool:
        return self.timer.pending()

    def when(self) -> float:
        return self.timer.when()

    def _move(self, verb: Callable[[float], bool], time: float) -> bool:
        event = Event("move", self.number, self._log.time(), answer=False)
        self._log.note(event)  # before it can fire
        event.answer = verb(time)
        event.deadline, event.ended = self.timer.when(), self._log.time()
        return event.answer


class PromiseLog:
    """
    Sets timers on a wheel and records their events, from any thread.
    """

    def __init__(self, wheel: Timers) -> None:
        self.events: list[Event] = []
        self.time = wheel.time
        self._wheel = wheel
        self._lock = threading.Lock()
        self._count = 0

    def __repr__(self) -> str:
        return f"<PromiseLog of {len(self.events)} events>"

    def note(self, event: Event) -> None:
        """
        Add an event.
        """
        self.events.append(event)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> LoggedTimer:
        """
        Set a recorded timer *delay* seconds from now.
        """
        return self._set(self._wheel.call_later, delay, callback, args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> LoggedTimer:
        """
        Set a recorded timer for *when*, a time of the wheel's clock in seconds.
        """
        return self._set(self._wheel.call_at, when, callback, args)

    def end(self) -> None:
        """
        Record that all timers that are due by now should have fired.
        """
        self.note(Event("end", None, self.time()))

    def _set(self, verb: Callable[..., Timer], time: float, callback: Callable[..., object], args: Any) -> LoggedTimer:
        with self._lock:
            self._count += 1
            timer = LoggedTimer(self, self._count)
        event = Event("set", timer.number, self.time())
        self.note(event)  # before it can fire
        timer.timer = verb(time, self._fire, timer.number, callback, args)
        event.deadline, event.ended = timer.timer.when(), self.time()
        return timer

    def _fire(self, number: int, callback: Callable[..., object], args: Any) -> None:
        self.note(Event("fire", number, self.time()))
        callback(*args)


@dataclass(slots=True)
class _Life:
    """
    A period in which a timer is pending, according to the log.
    """

    deadline: float
    arrival: int
    begun: float
    settled: float
    before: _Life | None = None
    is_sure: bool = True


@dataclass(slots=True)
class _Reader:
    lateness_max_s: float
    is_ordered: bool
    breaches: list[str] = field(default_factory=list)
    pending: dict[Hashable, _Life] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    cancelled: set[Hashable] = field(default_factory=set)
    arrivals: int = 0

    def read(self, event: Event) -> None:
        self.counts[event.kind] = self.counts.get(event.kind, 0) + event.answer
        if event.answer:
            getattr(self, f"_{event.kind}")(event)

    def _set(self, event: Event) -> None:
        self._begin(event)

    def _move(self, event: Event) -> None:
        # A moved timer that is not pending is firing, and will fire once more.
        if event.timer in self.cancelled:
            self._say(event, "was moved after a cancel that said True")
        self._begin(event)

    def _begin(self, event: Event) -> None:
        self.arrivals += 1
        settled = event.begun if math.isnan(event.ended) else event.ended
        before = self.pending.get(event.timer)
        if before is not None:
            before.before = None  # keep only one earlier deadline of a timer that is moved repeatedly
        self.pending[event.timer] = _Life(event.deadline, self.arrivals, event.begun, settled, before)
        self.cancelled.discard(event.timer)

    def _cancel(self, event: Event) -> None:
        if self.pending.pop(event.timer, None) is None:
            self._say(event, "was cancelled, said True, and was not pending")
        self.cancelled.add(event.timer)

    def _fire(self, event: Event) -> None:
        life = self.pending.pop(event.timer, None)
        if life is None:
            self._say(event, f"fired {'after a cancel that said True' if event.timer in self.cancelled else 'twice'}")
            return
        before, life.before = life.before, None
        if before is not None and before.deadline <= event.begun < life.settled:
            # The log does not show whether this firing belongs to the earlier deadline or to the new one.
            life.is_sure = event.begun < life.deadline
            self.pending[event.timer] = life
            life = before
        if event.begun < life.deadline:
            self._say(event, f"fired {life.deadline - event.begun!r} s early")
        late_s = event.begun - max(life.deadline, life.settled)
        if late_s > self.lateness_max_s:
            self._say(event, f"fired {late_s!r} s late, which is more than {self.lateness_max_s!r} s")
        if self.is_ordered:
            self._check_order(event, life)

    def _check_order(self, event: Event, life: _Life) -> None:
        # *other* was pending when the turn began if it was set before *life* was due. If its deadline is also earlier,
        # it must fire first.
        for name, other in self.pending.items():
            is_earlier = (other.deadline, other.arrival) < (life.deadline, life.arrival)
            is_sure = other.is_sure and (other.deadline < life.deadline or other.settled <= life.begun)
            if is_earlier and is_sure and other.settled < life.deadline:
                self._say(event, f"fired before timer {name!r}, whose deadline {other.deadline!r} is not after its own")
                return

    def _end(self, event: Event) -> None:
        for name, life in self.pending.items():
            if life.is_sure and life.deadline <= event.begun:
                self.breaches.append(
                    f"timer {name!r} was due at {life.deadline!r} and has not fired by {event.begun!r}"
                )

    def _say(self, event: Event, what: str) -> None:
        self.breaches.append(f"timer {event.timer!r} {what}, at {event.begun!r}")


def check_promise(
    events: Iterable[Event], *, lateness_max_s: float = math.inf, is_ordered: bool = True
) -> dict[str, int]:
    """
    Check that the timers in a log of *events* kept their guarantees, and return the number of events of each kind.

    The check costs O(n * p) for n events and p pending timers. Moves and cancels that returned False are not counted.
    *lateness_max_s* is the maximum time from the deadline, or from a later "set" event, to the firing. If *is_ordered*
    is True, timers that are due together must fire in order of deadline, then arrival. Pass False for shards, pools,
    and designs with ticks. A PromiseBrokenError lists all breaches.
    """
    reader = _Reader(lateness_max_s, is_ordered)
    for event in events:
        reader.read(event)
    if reader.breaches:
        raise PromiseBrokenError(reader.breaches)
    return reader.counts
