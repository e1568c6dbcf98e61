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
    """

    def __init__(self, ending: Ending, callback: Callback, args: tuple[Any, ...]) -> None:
        self._ending = ending
        self._callback = callback
        self._args = args
        self._timer: Timer | None = None
        self._forget: Callable[[], object] = bool

    def start(self, verb: Callable[[Seconds, Callback], Timer], time: Seconds) -> Timer:
        """
        Set the timer by *verb*, and bind it, if it has not fired by then.
        """
        timer = self._timer = verb(time, self)
        self._forget = self._ending.then(lambda _: timer.cancel())
        self._forget_if_over()
        return timer

    def __call__(self) -> object:
        try:
            return self._callback(*self._args)
        finally:
            self._forget_if_over()

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        """
        Return the user's callback with its arguments.
        """
        return self._callback, self._args

    def ended(self) -> None:
        """
        Leave the context.
        """
        self._forget()

    def refused(self) -> None:
        """
        Leave the context.
        """
        self._forget()

    def _forget_if_over(self) -> None:
        if self._timer is not None and not self._timer.pending():  # a callback may have restarted it
            self._forget()


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

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        """
        Return this itself.
        """
        return self, ()

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
