from __future__ import annotations

from tickwheel.testing.engine_suite._base import EngineTests, Rig, refused

__all__ = ["LimitTests"]


class LimitTests(EngineTests):
    def test_stops_and_goes_on(self) -> None:
        for limit in (1, 2, 3, 7, 10, 11):
            rig = self.rig()
            for number in range(10):
                rig.set(str(number), 10 + number // 5)
            rig.clock.jump(1e-6)
            turns = self._until_idle(rig, limit)
            assert all(len(turn) <= limit for turn in turns)
            assert rig.log == [str(number) for number in range(10)]

    def test_a_crowd_in_one_instant(self) -> None:
        rig = self.rig()
        for number in range(10_000):
            rig.engine.call_at(rig.when(10), rig.log.append, str(number))
        rig.clock.jump(1e-6)
        turns = 0
        while rig.engine.arm() is not None:
            assert rig.engine.fire_due(512) <= 512
            turns += 1
            assert turns < 1_000, "every turn gets on"
        assert rig.log == [str(number) for number in range(10_000)]
        rig.engine.check()

    def test_a_limit_of_nothing(self) -> None:
        rig = self.rig()
        rig.set("a", 10)
        assert rig.turn(20, limit=0) == []
        assert rig.turn(20) == ["a"]

    def test_a_limit_below_nothing(self) -> None:
        rig = self.rig()
        rig.set("a", 0)
        with refused(ValueError, "-1"):
            rig.engine.fire_due(-1)
        assert rig.turn() == ["a"]

    def test_limit_the_rest_can_be_moved_and_cancelled(self) -> None:
        rig = self.rig()
        for label in "abcdef":
            rig.set(label, 10)
        rig.clock.jump(1e-6)
        self._fire_one(rig)
        assert rig.timers["b"].cancel()
        assert rig.timers["c"].reschedule(rig.when(5_000))
        assert rig.timers["d"].reschedule(rig.when(10))
        assert not rig.timers["a"].reschedule(rig.when(10))
        assert len(rig.engine) == 4
        assert self._all_of(self._until_idle(rig, 1)) == ["e", "f", "d"]
        assert rig.turn(5_000) == ["c"]

    def test_newcomers_between_turns(self) -> None:
        rig = self.rig()
        for label in "abc":
            rig.set(label, 10)
        rig.clock.jump(1e-6)
        self._fire_one(rig)
        for label, at in (("later", 11), ("equal", 10), ("earlier", 9)):
            rig.set(label, at)
        assert self._all_of(self._until_idle(rig, 1)) == ["earlier", "b", "c", "equal", "later"]

    def test_the_rest_survives_a_drain(self) -> None:
        rig = self.rig()
        rig.set("far", 5_000)
        for label in "abc":
            rig.set(label, 10)
        rig.clock.jump(1e-6)
        self._fire_one(rig)
        assert [each.args[0] for each in rig.engine.drain()] == ["b", "c", "far"]
        assert rig.engine.arm() is None

    @staticmethod
    def _all_of(turns: list[list[str]]) -> list[str]:
        return [label for turn in turns for label in turn]

    @staticmethod
    def _fire_one(rig: Rig) -> None:
        # With a limit the search is bounded too, so a turn may find no due timer yet.
        while not rig.turn(limit=1):
            pass

    @staticmethod
    def _until_idle(rig: Rig, limit: int) -> list[list[str]]:
        turns = []
        while (deadline := rig.engine.arm()) is not None and deadline <= rig.clock.monotonic_ns():
            turns.append(rig.turn(limit=limit))
            assert len(turns) < 10_000, "every turn gets on"
        return turns
