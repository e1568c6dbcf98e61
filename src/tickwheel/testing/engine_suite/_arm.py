"""
Tests of `arm`, which returns the next time to fire, and of `on_earlier`, which reports an earlier deadline.
"""

from __future__ import annotations

from tickwheel.testing.engine_suite._base import EngineTests, refused

__all__ = ["ArmTests"]


def no_driver() -> None:
    message = "no driver"
    raise OSError(message)


class ArmTests(EngineTests):
    def test_the_earliest_deadline(self) -> None:
        rig = self.rig()
        assert rig.engine.arm() is None
        rig.engine.call_later(float("inf"), print)
        assert rig.engine.arm() is None
        rig.set("b", 20)
        rig.set("a", 10)
        assert rig.engine.arm() == rig.start + 10
        rig.timers["a"].cancel()
        assert rig.engine.arm() == rig.start + 20
        rig.timers["b"].reschedule(rig.when(5_000_000))
        assert rig.engine.arm() == rig.start + 5_000_000

    def test_due_is_past(self) -> None:
        rig = self.rig()
        rig.set("a", 10)
        rig.set("b", 10)
        assert rig.turn(20, limit=1) == ["a"]
        assert (deadline := rig.engine.arm()) is not None
        assert deadline <= rig.clock.monotonic_ns()
        assert rig.turn() == ["b"]
        assert rig.engine.arm() is None

    def test_an_early_look_changes_nothing(self) -> None:
        rig = self.rig()
        rig.set("a", 1_000_000)
        for at in (0, 1, 64, 500_000, 999_999):
            assert rig.turn(at) == []
            assert rig.engine.arm() == rig.start + 1_000_000
        assert rig.turn(1_000_000) == ["a"]

    def test_something_earlier_is_told_once(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.set("before any arming", 100)
        assert calls == []
        rig.engine.arm()
        rig.set("equal", 100)
        rig.set("later", 101)
        rig.engine.call_later(float("inf"), print)
        assert calls == []
        rig.set("earlier", 99)
        rig.set("earlier still", 98)
        assert calls == ["calls"]
        rig.engine.arm()
        rig.set("once more", 97)
        assert calls == ["calls"] * 2

    def test_disarmed(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        timer = rig.engine.call_later(1, int)
        for verb in (lambda: rig.engine.call_later(100, int), lambda: timer.restart(200)):
            rig.engine.arm()
            rig.engine.disarm()
            calls.clear()
            verb()
            rig.engine.call_later(300, int)
            assert calls == ["calls"]

    def test_the_first_timer_is_earlier_than_nothing(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.engine.arm()
        never = rig.engine.call_later(float("inf"), print)
        assert calls == []
        never.restart(5)
        assert calls == ["calls"]

    def test_a_move_to_earlier_is_told(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.set("a", 100)
        rig.set("b", 200)
        rig.engine.arm()
        rig.timers["b"].reschedule(rig.when(300))
        rig.timers["a"].reschedule(rig.when(150))
        rig.timers["a"].cancel()
        assert calls == []
        rig.timers["b"].reschedule(rig.when(50))
        assert calls == ["calls"]

    def test_a_drain_does_not_disarm(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.set("a", 100)
        rig.engine.arm()
        rig.engine.drain()
        rig.set("later", 200)
        assert calls == []
        rig.set("earlier", 50)
        assert calls == ["calls"]

    def test_who_is_told_may_use_the_engine(self) -> None:
        rig = self.rig()

        def earlier() -> None:
            rig.engine.check()
            rig.log.append(f"{len(rig.engine)} pending")
            rig.engine.arm()

        rig.engine.on_earlier = earlier
        rig.engine.arm()
        rig.set("a", 10)
        rig.set("b", 5)
        assert rig.log == ["1 pending", "2 pending"]
        assert rig.engine.arm() == rig.start + 5

    def test_what_the_told_one_raises_is_seen(self) -> None:
        """
        An exception of `on_earlier` propagates from the call that set or moved the timer. The timer remains set.
        """
        rig = self.rig()
        rig.engine.on_earlier = no_driver
        rig.engine.arm()
        with refused(OSError, "no driver"):
            rig.engine.call_later(1e-9, rig.log.append, "a")
        rig.engine.check()
        assert len(rig.engine) == 1
        rig.engine.arm()
        moved = rig.engine.call_later(5, print)
        with refused(OSError, "no driver"):
            moved.restart(0)
        rig.clock.jump(1)
        assert rig.engine.fire_due() == 2

    def test_a_driver_that_could_not_be_told(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = no_driver
        rig.engine.arm()
        with refused(OSError, "no driver"):
            rig.set("a", 100)
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.set("b", 300)
        assert calls == ["calls"]
        rig.set("c", 200)
        assert calls == ["calls"]
