from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import TYPE_CHECKING, Any

from tickwheel.testing.wheel_suite._base import WheelTests
from tickwheel.wheels.contract import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tickwheel.wheels.contract import Wheel

__all__ = ["MemoryTests"]

ROUNDS = 2_000
"""Number of rounds: enough to show a leak of one word per round."""


class Payload: ...


class LastWord:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call()


class Opaque:
    def refuse(self, *_: object) -> Any:
        message = "a wheel looked at a payload"
        raise AssertionError(message)

    __bool__ = __eq__ = __hash__ = __len__ = __lt__ = refuse


class MemoryTests(WheelTests):
    def test_released_on_cancel(self) -> None:
        wheel, ruler = self.checked()
        for deadline in (0, ruler.at(1), ruler.at(7), NEVER):
            payload = Payload()
            watched = weakref.ref(payload)
            entry = wheel.insert(deadline, payload)
            del payload
            assert watched() is not None
            wheel.reschedule(entry, ruler.at(4))
            wheel.reschedule(entry, deadline)
            assert watched() is not None
            wheel.cancel(entry)
            assert watched() is None

    def test_released_on_expiry(self) -> None:
        wheel, ruler = self.checked()
        watched = [self._watched(wheel.insert, ruler.at(tick)) for tick in (1, 2, 2, 3)]
        expired = wheel.advance(ruler.at(2), 2)
        assert [watch() is None for watch in watched] == [False] * 4
        del expired
        assert [watch() is None for watch in watched] == [True, True, False, False]
        wheel.advance(ruler.at(3))
        assert [watch() is None for watch in watched] == [True] * 4

    def test_released_on_drain(self) -> None:
        wheel, ruler = self.checked()
        watched = [self._watched(wheel.insert, deadline) for deadline in (0, 1, ruler.at(3), ruler.at(7), NEVER)]
        wheel.advance(ruler.at(1), 1)
        drained = wheel.drain()
        assert [watch() is None for watch in watched] == [True] + [False] * 4
        del drained
        assert [watch() is None for watch in watched] == [True] * 5

    def test_released_with_the_wheel(self) -> None:
        checked, ruler = self.checked()
        watched = [self._watched(checked.insert, deadline) for deadline in (0, ruler.at(3), NEVER)]
        checked.advance(ruler.at(1), 0)
        del checked
        gc.collect()
        assert [watch() is None for watch in watched] == [True] * 3

    def test_a_finaliser_may_call_the_wheel(self) -> None:
        wheel, ruler = self.checked()
        seen: list[tuple[int, bool]] = []
        ids: list[int] = []

        def last_word() -> None:
            wheel.wheel.check()
            seen.append((len(wheel), wheel.cancel(ids[0])))
            wheel.insert(ruler.at(6), "from a finaliser")

        ids.append(wheel.insert(ruler.at(2), LastWord(last_word)))
        assert wheel.cancel(ids[0])
        assert seen == [(0, False)]
        ids[0] = wheel.insert(ruler.at(2), LastWord(last_word))
        wheel.advance(ruler.at(2))
        assert seen[1:] == [(1, False)]
        ids[0] = wheel.insert(ruler.at(4), LastWord(last_word))
        wheel.drain()
        assert seen[2:] == [(0, False)]
        assert len(wheel.advance(ruler.at(6))) == 1

    def test_payloads_are_not_looked_at(self) -> None:
        wheel, ruler = self.checked()
        given = [Opaque() for _ in range(6)]
        ids = [wheel.insert(ruler.at(tick), payload) for tick, payload in zip((2, 2, 2, 3, 3, 5), given, strict=True)]
        wheel.reschedule(ids[0], ruler.at(2))
        wheel.reschedule(ids[3], ruler.at(5))
        wheel.cancel(ids[1])
        expired = [*wheel.advance(ruler.at(2), 1), *wheel.advance(ruler.at(4)), *wheel.drain()]
        expected = [given[number] for number in (2, 0, 4, 5, 3)]
        assert [entry.payload is payload for entry, payload in zip(expired, expected, strict=True)] == [True] * 5

    def test_cancels_and_moves_leave_nothing_behind(self) -> None:
        wheel, ruler = self.checked()
        kept = wheel.insert(ruler.at(7))
        self._cancel_and_move(wheel.wheel, ruler.at(7), kept)  # a first run, for one-time allocations
        traces = not tracemalloc.is_tracing()
        if traces:
            tracemalloc.start()
        try:
            grown = min(self._grown(wheel.wheel, ruler.at(7), kept) for _ in range(3))  # other threads also allocate
        finally:
            if traces:
                tracemalloc.stop()
        assert grown < 8 * ROUNDS, f"{ROUNDS} cancels and as many moves left {grown} bytes"

    def _grown(self, wheel: Wheel, deadline: int, kept: int) -> int:
        before = tracemalloc.get_traced_memory()[0]
        self._cancel_and_move(wheel, deadline, kept)
        return tracemalloc.get_traced_memory()[0] - before

    @staticmethod
    def _cancel_and_move(wheel: Wheel, deadline: int, kept: int) -> None:
        for _ in range(ROUNDS):
            assert wheel.cancel(wheel.insert(deadline, None))
            assert wheel.reschedule(kept, deadline)

    @staticmethod
    def _watched(insert: Callable[[int, Payload], int], deadline: int) -> weakref.ref[Payload]:
        payload = Payload()
        insert(deadline, payload)
        return weakref.ref(payload)
