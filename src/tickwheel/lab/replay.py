"""
Run a trace on a wheel, like a driver with a perfect clock.

The trace's clock determines the outcome of a timer. At equal times, due timers fire first, and a due timer cannot be
moved or cancelled any more. If a design delivers a timer later, at the end of its tick, the difference counts as
lateness. So every correct design gives the same counters, with any tick.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tickwheel.errors import SpanExceededError, TickwheelError
from tickwheel.lab.trace import TraceOperation
from tickwheel.wheels import Wheel

__all__ = ["DoesNotFitError", "Replay", "ReplayCounts", "replay"]


class DoesNotFitError(TickwheelError, ValueError):
    def __init__(self, number: int, operation: TraceOperation, wheel: Wheel) -> None:
        span_ns, tick_ns = wheel.abilities.span_ns or 0, wheel.abilities.tick_ns
        slots = -(-operation.delay_us * 1_000 // tick_ns) + 1
        super().__init__(
            f"operation {number} of the trace sets {operation.key!r} to {operation.delay_us / 1e6:g} s, "
            f"and the span is {span_ns / 1e9:g} s: at this tick it takes slots={slots}"
        )


@dataclass(slots=True)
class ReplayCounts:
    """
    Counters of a replayed trace.

    *set* counts new timers, and *move* counts changes of a pending timer's deadline. *late_cancel* counts removals of
    timers that had fired or did not exist. *fired_within_span* counts timers due by the time of the last operation.
    """

    set: int = 0
    move: int = 0
    cancel: int = 0
    late_cancel: int = 0
    fire: int = 0
    fired_within_span: int = 0
    peak_pending: int = 0


class Replay:
    """
    A run of one trace on one wheel. *wake_ups* counts the driver's wake-ups; *late_max_ns* is the maximum lateness.
    """

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self.counts = ReplayCounts()
        self.wake_ups = 0
        self.late_max_ns = 0
        self._ids: dict[str, int] = {}
        # Due timers that still wait for the end of their tick. By the trace's clock, they have fired.
        self._overdue: set[int] = set()
        self._deadlines: list[tuple[int, int]] = []

    def apply(self, operation: TraceOperation) -> None:
        now = operation.t_us * 1_000
        self._fire_until(now)
        entry = self._pending(operation.key, now)
        if operation.op == "S":
            self._set(entry, operation.key, now + operation.delay_us * 1_000)
        elif entry is None:
            self.counts.late_cancel += 1
        else:
            assert self.wheel.cancel(entry), "what has a deadline can be cancelled"
            del self._ids[operation.key]
            self.counts.cancel += 1
        self.counts.peak_pending = max(self.counts.peak_pending, len(self.wheel) - len(self._overdue))

    def finish(self) -> ReplayCounts:
        self.counts.fired_within_span = self.counts.fire + len(self._overdue)
        while (due_at := self.wheel.next_expiration()) is not None:
            self._fire(due_at)
        return self.counts

    def _set(self, entry: int | None, key: str, deadline: int) -> None:
        if entry is None:
            entry = self._ids[key] = self.wheel.insert(deadline, key)
            self.counts.set += 1
        else:
            assert self.wheel.reschedule(entry, deadline), "what has a deadline can be moved"
            self.counts.move += 1
        if self.wheel.abilities.tick_ns:
            heapq.heappush(self._deadlines, (deadline, entry))

    def _pending(self, key: str, now: int) -> int | None:
        entry = self._ids.get(key)
        deadline = None if entry is None else self.wheel.deadline(entry)
        return entry if deadline is not None and deadline > now else None

    def _fire_until(self, now: int) -> None:
        while (due_at := self.wheel.next_expiration()) is not None and due_at <= now:
            self._fire(due_at)
        self.wheel.advance(now)
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, entry = heapq.heappop(self._deadlines)
            if self.wheel.deadline(entry) == deadline:
                self._overdue.add(entry)

    def _fire(self, now: int) -> None:
        self.wake_ups += 1
        expired = self.wheel.advance(now)
        assert expired, "nobody is woken for nothing"
        for entry, deadline, key in expired:
            late = now - deadline
            assert late >= 0, "early"
            self.late_max_ns = max(self.late_max_ns, late)
            self._overdue.discard(entry)
            if self._ids.get(key) == entry:
                del self._ids[key]
        self.counts.fire += len(expired)


def replay(
    operations: Iterable[TraceOperation], wheel: Wheel, progress: Callable[[int], object] | None = None
) -> Replay:
    """
    Run *operations* on a new *wheel*. *progress* gets the number of operations done, at intervals and at the end.
    """
    run = Replay(wheel)
    number = 0
    for number, operation in enumerate(operations, start=1):
        try:
            run.apply(operation)
        except SpanExceededError as error:
            raise DoesNotFitError(number, operation, wheel) from error
        if progress is not None and number % 10_000 == 0:
            progress(number)
    run.finish()
    if progress is not None:
        progress(number)
    return run
