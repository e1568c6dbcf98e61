from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import ref

from tickwheel.errors import ContextCancelledError, DeadlineExceededError, TickwheelError
from tickwheel.timers.contract import Timer
from tickwheel.timers.locks import OUTER, new_lock
from tickwheel.timers.log import logger
from tickwheel.timers.proxy import TimerProxy
from tickwheel.typing import Callback, Seconds

__all__ = ["BoundCallback", "DeadlineCallback", "Ending"]

Reason: TypeAlias = tuple[type[TickwheelError], Any]
"""An error class and its argument. Each caller gets a new error, because a raised error keeps frames alive."""


class Ending:
    """
    Records that one context has ended, and calls the registered callbacks.

    All methods may be called from any thread, and no callback runs under the lock. A context refers strongly to its
    ancestors, but weakly to its descendants.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._above: Ending | None = None
        self._calls: dict[object, ref[Ending] | Callable[[Reason], object]] = {}
        self._kept: dict[object, Ending] = {}  # shared by related contexts; keeps those with callbacks alive
        self._ways: list[Ending] | None = None  # the stack of contexts still to be ended; set when this context ends
        self._left: deque[tuple[object, ref[Ending] | Callable[[Reason], object]]] = deque()
        self._lock = new_lock(OUTER)

    @property
    def waiting(self) -> int:
        return len(self._calls)

    def then(self, call: Callable[[Reason], object]) -> Callable[[], object]:
        """
        Call *call* with the reason when the context ends, or now if it has ended. Return a function to unregister it.
        """
        name = object()
        with self._lock:
            if self.reason is None:
                self._calls[name] = call
                self._kept[name] = self
                return lambda: self._forget(name)
        call(self.reason)
        return bool

    def follow(self, above: Ending) -> None:
        below = ref(self, above._forget)  # `_forget` may run at any allocation, so it takes no lock
        with above._lock:
            if above.reason is None:
                above._calls[below] = below
                self._above = above
                self._kept = above._kept
                return
        self.come(above.reason)

    def come(self, reason: Reason) -> bool:
        """
        End the context for *reason*, and run its callbacks in order of registration. Return False if it had ended.

        An `Exception` of a callback is logged. Of other exceptions, the first is raised after all callbacks have run.
        """
        if self.reason is not None:
            return False
        kept = self._kept  # keeps descendants alive until their callbacks were called
        ways = [self]
        failures: list[BaseException] = []
        try:
            _end_all(ways, reason, kept, failures)
        except BaseException:  # a signal handler has raised between two lines
            _end_all(ways, reason, kept, failures)
            raise
        if failures:
            raise failures[0]
        return self._ways is ways

    def _end(self, reason: Reason, ways: list[Ending]) -> bool:
        with self._lock:
            if self.reason is None:
                # One line, so that an exception of a signal handler comes either before or after all assignments.
                self.reason, self._ways, self._left, self._calls = reason, ways, deque(self._calls.items()), {}
                self._kept = {}
        above = self._above
        if above is not None:
            above._forget(ref(self))  # noqa: SLF001  the reverse of `follow`
            self._above = None
        return self._ways is ways

    def _forget(self, name: object) -> None:
        self._kept.pop(name, None)
        self._calls.pop(name, None)


def _end_all(ways: list[Ending], reason: Reason, kept: dict[object, Ending], failures: list[BaseException]) -> None:
    """
    End the contexts on the stack *ways*, and their descendants. An interrupted call can be repeated.
    """
    while ways:
        ending = ways[-1]
        if not (ending._end(reason, ways) and ending._left):  # noqa: SLF001  same class
            ways.pop()
            continue
        left = ending._left  # noqa: SLF001  same class
        name, call = left[0]
        if isinstance(call, ref):
            below = call()
            if below is not None:
                ways.append(below)
            left.popleft()
            continue
        left.popleft()
        kept.pop(name, None)
        try:
            call(reason)
        except Exception:  # noqa: BLE001  the other callbacks must also be called
            logger().exception("what a context was to call at its end raised: %r", call)
        except BaseException as failure:  # noqa: BLE001  as above
            failures.append(failure)


class BoundCallback(TimerProxy):
    """
    The callback of a timer that is cancelled when its context ends.

    Only the engine holds this object. When the engine releases it, a finalizer unregisters the callback from the
    context.
    """

    _forget: Callable[[], object] = bool

    def __init__(self, ending: Ending, callback: Callback, args: tuple[Any, ...]) -> None:
        self._ending = ending
        self._callback = callback
        self._args = args

    def __del__(self) -> None:
        self._forget()  # takes no lock, because a finalizer may run at any time

    def start(self, verb: Callable[[Seconds, Callback], Timer], time: Seconds) -> Timer:
        timer = verb(time, self)
        self._forget = self._ending.then(lambda _: timer.cancel())
        return timer

    def __call__(self) -> object:
        if self._ending.reason is not None:  # ended before the timer was bound, or while this call waited in a pool
            return None
        return self._callback(*self._args)

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        return self._callback, self._args


class DeadlineCallback(TimerProxy):
    def __init__(self, ending: Ending, deadline: float) -> None:
        self._ending = ending
        self._deadline = deadline

    def __call__(self) -> None:
        self._ending.come((DeadlineExceededError, self._deadline))

    def __repr__(self) -> str:
        return f"<the deadline {self._deadline} of a context>"

    def ended(self) -> None:
        # the deadline can never pass without the wheel
        self._ending.come((ContextCancelledError, "its wheel was drained or closed"))

    def refused(self) -> None:
        # in this thread, so that a full pool does not delay the deadline
        self()

    def failed(self) -> None:
        self()
