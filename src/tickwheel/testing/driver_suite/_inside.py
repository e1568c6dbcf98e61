from __future__ import annotations

import threading

from tickwheel.errors import ClosedError, ReentrantError
from tickwheel.testing.driver_suite._base import DriverTests
from tickwheel.timers.contract import Timer
from tickwheel.typing import Pending

__all__ = ["InsideTests"]


class InsideTests(DriverTests):
    def test_a_chain(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            left = 50

            def step() -> None:
                nonlocal left
                left -= 1
                if left:
                    wheel.call_later(left % 2 / 10_000, step)
                else:
                    signal.set()

            wheel.call_later(0, step)
            await self.until(signal)
            wheel.close()

        self.play(scenario())

    def test_restarted_inside(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            count = 0

            def again() -> None:
                nonlocal count
                count += 1
                if count < 20:
                    timers[0].restart(0.0001)
                else:
                    signal.set()

            timers: list[Timer] = []
            self.inside(wheel, lambda: timers.append(wheel.call_later(0.001, again)))
            await self.until(signal)
            await self.settle(wheel)
            assert count == 20
            assert not timers[0].pending()
            wheel.close()

        self.play(scenario())

    def test_errors_are_told(self) -> None:
        async def scenario() -> None:
            raised: list[object] = []
            wheel = self.make_wheel(on_error=lambda error, timer: raised.append((type(error), timer)))
            failing: list[Timer] = []
            signal = threading.Event()

            def act() -> None:
                when = wheel.time()
                failing.extend(wheel.call_at(when, lambda: 1 // 0) for _ in range(2))
                wheel.call_at(when, signal.set)

            self.inside(wheel, act)
            await self.until(signal)
            await self.settle(wheel)
            assert raised == [(ZeroDivisionError, timer) for timer in failing]
            wheel.close()

        self.play(scenario())

    def test_no_turn_inside(self) -> None:
        async def scenario() -> None:
            raised: list[BaseException] = []
            wheel = self.make_wheel(on_error=lambda error, _: raised.append(error))
            wheel.call_later(0, wheel.fire_due)
            await self.settle(wheel)
            (error,) = raised
            assert isinstance(error, RuntimeError)
            assert isinstance(error, ReentrantError) or "automatically" in str(error)
            wheel.close()

        self.play(scenario())

    def test_closed_inside(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            answers: list[object] = []

            def close() -> None:
                answers.append([each.args for each in wheel.close()])
                try:
                    wheel.call_later(0, answers.append, "late")
                except ClosedError:
                    answers.append("closed")
                signal.set()

            def act() -> None:
                when = wheel.time()
                wheel.call_at(when, close)
                wheel.call_at(when, answers.append, "sibling")

            self.inside(wheel, act)
            await self.until(signal)
            wheel.join()
            assert answers == [[("sibling",)], "closed"]
            assert wheel.closed()

        self.play(scenario())

    def test_drained_inside(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            drained: list[Pending] = []

            def drain() -> None:
                drained.extend(wheel.drain())
                signal.set()

            def act() -> None:
                when = wheel.time()
                wheel.call_at(when, drain)
                wheel.call_at(when, print, "sibling")
                wheel.call_later(3_600, print, "far")

            self.inside(wheel, act)
            await self.until(signal)
            assert [each.args for each in drained] == [("sibling",), ("far",)]
            await self.settle(wheel)
            wheel.close()

        self.play(scenario())
