from __future__ import annotations

import random
import threading
from collections import Counter

from tickwheel.testing.driver_suite._base import PATIENCE_S, DriverTests

__all__ = ["FireTests"]


class FireTests(DriverTests):
    def test_a_timer_fires(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            got: list[object] = []

            def fire(*args: object) -> None:
                got.append(args)
                signal.set()

            timer = wheel.call_later(0.001, fire, 1, "two")
            await self.until(signal)
            await self.settle(wheel)
            assert got == [(1, "two")]
            assert (timer.pending(), timer.cancelled(), len(wheel)) == (False, False, 0)
            wheel.close()

        self.play(scenario())

    def test_none_is_early(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            fired: Counter[int] = Counter()
            early: list[float] = []

            def fire(number: int, when: float) -> None:
                now = wheel.time()
                if now < when:
                    early.append(when - now)
                fired[number] += 1
                if len(fired) == 500:
                    signal.set()

            for number in range(500):
                when = wheel.time() + random.random() * 0.02
                wheel.call_at(when, fire, number, when)
            await self.until(signal)
            await self.settle(wheel)
            assert early == []
            assert set(fired.values()) == {1}
            wheel.close()

        self.play(scenario())

    def test_none_is_early_by_the_wall_clock(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            left = [101]
            early: list[float] = []

            def now() -> float:
                return wheel.clock.wall_ns() / 1e9

            def fire(due: float) -> None:
                if now() < due:
                    early.append(due)
                left[0] -= 1
                if not left[0]:
                    signal.set()

            for _ in range(100):
                due = now() + random.random() * 0.02
                wheel.call_at_wall(due, fire, due)
            series = wheel.call_cron("* * * * * *", fire, now(), times=1)
            next_at = series.next_at()
            assert next_at is not None
            await self.until(signal)
            await self.settle(wheel)
            assert early == []
            assert now() >= next_at.timestamp()
            assert (series.fired, len(wheel)) == (1, 0)
            wheel.close()

        self.play(scenario())

    def test_in_order(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            order: list[int] = []

            def act() -> None:
                start = wheel.time()
                for number in random.sample(range(100), 100):
                    wheel.call_at(start + number // 10 * 1e-6, order.append, number // 10)
                wheel.call_at(start + 1e-3, signal.set)

            self.inside(wheel, act)
            await self.until(signal)
            assert order == sorted(order)
            assert len(order) == 100
            wheel.close()

        self.play(scenario())

    def test_an_earlier_one_is_not_kept_waiting(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            far = wheel.call_later(3_600, print)
            signals = [threading.Event(), threading.Event()]
            moved = wheel.call_later(3_600, signals[1].set)
            await self.settle(wheel)
            wheel.call_later(0.002, signals[0].set)
            await self.until(signals[0])
            assert moved.restart(0.002)
            await self.until(signals[1])
            assert far.pending()
            assert [each.callback for each in wheel.close()] == [print]

        self.play(scenario())

    def test_from_other_threads(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            wheel.call_later(3_600, print)
            await self.settle(wheel)
            fired: Counter[int] = Counter()

            def work(number: int) -> None:
                for step in range(200):
                    if step % 4:
                        wheel.call_later(step % 5 / 1_000, fired.update, [number])
                    else:
                        timer = wheel.call_later(3_600, fired.update, [number])
                        timer.restart(1_800)
                        timer.cancel()
                wheel.call_later(3_600, fired.update, [-1]).restart(0.006)

            workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(PATIENCE_S)
            wheel.call_later(0.01, signal.set)
            await self.until(signal)
            assert fired == {0: 150, 1: 150, 2: 150, 3: 150, -1: 4}
            assert len(wheel) == 1
            wheel.check()
            wheel.close()

        self.play(scenario())

    def test_again_after_idleness(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            for _ in range(5):
                await self.settle(wheel)
                assert len(wheel) == 0
                assert wheel.next_expiration() is None
            wheel.close()

        self.play(scenario())

    def test_never(self) -> None:
        async def scenario() -> None:
            wheel, signal = self.make_wheel(), threading.Event()
            timer = wheel.call_later(float("inf"), signal.set)
            await self.settle(wheel)
            assert timer.pending()
            assert timer.restart(0.001)
            await self.until(signal)
            wheel.close()

        self.play(scenario())

    def test_by_key(self) -> None:
        async def scenario() -> None:
            signal = threading.Event()
            expired: list[tuple[str, int]] = []
            wheel = self.make_wheel(on_expire=lambda key, value: expired.append((key, value)))
            for value in range(2):
                wheel.set("a", value, 3_600)
                wheel.set("b", value, 3_600)
            wheel.set("a", 2, 0.003)
            assert wheel.cancel("b")
            wheel.set("c", 0, 3_600)
            assert wheel.move("c", 0.002)
            wheel.call_later(0.02, signal.set)
            await self.until(signal)
            assert sorted(expired) == [("a", 2), ("c", 0)]
            wheel.close()

        self.play(scenario())
