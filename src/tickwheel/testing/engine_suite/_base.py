from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tickwheel.clock import seconds
from tickwheel.testing.manual_clock import ManualClock
from tickwheel.timers.contract import Engine, Timer

__all__ = ["EngineTests", "Rig", "refused"]


class Rig:
    """
    An engine, its clock, and a log.

    Times are nanoseconds after the start. The engine is not attached to the clock, because a test calls the engine
    itself. *errors* has the exception and the timer of each call of `on_error`, and *notes* the values that callbacks
    recorded.
    """

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.start = clock.monotonic_ns()
        self.log: list[str] = []
        self.errors: list[tuple[BaseException, Timer]] = []
        self.timers: dict[str, Timer] = {}
        self.notes: list[object] = []
        engine.on_error = lambda error, timer: self.errors.append((error, timer))

    def when(self, at: int) -> float:
        return seconds(self.start + at)

    def set(self, label: str, at: int, then: Callable[[], object] | None = None) -> Timer:
        self.timers[label] = timer = self.engine.call_at(self.when(at), self._fired, label, then)
        return timer

    def turn(self, at: int | None = None, limit: int | None = None) -> list[str]:
        if at is not None:
            self.clock.jump(seconds(self.start + at - self.clock.monotonic_ns()))
        before = len(self.log)
        fired = self.engine.fire_due(limit)
        self.engine.check()
        assert fired == len(self.log) - before, "it returns how many it called"
        return self.log[before:]

    def note(self, *notes: object) -> None:
        self.notes.extend(notes)

    def _fired(self, label: str, then: Callable[[], object] | None) -> None:
        assert self.clock.monotonic() >= self.timers[label].when() or self.timers[label].pending(), f"{label} is early"
        self.log.append(label)
        if then is not None:
            then()


class EngineTests:
    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> Engine:
        """
        Return a new engine on *clock*.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    def rig(self, start_ns: int | None = None, max_pending: int | None = None) -> Rig:
        """
        Return a rig with a new engine.
        """
        clock = ManualClock(start_ns)
        return Rig(self.make_engine(clock, max_pending), clock)


@contextmanager
def refused(error: type[BaseException], text: str = "") -> Iterator[None]:
    message = None
    try:
        yield
    except error as refusal:
        message = str(refusal)
    assert message is not None, f"no {error.__name__} was raised"
    assert text in message, f"the message does not say {text!r}: {message}"
