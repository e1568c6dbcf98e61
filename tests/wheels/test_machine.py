"""
Random operations: the designs agree with the model, and faulty wheels are detected.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel.testing.fuzz import DESIGNS, ENGINES, main
from tickwheel.testing.wheel_machine import Case, DivergenceError, replay, run_machine
from tickwheel.testing.wheel_suite import WheelSuite
from tickwheel.timers.engine import WheelEngine
from tickwheel.wheels.heap import HeapWheel


@pytest.mark.parametrize("name", DESIGNS)
def test_a_short_run_of_each_design(name: str) -> None:
    """
    A design agrees with the model after each of a few thousand random operations, with a new seed in each run.
    """
    seed = random.randrange(2**32)
    for make_wheel in DESIGNS[name]:
        report = run_machine(make_wheel, seed, 6_000)
        assert report.operations == sum(report.kinds.values()) == 6_000
        assert report.expired > 0
        assert set(report.kinds) == {"insert", "cancel", "move", "look", "advance", "next", "drain"}


def test_a_seed_repeats_its_run() -> None:
    """
    A seed gives the same operations each time, and a different seed gives different operations.
    """
    (make_wheel,) = DESIGNS["heap"]
    first, again, other = (run_machine(make_wheel, seed, 5_000, check_every=50) for seed in (11, 11, 12))
    assert first == again
    assert first.kinds != other.kinds


def test_the_command_prints_seed_and_divergences(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The command prints the seed and the number of operations, and that no result differed from the model's.
    """
    assert main(["--wheel", "heap", "--operations", "3000", "--seed", "5"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("heap: seed 5, 3000 operations on 2 wheels, ")
    assert ", 0 divergences, " in line


def test_the_command_prints_a_divergence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If an operation gives a different result than the model, the command prints this divergence and exits with 1.
    """
    monkeypatch.setitem(DESIGNS, "heap", (lambda _: EarlyWheel(),))
    assert main(["--wheel", "heap", "--operations", "3000", "--seed", "5"]) == 1
    assert "1 divergence" in capsys.readouterr().out


@pytest.mark.parametrize("wheel", [HeapWheel, "early"])
def test_the_command_plays_programs_of_callbacks_too(
    wheel: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The command can also test an engine, if the engine's name is passed.
    """
    make = EarlyWheel if wheel == "early" else wheel
    monkeypatch.setitem(ENGINES, "heap-engine", lambda clock, limit: WheelEngine(make(), clock, max_pending=limit))
    assert main(["--wheel", "heap-engine", "--operations", "900", "--seed", "5"]) == int(wheel == "early")
    out = capsys.readouterr().out
    assert out.endswith("1 divergence\n") if wheel == "early" else out.startswith("heap-engine: seed 5, 900 operations")


class EarlyWheel(HeapWheel):
    """
    A faulty wheel that delivers each entry a nanosecond early.
    """

    def advance(self, now: int, limit: int | None = None) -> list[Any]:
        """
        Advance to a nanosecond after *now*.
        """
        return super().advance(min(now + 1, 2**63 - 1), limit)


class ForgetfulWheel(HeapWheel):
    """
    A faulty wheel that loses entries if they are moved to a deadline that is a multiple of 64.
    """

    def reschedule(self, id: int, deadline: int) -> bool:
        """
        Move the entry, or cancel it if the deadline is a multiple of 64.
        """
        return super().cancel(id) if deadline % 64 == 0 else super().reschedule(id, deadline)


class DoublingWheel(HeapWheel):
    """
    A faulty wheel: if a delivery was limited to two entries, the last entry is inserted again.
    """

    def advance(self, now: int, limit: int | None = None) -> list[Any]:
        """
        Deliver due entries. If *limit* is 2 and was reached, insert the last of them again.
        """
        expired = super().advance(now, limit)
        if limit == 2 and len(expired) == limit:
            self.insert(expired[-1].deadline, expired[-1].payload)
        return expired


class UnstableWheel(HeapWheel):
    """
    A faulty wheel that orders equal deadlines by the time of the insert, even if an entry was moved after its insert.
    """

    def reschedule(self, id: int, deadline: int) -> bool:
        """
        Move the entry, and keep its old place among equal deadlines.
        """
        arrivals = self._arrivals
        self._arrivals = id - 1
        was_pending = super().reschedule(id, deadline)
        self._arrivals = arrivals
        return was_pending


class SleepyWheel(HeapWheel):
    """
    A faulty wheel that rounds its next expiration up to a multiple of 64, so that entries are late.
    """

    def next_expiration(self) -> int | None:
        deadline = super().next_expiration()
        return deadline if deadline is None else -(-deadline // 64) * 64


class HoardingWheel(HeapWheel):
    """
    A faulty wheel that keeps a reference to the payload that was cancelled last.
    """

    def cancel(self, id: int) -> bool:
        self.kept = self._entries.get(id)
        return super().cancel(id)


class LenientWheel(HeapWheel):
    """
    A faulty wheel that accepts True as a number of nanoseconds.
    """

    def insert(self, deadline: int, payload: Any) -> int:
        return super().insert(int(deadline), payload)


class MiscountingWheel(HeapWheel):
    """
    A faulty wheel that counts a cancel even if the id is unknown.
    """

    def cancel(self, id: int) -> bool:
        self._counts["cancels"] += id not in self._entries
        return super().cancel(id)

    def check(self) -> None: ...


BROKEN = [EarlyWheel, ForgetfulWheel, DoublingWheel, UnstableWheel, SleepyWheel, MiscountingWheel]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_faulty_wheel_is_found(broken: Callable[[], HeapWheel]) -> None:
    """
    A faulty wheel is detected within a few thousand operations, and its failing program of operations is shortened.
    """
    with pytest.raises(DivergenceError) as found:
        run_machine(lambda _: broken(), random.randrange(2**32), 50_000, check_every=7)
    case = found.value.case
    assert 0 < len(case.operations) < 20  # reduced from up to 2,000
    assert f"start={case.start}" in str(found.value)
    with pytest.raises(AssertionError):
        replay(lambda _: broken(), case)
    replay(lambda _: HeapWheel(), Case(case.start, case.operations))


@pytest.mark.parametrize("operation", ["cancel", "move", "look"])
def test_an_omitted_insert_is_not_another_entry(operation: str) -> None:
    """
    If a failing sequence of operations is shortened by an insert, later operations on the missing entry do nothing.

    They do not affect a different entry that got the same id.
    """
    wheel = HeapWheel()
    replay(lambda _: wheel, Case(0, (("insert", 7, 100), (operation, 1, 50))))
    assert wheel.deadline(1) == 100
    assert wheel.stats()["cancels"] == wheel.stats()["moves"] == 0


@pytest.mark.parametrize("broken", [*BROKEN, HoardingWheel, LenientWheel])
def test_a_faulty_wheel_fails_the_suite(broken: Callable[[], HeapWheel]) -> None:
    """
    A faulty wheel fails at least one test of the contract suite.
    """

    class Suite(WheelSuite):
        def make_wheel(self, start: int) -> HeapWheel:
            return broken()

    failures = []
    for name in dir(Suite):
        if name.startswith("test_") and name != "test_a_crowded_slot":
            try:
                getattr(Suite(), name)()
            except (AssertionError, ValueError):
                failures.append(name)
    assert failures
