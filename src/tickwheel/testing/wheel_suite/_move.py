from __future__ import annotations

from itertools import product

from tickwheel.testing.wheel_suite._base import WheelTests, payloads
from tickwheel.wheels.contract import NEVER, Expired

__all__ = ["MoveTests"]


class MoveTests(WheelTests):
    def test_every_small_move(self) -> None:
        """
        An entry expires at its last deadline, whatever its first delay, the time of its move, and its new delay.

        (go-zero's wheel failed in 26 % of these cases.)
        """
        for first, elapsed, second in product(range(1, 8), range(7), range(8)):
            if elapsed >= first:
                continue
            wheel, ruler = self.checked()
            moved = wheel.insert(ruler.at(first), "moved")
            assert wheel.advance(ruler.at(elapsed)) == []
            deadline = ruler.at(elapsed + second)
            assert wheel.reschedule(moved, deadline)
            assert wheel.deadline(moved) == deadline
            assert wheel.advance(deadline - 1) == []
            assert wheel.advance(deadline) == [Expired(moved, deadline, "moved")]
            assert wheel.advance(NEVER) == []

    def test_to_the_past(self) -> None:
        wheel, ruler = self.checked()
        wheel.advance(ruler.at(5))
        later = wheel.insert(ruler.at(8), "later")
        wheel.insert(ruler.at(2), "past")
        assert wheel.reschedule(later, ruler.at(1))
        assert len(wheel) == 2
        assert payloads(wheel.advance(ruler.at(5))) == ["later", "past"]

    def test_to_never_and_back(self) -> None:
        wheel, ruler = self.checked()
        parked = wheel.insert(ruler.at(2), "parked")
        assert wheel.reschedule(parked, NEVER)
        assert wheel.advance(ruler.at(4)) == []
        assert wheel.reschedule(parked, NEVER)
        assert wheel.reschedule(parked, ruler.at(5))
        assert payloads(wheel.advance(ruler.at(5))) == ["parked"]

    def test_counts_as_set_now(self) -> None:
        wheel, ruler = self.checked()
        ids = {name: wheel.insert(ruler.at(3), name) for name in ("a", "b", "c", "d")}
        wheel.reschedule(ids["b"], ruler.at(3))
        wheel.reschedule(ids["a"], ruler.at(7))
        wheel.insert(ruler.at(3), "e")
        wheel.reschedule(ids["a"], ruler.at(3))
        assert payloads(wheel.advance(ruler.at(3))) == ["c", "d", "b", "e", "a"]

    def test_moves_within_a_tick(self) -> None:
        wheel, ruler = self.checked()
        near, far = wheel.insert(ruler.at(3, -2), "near"), wheel.insert(ruler.at(3, -1), "far")
        wheel.reschedule(near, ruler.at(3))
        assert wheel.deadline(near) == ruler.at(3)
        assert payloads(wheel.advance(ruler.at(3))) == ["far", "near"]
        assert wheel.deadline(far) is None

    def test_many_lives(self) -> None:
        wheel, ruler = self.checked()
        moved = wheel.insert(ruler.at(8), "moved")
        others = [wheel.insert(ruler.at(tick), tick) for tick in range(1, 9)]
        for lap in range(50):
            assert wheel.reschedule(moved, ruler.at(1 + lap * 5 % 8, -(lap % 3)))
            assert len(wheel) == 1 + len(others)
        wheel.reschedule(moved, ruler.at(4))
        assert payloads(wheel.advance(ruler.at(8))) == [1, 2, 3, 4, "moved", 5, 6, 7, 8]
