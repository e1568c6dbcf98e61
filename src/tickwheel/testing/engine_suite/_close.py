from __future__ import annotations

import math

from tickwheel.errors import ClosedError, TooManyTimersError
from tickwheel.testing.engine_suite._base import EngineTests, refused
from tickwheel.typing import Pending

__all__ = ["CloseTests"]


class CloseTests(EngineTests):
    def test_what_was_pending_comes_back(self) -> None:
        for end in ("drain", "close"):
            rig = self.rig()
            never = rig.engine.call_later(float("inf"), print, "never")
            rig.engine.call_at(rig.when(2_000_000_000), print, "b", 2)
            rig.engine.call_at(rig.when(1_000_000_000), print, "a")
            rig.engine.call_at(rig.when(2_000_000_000), print, "c")
            rig.clock.jump(1.5)
            back = getattr(rig.engine, end)()
            assert all(type(each) is Pending for each in back)
            assert [each.args for each in back] == [("a",), ("b", 2), ("c",), ("never",)]
            assert all(each.callback is print for each in back)
            assert [each.deadline for each in back] == [rig.when(at) for at in (10**9, 2 * 10**9, 2 * 10**9)] + [
                math.inf
            ]
            assert [round(each.remaining, 9) for each in back] == [-0.5, 0.5, 0.5, math.inf]
            assert never.cancelled()
            assert len(rig.engine) == 0
            assert rig.engine.arm() is None
            assert rig.turn(10**10) == []

    def test_after_a_drain(self) -> None:
        rig = self.rig()
        calls: list[str] = []
        rig.engine.on_earlier = lambda: calls.append("calls")
        rig.set("a", 10)
        rig.engine.drain()
        assert rig.engine.drain() == []
        assert not rig.engine.closed()
        rig.engine.arm()
        rig.set("b", 20)
        assert calls == ["calls"]
        assert rig.turn(20) == ["b"]

    def test_after_a_close(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10)
        assert [each.args[0] for each in rig.engine.close()] == ["a"]
        assert rig.engine.close() == rig.engine.drain() == []
        assert rig.engine.closed()
        for set_one in (rig.engine.call_later, rig.engine.call_at):
            with refused(ClosedError, "closed"):
                set_one(1, print)
        assert (timer.cancel(), timer.restart(1), timer.reschedule(1)) == (False, False, False)
        assert timer.cancelled()
        assert timer.when() == rig.when(10)
        assert rig.turn(100) == []
        assert rig.engine.arm() is None
        assert rig.engine.stats()["pending"] == 0
        rig.engine.check()

    def test_one_too_many(self) -> None:
        rig = self.rig(max_pending=2)
        rig.set("a", 10)
        rig.set("b", 10)
        for set_one in (rig.engine.call_later, rig.engine.call_at):
            with refused(TooManyTimersError, "2 timers"):
                set_one(0, rig.log.append, "too many")
        assert len(rig.engine) == rig.engine.stats()["sets"] == 2
        rig.timers["a"].cancel()
        rig.set("c", 10)
        with refused(TooManyTimersError):
            rig.set("too many", 10)
        assert rig.timers["b"].restart(1), "a move is not one more"
        assert rig.turn(10) == ["c"]
        rig.set("d", 10)
        rig.engine.drain()
        rig.set("e", 10)
        rig.set("f", 10)
        assert rig.turn(10) == ["e", "f"]

    def test_room_for_none(self) -> None:
        rig = self.rig(max_pending=0)
        with refused(TooManyTimersError, "0 timers"):
            rig.set("a", 10)
        assert rig.turn(10) == []

    def test_room_inside_a_firing(self) -> None:
        rig = self.rig(max_pending=1)

        def then() -> None:
            rig.set("b", 20)
            with refused(TooManyTimersError, "1 timers"):
                a.restart(1)

        a = rig.set("a", 10, then)
        assert rig.turn(10) == ["a"]
        assert rig.errors == []
        assert not a.pending()
        assert rig.turn(20) == ["b"]

    def test_a_new_start_in_a_fork(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10)
        rig.engine.after_fork()
        assert timer.cancelled()
        assert len(rig.engine) == 0
        assert rig.turn(100) == []
        rig.set("b", 200)
        assert rig.turn(200) == ["b"]

    def test_a_fork_inside_a_callback(self) -> None:
        """
        After a fork inside a callback, the child completes this callback and fires no more timers of the batch.
        """
        rig = self.rig()

        def then() -> None:
            rig.engine.after_fork()
            rig.set("new", 10)
            rig.note(a.restart(5e-9))

        a = rig.set("a", 10, then)
        rig.set("b", 10)
        assert rig.turn(10) == ["a"]
        assert rig.turn(10) == ["new"]
        assert rig.notes == [True]
        assert a.pending()
