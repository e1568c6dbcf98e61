from __future__ import annotations

import math
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tickwheel.clock import NEVER, seconds, to_deadline
from tickwheel.timers.proxy import given
from tickwheel.typing import Callback, NonCopyable, Pending, Seconds

if TYPE_CHECKING:
    from tickwheel.timers.engine import WheelEngine

__all__ = ["WheelTimer"]


class WheelTimer(NonCopyable):
    """
    A timer of a `WheelEngine`. The `DueTimer` protocol documents its methods.

    The engine owns the attributes, and changes them under its lock. Only the engine knows whether the timer is pending.

    Attributes:
        call: The callback; None after the timer's end.
        context: The context of the callback; None for the context of the firing thread.
        entry: The id of the timer's entry in the wheel; stale once the entry has left the wheel.
        is_due: True after the timer was taken from the wheel, until it is called.
        running: Number of calls that are running.
        has_fired: True if the timer fired after it was last set or moved.
    """

    __slots__ = (
        "__weakref__",
        "call",
        "context",
        "deadline",
        "engine",
        "entry",
        "has_fired",
        "is_due",
        "running",
        "words",
    )

    def __init__(
        self, engine: Any, deadline: int, callback: Callback, args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.engine: WheelEngine = engine
        self.deadline = deadline
        self.call: Callback | None = callback
        self.words = args
        self.context = context
        self.entry = 0
        self.is_due = False
        self.running = 0
        self.has_fired = False

    def __repr__(self) -> str:
        state = "pending" if self.pending() else "cancelled" if self.cancelled() else "fired"
        what = "" if self.callback is None else f" {self.callback!r}"
        return f"<Timer {state} when={self.when()}{what}>"

    @property
    def callback(self) -> Callback | None:
        return given(self.call, self.words)[0]

    @property
    def args(self) -> tuple[Any, ...]:
        return given(self.call, self.words)[1]

    def cancel(self) -> bool:
        return self.engine.cancel(self)

    def cancelled(self) -> bool:
        return not self.has_fired and not self.engine.has(self)

    def pending(self) -> bool:
        return self.engine.has(self)

    def when(self) -> float:
        return seconds(self.deadline)

    def reschedule(self, when: Seconds) -> bool:
        return self.engine.move(self, to_deadline(when))

    def restart(self, delay: Seconds) -> bool:
        return self.engine.move(self, self.engine.deadline_in(delay))

    def described(self, now: int, handle: WheelTimer | None = None) -> Pending:
        remaining = math.inf if self.deadline == NEVER else (self.deadline - now) / 1e9
        return Pending(self.call, self.words, self.when(), remaining, handle)

    def arguments(self) -> tuple[Any, ...]:
        return self.words

    def run(self) -> Any:
        return self.engine.run(self)
