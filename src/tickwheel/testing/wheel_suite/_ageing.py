from __future__ import annotations

from tickwheel.testing.instants import around, level_edges
from tickwheel.testing.wheel_suite._base import CheckedWheel, Ruler, WheelTests, payloads
from tickwheel.wheels.contract import NEVER

__all__ = ["AgeingTests"]

YEAR_NS = 365 * 24 * 3_600 * 10**9


class AgeingTests(WheelTests):
    def test_across_every_level_edge(self) -> None:
        tick_ns = self.checked()[0].abilities.tick_ns or 1
        for edge in sorted({*level_edges(), *level_edges(tick_ns)}):
            for before in (1, tick_ns, 3 * tick_ns):
                start = max(edge - before, 0)
                wheel, ruler = self.checked(start)
                self._cross(wheel, ruler, around([start, edge], 1, ruler.unit, 4 * ruler.unit))

    def test_every_level_edge_from_zero(self) -> None:
        wheel, ruler = self.checked(0)
        span_ns = wheel.abilities.span_ns
        self._cross(wheel, ruler, [edge for edge in around(level_edges(), 1) if span_ns is None or edge <= span_ns])

    def test_up_to_the_end_of_time(self) -> None:
        start = NEVER - 10**6
        wheel, ruler = self.checked(start)
        span_ns = wheel.abilities.span_ns or NEVER
        candidates = (start + 1, NEVER - 3, NEVER - 2, NEVER - 1, NEVER)
        self._cross(wheel, ruler, [instant for instant in candidates if instant == NEVER or instant - start <= span_ns])

    def test_far_beside_near(self) -> None:
        wheel, ruler = self.checked()
        span_ns = wheel.abilities.span_ns
        far = ruler.at(8) if span_ns is None else ruler.at(7)
        fars = [far] if span_ns is not None else [NEVER - 1, *level_edges(ruler.unit)[-3:], 300 * YEAR_NS // 2]
        fars = sorted(instant for instant in fars if instant >= far)
        for deadline in fars:
            wheel.insert(deadline, "far")
        for tick in range(1, 7):
            wheel.insert(ruler.at(tick), tick)
        for tick in range(1, 7):
            assert wheel.next_expiration() == ruler.at(tick)
            assert payloads(wheel.advance(ruler.at(tick))) == [tick]
        for deadline in fars:
            assert wheel.next_expiration() == ruler.due_at(deadline)
            assert wheel.advance(ruler.due_at(deadline) - 1) == []
            assert payloads(wheel.advance(ruler.due_at(deadline))) == ["far"]

    def test_ten_years(self) -> None:
        wheel, ruler = self.checked()
        span_ns = wheel.abilities.span_ns or YEAR_NS
        beats = {"fast": min(span_ns, YEAR_NS // 500), "slow": min(span_ns, YEAR_NS // 12) * 3 // 4}
        due = {name: ruler.origin + beat for name, beat in beats.items()}
        for name, deadline in due.items():
            wheel.insert(deadline, name)
        end = ruler.origin + min(10 * YEAR_NS, 5_000 * min(beats.values()))
        aged = wheel.wheel  # checked once at the end, because ten years are many steps
        while (now := aged.next_expiration()) is not None and now <= end:
            assert now == ruler.due_at(min(due.values()))
            for name in payloads(aged.advance(now)):
                assert ruler.due_at(due[name]) == now
                due[name] = now + beats[name]
                aged.insert(due[name], name)
        aged.check()
        assert len(wheel) == 2
        assert min(due.values()) > end - ruler.unit

    @staticmethod
    def _cross(wheel: CheckedWheel, ruler: Ruler, deadlines: list[int]) -> None:
        # Insert out of order, then follow next_expiration to the end.
        for deadline in deadlines[::2] + deadlines[1::2]:
            wheel.insert(deadline, deadline)
        finite = [deadline for deadline in deadlines if deadline != NEVER]
        delivered: list[int] = []
        while (now := wheel.next_expiration()) is not None:
            batch = payloads(wheel.advance(now))
            assert {ruler.due_at(deadline) for deadline in batch} == {now}
            delivered += batch
        assert sorted(delivered) == finite
        assert len(wheel) == len(deadlines) - len(finite)
