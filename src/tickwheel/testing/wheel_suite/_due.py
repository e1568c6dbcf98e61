from __future__ import annotations

import random

from tickwheel.testing.wheel_suite._base import WheelTests, payloads
from tickwheel.wheels.contract import NEVER, Expired

__all__ = ["DueTests"]


class DueTests(WheelTests):
    def test_nothing_before_and_all_at(self) -> None:
        for tick, offset_ns in [(1, 0), (1, 1), (2, -1), (2, 0), (5, 1), (7, 0)]:
            wheel, ruler = self.checked()
            deadline = ruler.at(tick, offset_ns)
            entry = wheel.insert(deadline, "tea")
            assert wheel.advance(ruler.due_at(deadline) - 1) == []
            assert wheel.advance(ruler.due_at(deadline)) == [Expired(entry, deadline, "tea")]
            assert wheel.advance(NEVER) == []

    def test_late_by_less_than_a_tick(self) -> None:
        _, ruler = self.checked()
        for offset_ns in (0, 1, ruler.unit // 2, ruler.unit - 1):
            deadline = ruler.at(3, offset_ns)
            assert 0 <= ruler.due_at(deadline) - deadline < max(ruler.abilities.tick_ns, 1)

    def test_found_long_after(self) -> None:
        wheel, ruler = self.checked()
        wheel.insert(ruler.at(3), "tea")
        assert payloads(wheel.advance(ruler.at(1_000_000, 17))) == ["tea"]

    def test_due_due_already(self) -> None:
        wheel, ruler = self.checked()
        now = ruler.at(4)
        wheel.advance(now)
        for deadline in (now, 0, ruler.at(1, 1), ruler.at(3, 1), 1):
            wheel.insert(deadline, deadline)
        assert payloads(wheel.advance(now)) == ruler.in_order([now, 0, ruler.at(1, 1), ruler.at(3, 1), 1])

    def test_set_in_the_tick_that_has_begun(self) -> None:
        wheel, ruler = self.checked()
        wheel.advance(ruler.at(4, 1))
        deadline = ruler.at(5, -1)
        wheel.insert(deadline)
        assert wheel.advance(ruler.at(4, 1)) == []
        assert len(wheel.advance(ruler.due_at(deadline))) == 1

    def test_one_nanosecond(self) -> None:
        wheel, ruler = self.checked()
        wheel.advance(ruler.at(4))
        wheel.insert(ruler.at(4, 1))
        assert wheel.advance(ruler.at(4)) == []
        assert len(wheel.advance(ruler.due_at(ruler.at(4, 1)))) == 1

    def test_order_across_ticks(self) -> None:
        wheel, ruler = self.checked()
        deadlines = [ruler.at(tick, offset_ns) for tick in range(1, 8) for offset_ns in (-1, 0, 1, ruler.unit // 3)]
        random.Random(7).shuffle(deadlines)
        for deadline in deadlines:
            wheel.insert(deadline, deadline)
        assert payloads(wheel.advance(ruler.at(9))) == ruler.in_order(deadlines)

    def test_slow_poll_keeps_order(self) -> None:
        """
        An advance over several ticks fires the earlier of two timers first, unlike the C library `timeouts`.
        """
        wheel, ruler = self.checked()
        now = ruler.at(0)
        for target in (66, 62, 128, 64, 63, 4_096):
            later = ruler.at(target)
            while later - now > ruler.unit * 8:
                now += ruler.unit * 8
                wheel.advance(now)
            wheel.insert(later - ruler.unit, "second")
            wheel.insert(later - 2 * ruler.unit, "first")
            now = max(now, later) + ruler.unit
            assert payloads(wheel.advance(now)) == ["first", "second"]

    def test_equal_deadlines_by_arrival(self) -> None:
        wheel, ruler = self.checked()
        deadline = ruler.at(8)
        for tick in range(8):
            wheel.advance(ruler.at(tick))
            for number in range(20):
                wheel.insert(deadline, (tick, number))
        assert payloads(wheel.advance(deadline)) == [(tick, number) for tick in range(8) for number in range(20)]

    def test_never(self) -> None:
        wheel, ruler = self.checked()
        first, second = wheel.insert(NEVER, "first"), wheel.insert(NEVER, "second")
        assert wheel.next_expiration() is None
        assert wheel.deadline(first) == NEVER
        assert wheel.advance(ruler.at(5)) == []
        assert wheel.advance(NEVER) == []
        assert wheel.cancel(first)
        assert wheel.reschedule(second, ruler.at(6))
        assert payloads(wheel.advance(NEVER)) == ["second"]

    def test_time_goes_back(self) -> None:
        wheel, ruler = self.checked()
        wheel.advance(ruler.at(5))
        for tick in (1, 2, 3, 6):
            wheel.insert(ruler.at(tick), tick)
        assert wheel.advance(0) == []
        assert wheel.advance(ruler.at(1, -1)) == []
        assert payloads(wheel.advance(ruler.at(1))) == [1]
        assert payloads(wheel.advance(ruler.at(2))) == [2]
        assert wheel.next_expiration() == ruler.at(3)
        assert payloads(wheel.advance(ruler.at(6))) == [3, 6]
