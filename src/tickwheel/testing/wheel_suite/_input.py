from __future__ import annotations

import math
from typing import Any

from tickwheel.errors import InvalidDeadlineError, SpanExceededError, TickwheelError
from tickwheel.testing.wheel_suite._base import CheckedWheel, WheelTests, payloads, refused
from tickwheel.wheels.contract import NEVER

__all__ = ["InputTests"]

NO_INTEGERS: tuple[Any, ...] = (None, math.nan, math.inf, 1.0, True, False, "1", b"1", (), 1 + 0j)
NO_DEADLINES = (-1, -(2**63), 2**63, 2**64, 10**300)


class InputTests(WheelTests):
    def test_no_integers(self) -> None:
        wheel, entry = self._one_entry()
        for value in NO_INTEGERS:
            with refused(TypeError, value):
                wheel.insert(value)
            with refused(TypeError, value):
                wheel.reschedule(entry, value)
            with refused(TypeError, value):
                wheel.wheel.advance(value)
            self._expect_untouched(wheel)

    def test_no_deadlines(self) -> None:
        assert issubclass(InvalidDeadlineError, ValueError)
        wheel, entry = self._one_entry()
        for value in NO_DEADLINES:
            with refused(InvalidDeadlineError, value):
                wheel.insert(value)
            with refused(InvalidDeadlineError, value):
                wheel.reschedule(entry, value)
            with refused(InvalidDeadlineError, value):
                wheel.wheel.advance(value)
            self._expect_untouched(wheel)

    def test_bad_deadline_for_a_stale_id(self) -> None:
        wheel, entry = self._one_entry()
        wheel.cancel(entry)
        with refused(TypeError, None):
            wheel.reschedule(entry, None)  # type: ignore[arg-type]
        with refused(InvalidDeadlineError, -1):
            wheel.reschedule(entry, -1)

    def test_limits(self) -> None:
        wheel, _ = self._one_entry()
        for value in ("1", 1.0, math.inf, True):
            with refused(TypeError, value):
                wheel.wheel.advance(NEVER, value)  # type: ignore[arg-type]
        with refused(ValueError, -1):
            wheel.wheel.advance(NEVER, -1)
        self._expect_untouched(wheel)
        assert len(wheel.advance(NEVER, 10**30)) == 1

    def test_span(self) -> None:
        wheel, ruler = self.checked()
        start = ruler.at(3, 1)
        wheel.advance(start)
        span_ns = wheel.abilities.span_ns
        if span_ns is None:
            farthest = NEVER - 1
        else:
            farthest = start + span_ns
            entry = wheel.insert(ruler.at(5), "untouched")
            for factor in (1, 2, 3, 1_000):
                delay_ns = factor * span_ns + 1
                with refused(SpanExceededError, span_ns):
                    wheel.insert(start + delay_ns)
                with refused(SpanExceededError, delay_ns):
                    wheel.reschedule(entry, start + delay_ns)
            assert not wheel.reschedule(entry + 1_000, start + span_ns + 1)
            assert wheel.stats()["sets"] == len(wheel) == 1
            assert payloads(wheel.advance(ruler.at(5))) == ["untouched"]
        deadline = farthest
        wheel.insert(deadline, "farthest")
        assert wheel.advance(ruler.due_at(deadline) - 1) == []
        assert payloads(wheel.advance(ruler.due_at(deadline))) == ["farthest"]

    def test_errors_are_ours(self) -> None:
        wheel, _ = self.checked()
        with refused(TickwheelError, -1):
            wheel.insert(-1)

    def _one_entry(self) -> tuple[CheckedWheel, int]:
        wheel, ruler = self.checked()
        return wheel, wheel.insert(ruler.at(4), "untouched")

    @staticmethod
    def _expect_untouched(wheel: CheckedWheel) -> None:
        wheel.wheel.check()
        stats = wheel.stats()
        assert (len(wheel), stats["sets"], stats["moves"], stats["fires"]) == (1, 1, 0, 0)
