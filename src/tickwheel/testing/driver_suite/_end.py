from __future__ import annotations

import gc
import threading

from tickwheel.errors import ClosedError
from tickwheel.testing.driver_suite._base import DriverTests

__all__ = ["EndTests"]


class EndTests(DriverTests):
    def test_close(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            await self.settle(wheel)
            timer = wheel.call_later(3_600, print, "far")
            (pending,) = wheel.close()
            assert (pending.callback, pending.args, pending.deadline) == (print, ("far",), timer.when())
            assert 0 < pending.remaining <= 3_600
            assert wheel.join(5.0)
            assert wheel.close() == wheel.drain() == []
            assert (timer.cancel(), timer.cancelled(), wheel.closed()) == (False, True, True)
            refused = False
            try:
                wheel.call_later(0, print)
            except ClosedError:
                refused = True
            assert refused

        self.play(scenario())

    def test_close_before_use(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            assert wheel.close() == []
            assert wheel.join(5.0)

        self.play(scenario())

    def test_a_with_block(self) -> None:
        async def scenario() -> None:
            with self.make_wheel() as wheel:
                wheel.call_later(3_600, print)
            assert wheel.closed()
            async with self.make_wheel() as other:
                await self.settle(other)
            assert other.closed()
            wheel = self.make_wheel()
            is_through = False
            try:
                with wheel:
                    wheel.call_later(float("nan"), print)
            except ValueError:
                is_through = True
            assert is_through
            assert wheel.closed()

        self.play(scenario())

    def test_drain(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            await self.settle(wheel)
            wheel.call_later(3_600, print, 2)
            wheel.call_later(60, print, 1)
            assert [each.args for each in wheel.drain()] == [(1,), (2,)]
            await self.settle(wheel)
            wheel.close()

        self.play(scenario())

    def test_let_go(self) -> None:
        async def scenario() -> None:
            signal = threading.Event()
            self.make_wheel().call_later(0.005, signal.set)
            gc.collect()
            await self.until(signal)

        self.play(scenario())

    def test_a_kept_method(self) -> None:
        async def scenario() -> None:
            call_later = self.make_wheel().call_later
            gc.collect()
            for _ in range(3):
                signal = threading.Event()
                call_later(0.001, signal.set)
                await self.until(signal)

        self.play(scenario())

    def test_counts(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            for _ in range(3):
                await self.settle(wheel)
            wheel.call_later(5, print).cancel()
            stats = wheel.stats()
            assert (stats["sets"], stats["fires"], stats["cancels"], stats["pending"]) == (4, 3, 1, 0)
            assert stats["wakeups"] >= 0
            assert sum(stats["lateness"]) == 3
            wheel.close()

        self.play(scenario())
