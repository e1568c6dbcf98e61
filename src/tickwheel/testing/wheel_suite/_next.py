from __future__ import annotations

from tickwheel.testing.wheel_suite._base import WheelTests, payloads
from tickwheel.wheels.contract import NEVER

__all__ = ["NextTests"]


class NextTests(WheelTests):
    def test_empty(self) -> None:
        wheel, ruler = self.checked()
        assert wheel.next_expiration() is None
        wheel.insert(ruler.at(1))
        wheel.advance(ruler.at(1))
        assert wheel.next_expiration() is None
        wheel.cancel(wheel.insert(ruler.at(2)))
        assert wheel.next_expiration() is None
        wheel.insert(ruler.at(2))
        wheel.drain()
        assert wheel.next_expiration() is None

    def test_earliest(self) -> None:
        wheel, ruler = self.checked()
        deadlines = [ruler.at(tick, offset_ns) for tick, offset_ns in [(7, 0), (5, 1), (6, 0), (5, -1), (2, 1), (8, 0)]]
        for number, deadline in enumerate(deadlines, start=1):
            wheel.insert(deadline)
            assert wheel.next_expiration() == ruler.due_at(min(deadlines[:number]))
        for deadline in sorted(deadlines):
            assert wheel.next_expiration() == ruler.due_at(deadline)
            wheel.advance(ruler.due_at(deadline) - 1)
            assert wheel.next_expiration() == ruler.due_at(deadline)
            wheel.advance(ruler.due_at(deadline), 1)

    def test_next_due_already(self) -> None:
        wheel, ruler = self.checked()
        wheel.advance(ruler.at(5))
        wheel.insert(ruler.at(3))
        assert wheel.next_expiration() == ruler.at(3)
        wheel.insert(0)
        assert wheel.next_expiration() == 0

    def test_after_cancel_of_the_earliest(self) -> None:
        wheel, ruler = self.checked()
        ids = [wheel.insert(ruler.at(tick)) for tick in (2, 2, 3, 7)]
        for gone, left in [(0, 2), (1, 3), (2, 7)]:
            wheel.cancel(ids[gone])
            assert wheel.next_expiration() == ruler.at(left)

    def test_after_a_move_of_the_earliest(self) -> None:
        wheel, ruler = self.checked()
        moved = wheel.insert(ruler.at(2))
        wheel.insert(ruler.at(5))
        for to, first in [(3, 3), (7, 5), (8, 5), (4, 4), (1, 1)]:
            wheel.reschedule(moved, ruler.at(to))
            assert wheel.next_expiration() == ruler.at(first)
        wheel.reschedule(moved, NEVER)
        assert wheel.next_expiration() == ruler.at(5)

    def test_moved_over_and_over(self) -> None:
        wheel, ruler = self.checked()
        kept = wheel.insert(ruler.at(2))
        for tick in range(1, 200):
            wheel.reschedule(kept, ruler.at(tick + 2))
            assert wheel.advance(ruler.at(tick)) == []
            assert wheel.next_expiration() == ruler.at(tick + 2)
        assert len(wheel.advance(ruler.at(201))) == 1

    def test_following_it_delivers_everything(self) -> None:
        wheel, ruler = self.checked()
        deadlines = [ruler.at(tick, offset_ns) for tick in (1, 2, 3, 5, 8) for offset_ns in (-1, 0, 1)]
        deadlines = [deadline for deadline in deadlines if deadline <= ruler.at(8)]
        for deadline in deadlines:
            wheel.insert(deadline, ruler.due_at(deadline))
        steps = 0
        while (now := wheel.next_expiration()) is not None:
            assert {now} == set(payloads(wheel.advance(now)))
            steps += 1
        assert steps == len({ruler.due_at(deadline) for deadline in deadlines})
        assert len(wheel) == 0
