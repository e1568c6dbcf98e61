"""
Timers without handles, for `WheelEngine`: `call_later_many` sets them and returns their integer ids.
"""

from __future__ import annotations

import operator
import weakref
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import count
from typing import Any, SupportsIndex, cast

from tickwheel._core import delays_ns, integers, is_one
from tickwheel.clock import NEVER, to_deadline, to_delay
from tickwheel.errors import SpanExceededError
from tickwheel.timers._coroutines import check_callback
from tickwheel.timers._timer import WheelTimer
from tickwheel.typing import NonCopyable, Seconds
from tickwheel.wheels.contract import Wheel

__all__ = ["BulkTimer", "BulkVerbs"]


class BulkTimer(WheelTimer):
    __slots__ = ()

    def arguments(self) -> tuple[Any, ...]:
        return (array("q", self.words),)


class BulkVerbs(ABC, NonCopyable):
    on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None

    def __init__(self, wheel: Wheel) -> None:
        self.span_ns = wheel.abilities.span_ns
        self._ids = count(2**32)  # like the native ids, unlikely to equal a user's key
        self._by_id: weakref.WeakValueDictionary[int, BulkTimer] = weakref.WeakValueDictionary()

    @abstractmethod
    def deadlines_in(self, delays_ns: Iterable[int]) -> list[int]: ...

    @abstractmethod
    def loosened(self, deadline: int, slack_ns: int) -> int: ...

    @abstractmethod
    def set_all(self, timers: Sequence[WheelTimer]) -> None: ...

    @abstractmethod
    def move(self, timer: WheelTimer, deadline: int) -> bool: ...

    def call_later_many(
        self, delays: Iterable[Seconds], callback: Callable[[array[int]], object], /, *, slack: Seconds = 0.0
    ) -> array[int]:
        check_callback(callback, is_awaited=self.on_coroutine is not None)
        slack_ns, delays_read = to_deadline(slack, "slack"), delays_ns(delays)
        deadlines = [self.loosened(deadline, slack_ns) for deadline in self.deadlines_in(delays_read)]
        ids = array("q", (next(self._ids) for _ in deadlines))
        pairs = zip(ids, deadlines, strict=True)
        timers = [BulkTimer(self, deadline, callback, (number,), None) for number, deadline in pairs]
        self.set_all(timers)
        self._by_id.update(zip(ids, timers, strict=True))
        return ids

    def has_id(self, id: SupportsIndex, /) -> bool:
        timer = self._by_id.get(_id(id))
        return timer is not None and timer.pending()

    def cancel_many(self, timers: Iterable[Any], /) -> int:
        return sum(timer.cancel() for timer in self._named(timers) if timer is not None)

    def move_many(self, timers: Iterable[Any], delays: Seconds | Iterable[Seconds], /) -> int:
        named = self._named(timers)
        each = [to_delay(cast("Seconds", delays))] * len(named) if is_one(delays) else delays_ns(cast("Any", delays))
        if len(each) != len(named):
            message = f"{len(each)} delays for {len(named)} timers: pass one delay, or one for each"
            raise ValueError(message)
        deadlines = self.deadlines_in(each)
        for timer, delay in zip(named, each, strict=True):
            if timer is not None:
                timer.engine.check_span(delay)
        pairs = zip(named, deadlines, strict=True)
        return sum(timer.engine.move(timer, deadline) for timer, deadline in pairs if timer is not None)

    def check_span(self, delay_ns: int) -> None:
        if self.span_ns is not None and self.span_ns < delay_ns < NEVER:
            raise SpanExceededError(delay_ns, self.span_ns)

    def _named(self, names: Iterable[Any]) -> list[WheelTimer | None]:
        read = integers(names)
        if read is not None:
            return [self._by_id.get(number) for number in read]
        return [name if isinstance(name, WheelTimer) else self._by_id.get(_id(name)) for name in names]


def _id(name: Any) -> int:
    try:
        return operator.index(name)
    except TypeError:
        message = f"{name!r} is not a timer: pass handles, or the ids of call_later_many"
        raise TypeError(message) from None
