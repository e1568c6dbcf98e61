"""
An entry has exactly one outcome: it expires, is cancelled, or is drained. The counters show the outcomes.
"""

from __future__ import annotations

from tickwheel.testing.wheel_suite._base import WheelTests, payloads
from tickwheel.wheels.contract import NEVER, Expired

__all__ = ["CancelTests"]


class CancelTests(WheelTests):
    def test_cancel_once(self) -> None:
        wheel, ruler = self.checked()
        entry = wheel.insert(ruler.at(3))
        assert wheel.cancel(entry)
        assert not wheel.cancel(entry)
        assert wheel.advance(NEVER) == []

    def test_cancel_anywhere_in_a_slot(self) -> None:
        for gone in ({0}, {2}, {4}, {0, 1}, {1, 3}, {3, 4}, {0, 4}, {0, 1, 2, 3, 4}):
            wheel, ruler = self.checked()
            ids = [wheel.insert(ruler.at(3), number) for number in range(5)]
            for number in gone:
                assert wheel.cancel(ids[number])
            assert payloads(wheel.advance(ruler.at(3))) == [number for number in range(5) if number not in gone]

    def test_cancel_after_the_end(self) -> None:
        wheel, ruler = self.checked()
        expired = wheel.insert(ruler.at(1))
        wheel.advance(ruler.at(1))
        drained = wheel.insert(ruler.at(2))
        wheel.drain()
        for entry in (expired, drained):
            assert not wheel.cancel(entry)
            assert not wheel.reschedule(entry, ruler.at(9))
            assert wheel.deadline(entry) is None
        assert len(wheel) == 0

    def test_stale_ids_touch_nobody(self) -> None:
        wheel, ruler = self.checked()
        seen: set[int] = set()
        for number in range(500):
            entry = wheel.insert(ruler.at(3), number)
            assert entry not in seen
            assert 0 < entry < 2**63
            assert not any(wheel.wheel.cancel(stale) for stale in seen)
            assert not any(wheel.wheel.reschedule(stale, ruler.at(4)) for stale in seen)
            seen.add(entry)
            assert wheel.cancel(entry)

    def test_unknown_ids(self) -> None:
        wheel, ruler = self.checked()
        known = wheel.insert(ruler.at(3))
        for unknown in (0, -1, known + 1, known + 2**32, 2**63 - 1, 2**63, 2**64, -(2**63)):
            assert not wheel.cancel(unknown)
            assert not wheel.reschedule(unknown, ruler.at(1))
            assert wheel.deadline(unknown) is None
        assert len(wheel) == 1

    def test_drain(self) -> None:
        wheel, ruler = self.checked()
        wheel.insert(ruler.at(1), "delivered")
        for number in range(3):
            wheel.insert(ruler.at(2), f"overdue {number}")
        assert payloads(wheel.advance(ruler.at(2), 2)) == ["delivered", "overdue 0"]
        wheel.insert(NEVER, "never")
        last = wheel.insert(ruler.at(7), "last")
        wheel.insert(ruler.at(5), "first of two")
        wheel.insert(ruler.at(5), "second of two")
        wheel.insert(ruler.at(5, -1), "just before")
        drained = wheel.drain()
        expected = ["overdue 1", "overdue 2", "just before", "first of two", "second of two", "last", "never"]
        assert payloads(drained) == expected
        assert drained[-2] == Expired(last, ruler.at(7), "last")
        assert len(wheel) == 0
        assert wheel.drain() == []
        assert wheel.advance(NEVER) == []

    def test_usable_after_drain(self) -> None:
        wheel, ruler = self.checked()
        wheel.insert(ruler.at(2))
        wheel.advance(ruler.at(1))
        wheel.drain()
        wheel.insert(ruler.at(3), "new")
        assert wheel.advance(ruler.at(2)) == []
        assert payloads(wheel.advance(ruler.at(3))) == ["new"]

    def test_ids_after_drain(self) -> None:
        wheel, ruler = self.checked()
        old = [wheel.insert(ruler.at(3)) for _ in range(3)]
        wheel.drain()
        new = [wheel.insert(ruler.at(3), number) for number in range(3)]
        assert not set(old) & set(new)
        for entry in old:
            assert not wheel.cancel(entry)
            assert not wheel.reschedule(entry, ruler.at(9))
        assert payloads(wheel.advance(ruler.at(3))) == [0, 1, 2]

    def test_drain_after_moves(self) -> None:
        wheel, ruler = self.checked()
        ids = {name: wheel.insert(ruler.at(3), name) for name in ("a", "b", "c", "d")}
        wheel.reschedule(ids["b"], ruler.at(3))
        wheel.reschedule(ids["a"], ruler.at(7))
        wheel.reschedule(ids["a"], ruler.at(3))
        assert payloads(wheel.drain()) == ["c", "d", "b", "a"]

    def test_counts(self) -> None:
        wheel, ruler = self.checked()
        before = {name: wheel.stats()[name] for name in ("pending", "sets", "moves", "cancels", "fires", "cascades")}
        assert set(before.values()) == {0}
        ids = [wheel.insert(ruler.at(tick)) for tick in (1, 1, 2, 3, 4, 5)]
        wheel.insert(NEVER)
        wheel.cancel(ids[3])
        wheel.cancel(ids[3])
        wheel.reschedule(ids[4], ruler.at(2))
        wheel.reschedule(ids[4], ruler.at(2))
        wheel.reschedule(ids[3], ruler.at(2))
        wheel.advance(ruler.at(1), 1)
        self._expect(wheel.stats(), pending=5, sets=7, moves=2, cancels=1, fires=1)
        wheel.cancel(ids[1])
        wheel.advance(ruler.at(2))
        self._expect(wheel.stats(), pending=2, sets=7, moves=2, cancels=2, fires=3)
        wheel.drain()
        wheel.drain()
        self._expect(wheel.stats(), pending=0, sets=7, moves=2, cancels=4, fires=3)
        assert len(wheel) == 0

    @staticmethod
    def _expect(stats: dict[str, int], **counts: int) -> None:
        assert {name: stats[name] for name in counts} == counts
