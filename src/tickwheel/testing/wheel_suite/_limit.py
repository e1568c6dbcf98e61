from __future__ import annotations

from tickwheel.testing.wheel_suite._base import WheelTests, payloads

__all__ = ["LimitTests"]


class LimitTests(WheelTests):
    def test_resumes_inside_a_slot(self) -> None:
        wheel, ruler = self.checked()
        for number in range(10):
            wheel.insert(ruler.at(3), number)
        now = ruler.at(3)
        assert wheel.advance(now, 0) == []
        assert payloads(wheel.advance(now, 1)) == [0]
        assert payloads(wheel.advance(now, 4)) == [1, 2, 3, 4]
        assert wheel.next_expiration() == now
        assert payloads(wheel.advance(now, 5)) == [5, 6, 7, 8, 9]
        assert wheel.advance(now, 5) == []

    def test_resumes_across_slots(self) -> None:
        for limit in (1, 2, 3, 7, 100):
            wheel, ruler = self.checked()
            deadlines = [ruler.at(tick, -part) for tick in (7, 2, 5, 3, 1) for part in range(4)]
            for deadline in deadlines:
                wheel.insert(deadline, deadline)
            delivered: list[int] = []
            while batch := wheel.advance(ruler.at(7), limit):
                assert len(batch) == min(limit, len(deadlines) - len(delivered))
                delivered += payloads(batch)
            assert delivered == ruler.in_order(deadlines)

    def test_limit_that_is_exactly_enough(self) -> None:
        wheel, ruler = self.checked()
        for number in range(4):
            wheel.insert(ruler.at(2), number)
        wheel.insert(ruler.at(4), "later")
        assert payloads(wheel.advance(ruler.at(2), 4)) == [0, 1, 2, 3]
        assert wheel.advance(ruler.at(2), 4) == []
        assert wheel.next_expiration() == ruler.at(4)

    def test_new_arrivals_between_pieces(self) -> None:
        wheel, ruler = self.checked()
        for tick in (1, 3, 5):
            wheel.insert(ruler.at(tick), tick)
        now = ruler.at(6)
        assert payloads(wheel.advance(now, 1)) == [1]
        for tick in (4, 2, 8):
            wheel.insert(ruler.at(tick), tick)
        wheel.insert(ruler.at(3), "3, set later")
        assert payloads(wheel.advance(now, 3)) == [2, 3, "3, set later"]
        assert payloads(wheel.advance(now)) == [4, 5]

    def test_changes_between_pieces(self) -> None:
        wheel, ruler = self.checked()
        now = ruler.at(3)
        ids = [wheel.insert(now, number) for number in range(9)]
        assert payloads(wheel.advance(now, 1)) == [0]
        assert [wheel.cancel(ids[number]) for number in (0, 1, 5, 8)] == [False, True, True, True]
        assert wheel.reschedule(ids[3], ruler.at(5))
        assert wheel.reschedule(ids[6], ruler.at(1))
        assert wheel.reschedule(ids[2], now)
        assert payloads(wheel.advance(now)) == [6, 4, 7, 2]
        assert payloads(wheel.advance(ruler.at(5))) == [3]
        assert len(wheel) == 0

    def test_time_goes_on_between_pieces(self) -> None:
        wheel, ruler = self.checked()
        for tick in (2, 2, 4, 6, 8):
            wheel.insert(ruler.at(tick), tick)
        assert payloads(wheel.advance(ruler.at(4), 2)) == [2, 2]
        assert payloads(wheel.advance(ruler.at(7), 2)) == [4, 6]
        assert wheel.next_expiration() == ruler.at(8)

    def test_time_goes_back_between_pieces(self) -> None:
        wheel, ruler = self.checked()
        for tick in (1, 2, 3):
            wheel.insert(ruler.at(tick), tick)
        assert payloads(wheel.advance(ruler.at(3), 1)) == [1]
        assert wheel.advance(ruler.at(2, -1)) == []
        assert payloads(wheel.advance(ruler.at(2))) == [2]
        assert payloads(wheel.advance(ruler.at(3))) == [3]

    def test_everything_new_while_a_batch_is_cut(self) -> None:
        wheel, ruler = self.checked()
        for tick in range(1, 9):
            wheel.insert(ruler.at(tick), tick)
        assert payloads(wheel.advance(ruler.at(8), 1)) == [1]
        for tick in range(1, 9):
            wheel.insert(ruler.at(8 + tick), 8 + tick)
        assert payloads(wheel.advance(ruler.at(8))) == list(range(2, 9))
        for tick in range(9, 17):
            assert payloads(wheel.advance(ruler.at(tick))) == [tick]

    def test_a_crowded_slot(self) -> None:
        checked, ruler = self.checked()
        wheel = checked.wheel
        size, limit = 100_000, 4_999
        deadlines = [ruler.at(5, -(number * 7_919 % min(ruler.unit, 1_000))) for number in range(size)]
        arrivals = {wheel.insert(deadline, None): number for number, deadline in enumerate(deadlines)}
        delivered: list[tuple[int, int]] = []
        while batch := wheel.advance(ruler.at(5), limit):
            assert len(batch) == min(limit, size - len(delivered))
            delivered += [(entry.deadline, arrivals[entry.id]) for entry in batch]
        numbered = zip(deadlines, range(size), strict=True)
        exact = ruler.abilities.exact_order
        assert delivered == sorted(numbered, key=None if exact else lambda pair: (ruler.due_at(pair[0]), pair[1]))
        wheel.check()
