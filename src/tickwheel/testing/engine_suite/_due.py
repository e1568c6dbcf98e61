from __future__ import annotations

import random
from contextvars import ContextVar, copy_context

from tickwheel.clock import seconds
from tickwheel.testing.engine_suite._base import EngineTests
from tickwheel.testing.instants import INSTANTS
from tickwheel.testing.manual_clock import ManualClock

__all__ = ["DueTests"]


class DueTests(EngineTests):
    def test_due_exactly_at_its_deadline(self) -> None:
        rig = self.rig()
        rig.set("a", 1_000)
        assert rig.turn(999) == []
        assert rig.turn(1_000) == ["a"]
        assert rig.turn(2_000) == []

    def test_never_early_for_who_compares_floats(self) -> None:
        rig = self.rig()
        seed = random.randrange(2**32)
        rng = random.Random(seed)
        for _ in range(200):
            when = rig.clock.monotonic() + rng.random() * 10 ** rng.randrange(-10, 1)
            seen: list[float] = []
            rig.engine.call_at(when, lambda seen: seen.append(rig.clock.monotonic()), seen)
            while not seen:
                deadline = rig.engine.arm()
                assert deadline is not None
                rig.clock.jump(max(deadline - rig.clock.monotonic_ns(), 0) / 1e9)
                rig.engine.fire_due()
            assert when <= seen[0] <= when + 2e-9, (seed, when, seen)

    def test_already_due_waits_for_the_next_turn(self) -> None:
        rig = self.rig()
        for delay in (0, -0.0, -1, -1e300, float("-inf")):
            rig.engine.call_later(delay, rig.log.append, "delay")
        for when in (rig.clock.monotonic(), rig.clock.monotonic() - 1, 0, -5, float("-inf")):
            rig.engine.call_at(when, rig.log.append, "past")
        assert rig.log == []
        assert rig.engine.fire_due() == 10
        assert rig.log.count("delay") == rig.log.count("past") == 5

    def test_by_deadline_then_first_set(self) -> None:
        rig = self.rig()
        for label, at in (("c", 30), ("a", 10), ("d", 30), ("b", 20), ("e", 30)):
            rig.set(label, at)
        assert rig.turn(40) == ["a", "b", "c", "d", "e"]

    def test_a_move_counts_as_set_now(self) -> None:
        rig = self.rig()
        for label, at in (("a", 10), ("b", 10), ("c", 10), ("d", 5)):
            rig.set(label, at)
        rig.timers["a"].reschedule(rig.when(10))
        rig.timers["d"].reschedule(rig.when(10))
        assert rig.turn(10) == ["b", "c", "a", "d"]

    def test_polled_late_all_fire_in_order(self) -> None:
        rig = self.rig()
        deadlines = [1, 62, 63, 64, 65, 66, 4_095, 4_096, 4_097, 262_143, 262_144, 10**6, 10**9, 10**9 + 1]
        rng = random.Random(5)
        for at in rng.sample(deadlines, len(deadlines)):
            rig.set(str(at), at)
        assert rig.turn(2 * 10**9) == [str(at) for at in deadlines]

    def test_what_a_callback_sets_waits(self) -> None:
        rig = self.rig()
        rig.set("far", 1_000)

        def then() -> None:
            rig.set("now", 10)
            rig.set("past", 1)
            rig.timers["far"].reschedule(rig.when(10))

        rig.set("a", 10, then)
        rig.set("b", 10)
        assert rig.turn(10) == ["a", "b"]
        assert rig.turn() == ["past", "now", "far"]

    def test_a_chain_of_no_delay_does_not_hold_the_turn(self) -> None:
        rig = self.rig()

        def again() -> None:
            rig.log.append("again")
            rig.engine.call_later(0, again)

        rig.engine.call_later(0, again)
        for turns in range(1, 5):
            assert rig.engine.fire_due() == 1
            assert len(rig.log) == turns

    def test_at_every_age(self) -> None:
        for instant in INSTANTS:
            if not 100 <= instant < 2**63 - 10_000:
                continue
            clock = ManualClock(instant - 100)
            engine = self.make_engine(clock)
            fired: list[int] = []
            for delay in (0, 1, 63, 64, 99, 100, 101, 163, 200, 4_196):
                engine.call_later(delay / 1e9, fired.append, delay)
            engine.call_later(3_600 * 24 * 365, fired.append, -1)
            for passed in (0, 1, 63, 64, 99, 100, 101, 163, 200, 4_196):
                clock.jump(seconds(instant - 100 + passed - clock.monotonic_ns()))
                engine.fire_due()
                assert fired[-1] == passed, (instant, passed, fired)
                engine.check()
            assert fired == [0, 1, 63, 64, 99, 100, 101, 163, 200, 4_196]

    def test_slack_shares_an_instant(self) -> None:
        rig = self.rig(start_ns=1_000_000_000)
        loose = [rig.engine.call_at(rig.when(at), print, slack=64e-9) for at in (1, 20, 40)]
        assert len({timer.when() for timer in loose}) == 1
        assert rig.when(40) <= loose[0].when() <= rig.when(65)
        exact = rig.engine.call_at(rig.when(33), print, slack=0)
        assert exact.when() == rig.when(33)
        assert rig.turn(1_000, limit=0) == []
        assert rig.engine.call_later(float("inf"), print, slack=1).when() == float("inf")
        for long in (float("inf"), 1e300, 9.2e9):
            assert exact.when() <= rig.engine.call_at(rig.when(33), print, slack=long).when() < float("inf")

    def test_a_context_is_run_in(self) -> None:
        variable: ContextVar[str] = ContextVar("variable", default="nobody's")
        rig = self.rig()
        theirs = copy_context()
        theirs.run(variable.set, "theirs")
        rig.engine.call_later(0, lambda: rig.log.append(variable.get()), context=theirs)
        rig.engine.call_later(0, lambda: rig.log.append(variable.get()))
        copy_context().run(lambda: (variable.set("the firer's"), rig.engine.fire_due()))
        assert rig.log == ["theirs", "the firer's"]
