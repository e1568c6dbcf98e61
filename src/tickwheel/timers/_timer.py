"""
The handle that `WheelEngine` gives out.
"""

from __future__ import annotations

import math
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tickwheel.clock import NEVER, seconds, to_deadline
from tickwheel.timers.standin import given
from tickwheel.typing import Callback, Pending, Seconds, Unique

if TYPE_CHECKING:
    from tickwheel.timers.engine import WheelEngine

__all__ = ["WheelTimer"]


class WheelTimer(Unique):
    """
    One timer of a `WheelEngine`; its methods are those of the `DueTimer` protocol.

    The attributes belong to the engine, which changes them under its lock.
    Whether the timer is pending is not among them: the engine knows.

    Attributes:
        engine: Whose timer it is.
        deadline: In nanoseconds of the engine's clock.
        call: What to call; None once it never will be again.
        words: With which arguments.
        context: In which context, or None for that of the thread that fires.
        entry: The id of its entry in the wheel, stale once the entry has left.
        is_due: Whether it was taken to be fired and is not yet called.
        running: How many calls of it are under way.
        has_fired: Whether its latest life ended by firing.
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
        """
        Return what it calls, as the user gave it; None once it never will again.
        """
        return given(self.call, self.words)[0]

    @property
    def args(self) -> tuple[Any, ...]:
        """
        With which arguments; none once it never will again.
        """
        return given(self.call, self.words)[1]

    def cancel(self) -> bool:
        """
        End this timer; return True if it will never run because of this call.
        """
        return self.engine.cancel(self)

    def cancelled(self) -> bool:
        """
        Return whether the timer was cancelled.
        """
        return not self.has_fired and not self.engine.has(self)

    def pending(self) -> bool:
        """
        Return whether the timer is still going to fire.
        """
        return self.engine.has(self)

    def when(self) -> float:
        """
        Return the deadline in seconds of the engine's clock.
        """
        return seconds(self.deadline)

    def reschedule(self, when: Seconds) -> bool:
        """
        Move this timer to a new deadline; return whether it is now going to fire then.
        """
        return self.engine.move(self, to_deadline(when))

    def restart(self, delay: Seconds) -> bool:
        """
        Move this timer to *delay* seconds from now; return whether it is now going to fire then.
        """
        return self.engine.move(self, self.engine.deadline_in(delay))

    def described(self, now: int, handle: WheelTimer | None = None) -> Pending:
        """
        Return what there is to say of this timer at the time *now*.
        """
        remaining = math.inf if self.deadline == NEVER else (self.deadline - now) / 1e9
        return Pending(self.call, self.words, self.when(), remaining, handle)

    def arguments(self) -> tuple[Any, ...]:
        """
        Return what the callback is called with.
        """
        return self.words

    def run(self) -> Any:
        """
        Call the callback, if the timer is due and was not called, cancelled or moved since; return what it returns.
        """
        return self.engine.run(self)
