from __future__ import annotations

import math
import random
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tickwheel.clock import seconds, to_deadline
from tickwheel.errors import InvalidDelayError
from tickwheel.testing.engine_suite._base import EngineTests, Rig, refused

__all__ = ["InputTests"]


NO_NUMBERS: tuple[Any, ...] = (None, "1", b"1", [], {}, 1j, object)


class Length:
    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def __float__(self) -> float:
        self.rig.engine.call_later(0, self.rig.log.append, "from __float__")
        self.rig.engine.check()
        return 5e-9


class InputTests(EngineTests):
    def test_numbers(self) -> None:
        rig = self.rig()
        delays: dict[Any, float] = {
            1e-9: 1,
            5e-324: 1,
            1e-300: 1,
            Fraction(1, 10**9): 1,
            Decimal("2e-9"): 2,
            True: 10**9,
            10: 10**10,
            math.inf: math.inf,
            1e300: math.inf,
            10**400: math.inf,
            292 * 366 * 86_400: math.inf,
        }
        for delay, ns in delays.items():
            when = rig.engine.call_later(delay, print).when()
            assert when == (math.inf if ns == math.inf else rig.when(int(ns))), delay
            assert rig.engine.call_at(delay, print).when() == (math.inf if ns == math.inf else ns / 1e9), delay
        for delay in (0, -0.0, -1, -1e300, -(10**400), -math.inf):
            assert rig.engine.call_later(delay, print).when() == rig.when(0)
            assert rig.engine.call_at(delay, print).when() == 0.0

    def test_timedeltas(self) -> None:
        rig = self.rig(10**15)
        for delta, ns in ((timedelta(microseconds=1), 1_000), (timedelta(days=1, seconds=2), 86_402 * 10**9)):
            assert rig.engine.call_later(delta, print).when() == rig.when(ns)
            assert rig.engine.call_at(delta, print).when() == ns / 1e9
            timer = rig.engine.call_later(7, print)
            assert timer.restart(delta)
            assert timer.when() == rig.when(ns)
            assert timer.reschedule(delta)
            assert timer.when() == ns / 1e9
            assert rig.engine.move_many([timer], delta) == 1
            assert timer.when() == rig.when(ns)
            assert rig.engine.move_many([timer], [2 * delta]) == 1
            assert timer.when() == rig.when(2 * ns)
        assert rig.engine.call_later(timedelta(-1), print).when() == rig.when(0)
        assert rig.engine.call_at(timedelta.max, print).when() == math.inf
        assert rig.engine.call_later(1, print, slack=timedelta(seconds=1)).when() >= rig.when(10**9)
        fired: list[int] = []
        rig.engine.call_later_many([timedelta(microseconds=3), 1], fired.extend)
        rig.clock.advance(timedelta(microseconds=3))
        rig.engine.fire_due()
        assert len(fired) == 1

    def test_whole_seconds_are_exact(self) -> None:
        rig = self.rig(0)
        draw = random.Random(7)
        edge = 2**53 // 10**9
        lengths = [0, 1, 59, edge - 1, edge, edge + 1, 10**8, 9 * 10**9]
        for whole in [*lengths, *(draw.randrange(2 * edge) for _ in range(500))]:
            for number in (whole, timedelta(seconds=whole)) if whole < 10**9 else (whole,):
                timer = rig.engine.call_at(number, print)
                assert timer.when() >= whole
                assert to_deadline(number) >= whole * 10**9
                assert timer.when() == seconds(to_deadline(number))
                assert rig.engine.call_later(number, print).when() == timer.when()
                assert timer.cancel()

    def test_no_numbers(self) -> None:
        rig = self.rig()
        verbs = ((rig.engine.call_later, "delay"), (rig.engine.call_at, "when"))
        for verb, name in verbs:
            for nan in (math.nan, -math.nan, Decimal("nan"), Decimal("sNaN")):
                with refused(InvalidDelayError, f"{name} is {nan!r}"):
                    verb(nan, rig.log.append, "nan")  # type: ignore[arg-type]
            for value in NO_NUMBERS:
                with refused(TypeError, f"{name} is {value!r}"):
                    verb(value, rig.log.append, "wrong")
        self._expect_untouched(rig)

    def test_nothing_to_call(self) -> None:
        rig = self.rig()
        verbs: tuple[Any, ...] = (rig.engine.call_later, rig.engine.call_at)
        for verb in verbs:
            for value in (None, 5, "print", [print]):
                with refused(TypeError, f"callback is {value!r}"):
                    verb(1, value)
            with refused(TypeError):
                verb(1)
            with refused(TypeError):
                verb()
        self._expect_untouched(rig)

    def test_slack_and_context(self) -> None:
        rig = self.rig()
        verbs: tuple[Any, ...] = (rig.engine.call_later, rig.engine.call_at)
        for verb in verbs:
            with refused(InvalidDelayError, "slack is nan"):
                verb(1, print, slack=math.nan)
            with refused(TypeError, "slack is None"):
                verb(1, print, slack=None)
            with refused(TypeError, "colour"):
                verb(1, print, colour="red")
        self._expect_untouched(rig)
        assert rig.engine.call_at(rig.when(7), print, slack=-1).when() == rig.when(7)

    def test_arguments_as_given(self) -> None:
        rig = self.rig()
        got: list[tuple[object, ...]] = []
        for count in (0, 1, 2, 3, 5, 8, 50):
            given = tuple(object() for _ in range(count))
            rig.engine.call_later(0, lambda *args: got.append(args), *given)
            rig.engine.fire_due()
            assert all(ours is theirs for ours, theirs in zip(got[-1], given, strict=True))

    def test_a_float_that_uses_the_engine(self) -> None:
        rig = self.rig()
        rig.engine.call_later(Length(rig), rig.log.append, "a")  # type: ignore[arg-type]
        timer = rig.engine.call_later(1, rig.log.append, "b")
        timer.restart(Length(rig))  # type: ignore[arg-type]
        rig.clock.jump(5e-9)
        rig.engine.fire_due()
        assert rig.log == ["from __float__", "from __float__", "a", "b"]

    def test_integers_of_other_libraries(self) -> None:
        class Count:
            def __index__(self) -> int:
                return 2

        rig = self.rig()
        two: Any = Count()
        begun = rig.clock.monotonic()
        timer = rig.engine.call_later(two, print, slack=two)
        assert timer.when() >= begun + 2
        assert timer.restart(two)
        assert timer.when() >= begun + 2
        assert timer.reschedule(two)
        assert timer.when() == 2.0
        assert rig.engine.move_many([timer], two) == 1
        assert rig.engine.move_many([timer], [two]) == 1
        assert len(rig.engine.call_later_many([two], print)) == 1
        assert rig.engine.call_at(two, print).when() == 2.0

    def test_a_conversion_that_raises(self) -> None:
        class Failing:
            def __float__(self) -> float:
                raise LookupError("no length")

        rig = self.rig()
        with refused(LookupError, "no length"):
            rig.engine.call_later(Failing(), print)  # type: ignore[arg-type]
        self._expect_untouched(rig)

    @staticmethod
    def _expect_untouched(rig: Rig) -> None:
        rig.engine.check()
        stats = rig.engine.stats()
        assert (len(rig.engine), stats["sets"], stats["moves"], rig.engine.arm()) == (0, 0, 0, None)
