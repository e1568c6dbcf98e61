"""
Timers that belong to a context, and the timer that ends one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tickwheel.errors import ContextCancelledError, DeadlineExceededError
from tickwheel.timers._ending import Ending
from tickwheel.timers.contract import Timer
from tickwheel.timers.standin import StandIn
from tickwheel.typing import Callback, Seconds

__all__ = ["BoundCallback", "DeadlineCallback"]


class BoundCallback(StandIn):
    """
    The callback of a timer that ends with a context.

    It leaves the context when the engine drops it: at the timer's end, whichever that is. Only the engine holds it. So
    it has nothing to do where it has ended, or was refused.
    """

    def __init__(self, ending: Ending, callback: Callback, args: tuple[Any, ...]) -> None:
        self._ending = ending
        self._callback = callback
        self._args = args
        self._forget: Callable[[], object] = bool

    def __del__(self) -> None:
        self._forget()  # which takes no lock: this is called wherever memory is freed

    def start(self, verb: Callable[[Seconds, Callback], Timer], time: Seconds) -> Timer:
        """
        Set the timer by *verb*, and bind it.
        """
        timer = verb(time, self)
        self._forget = self._ending.then(lambda _: timer.cancel())
        return timer

    def __call__(self) -> object:
        if self._ending.reason is not None:  # it came before the timer was bound, or while this waited in a pool
            return None
        return self._callback(*self._args)

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        """
        Return the user's callback with its arguments.
        """
        return self._callback, self._args


class DeadlineCallback(StandIn):
    """
    The callback of a timer that ends a context.
    """

    def __init__(self, ending: Ending, deadline: float) -> None:
        self._ending = ending
        self._deadline = deadline

    def __call__(self) -> None:
        self._ending.come((DeadlineExceededError, self._deadline))

    def __repr__(self) -> str:
        return f"<the deadline {self._deadline} of a context>"

    def ended(self) -> None:
        """
        Cancel the context: without its wheel the deadline would never come.
        """
        self._ending.come((ContextCancelledError, "its wheel was drained or closed"))

    def refused(self) -> None:
        """
        End the context here and now: a full pool does not lift a deadline.
        """
        self()
