from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tickwheel.wheels.contract import Expired, Wheel

__all__ = ["START", "CheckedWheel", "Ruler", "WheelTests", "payloads", "refused"]

START = 1_000_000_123_456_789
"""Start time of a test, in nanoseconds: about 11.5 days, and not at the edge of a level."""


class CheckedWheel:
    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self.abilities = wheel.abilities

    def insert(self, deadline: int, payload: Any = None) -> int:
        id = self.wheel.insert(deadline, payload)  # noqa: A001 the protocol's word
        self.wheel.check()
        return id

    def cancel(self, id: int) -> bool:
        was_pending = self.wheel.cancel(id)
        self.wheel.check()
        return was_pending

    def reschedule(self, id: int, deadline: int) -> bool:
        was_pending = self.wheel.reschedule(id, deadline)
        self.wheel.check()
        return was_pending

    def deadline(self, id: int) -> int | None:
        return self.wheel.deadline(id)

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        said = self.wheel.next_expiration()
        expired = self.wheel.advance(now, limit)
        self.wheel.check()
        assert bool(expired) == (said is not None and said <= now and limit != 0), (said, now, limit, expired)
        assert all(entry.deadline <= now for entry in expired), "early"
        return expired

    def next_expiration(self) -> int | None:
        """
        Return the next expiration, and check that the call changes nothing.
        """
        answer = self.wheel.next_expiration()
        self.wheel.check()
        assert self.wheel.next_expiration() == answer
        return answer

    def drain(self) -> list[Expired]:
        drained = self.wheel.drain()
        self.wheel.check()
        return drained

    def stats(self) -> dict[str, Any]:
        return self.wheel.stats()

    def __len__(self) -> int:
        return len(self.wheel)


class Ruler:
    """
    Converts ticks since the start to deadlines. A tick is a microsecond if the wheel has no ticks.
    """

    def __init__(self, wheel: CheckedWheel, start: int = START) -> None:
        self.abilities = wheel.abilities
        self.unit = wheel.abilities.tick_ns or 1_000
        self.origin = start - start % self.unit

    def at(self, tick: int, offset_ns: int = 0) -> int:
        return self.origin + tick * self.unit + offset_ns

    def due_at(self, deadline: int) -> int:
        due_at = self.abilities.due_at(deadline)
        assert due_at is not None, "NEVER is not delivered"
        return due_at

    def in_order(self, deadlines: Iterable[int]) -> list[int]:
        """
        Return *deadlines*, given in order of insertion, in the order in which one `advance` delivers them.
        """
        return sorted(deadlines, key=None if self.abilities.exact_order else self.due_at)


class WheelTests:
    def make_wheel(self, start: int) -> Wheel:
        """
        Return a new wheel whose time is *start*, in nanoseconds.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    def checked(self, start: int = START) -> tuple[CheckedWheel, Ruler]:
        """
        Return a new wheel that is checked after each call, and a `Ruler` for it.
        """
        wheel = CheckedWheel(self.make_wheel(start))
        span_ns = wheel.abilities.span_ns
        assert span_ns is None or span_ns >= 8 * wheel.abilities.tick_ns, "the suite needs a span of eight ticks"
        return wheel, Ruler(wheel, start)


def payloads(expired: Iterable[Expired]) -> list[Any]:
    return [entry.payload for entry in expired]


@contextmanager
def refused(error: type[Exception], value: object) -> Iterator[None]:
    text = None
    try:
        yield
    except error as refusal:
        text = str(refusal)
    assert text is not None, f"{value!r} was accepted"
    assert repr(value) in text, f"the message does not name {value!r}: {text}"
