"""
A timer either fires or is cancelled. If it is moved while it fires, it fires once more.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

from tickwheel.testing.engine_suite._base import EngineTests, Rig, refused
from tickwheel.timers.contract import Timer

__all__ = ["LifeTests"]


def state(timer: Timer) -> tuple[bool, bool]:
    return timer.pending(), timer.cancelled()


PENDING, FIRED, CANCELLED = (True, False), (False, False), (False, True)


class LifeTests(EngineTests):
    def test_a_life_that_fires(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10, lambda: rig.note(state(timer), timer.cancel(), state(timer)))
        assert state(timer) == PENDING
        assert rig.turn(10) == ["a"]
        assert rig.notes == [FIRED, False, FIRED]
        assert (timer.cancel(), timer.cancel()) == (False, False)
        assert state(timer) == FIRED
        assert timer.when() == rig.when(10)

    def test_a_life_that_is_cancelled(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10)
        assert [timer.cancel() for _ in range(3)] == [True, False, False]
        assert state(timer) == CANCELLED
        assert timer.when() == rig.when(10)
        assert rig.turn(20) == []
        assert state(timer) == CANCELLED

    def test_moves(self) -> None:
        rig = self.rig()
        a, b, c = (rig.set(label, 1_000) for label in "abc")
        assert a.reschedule(rig.when(2_000))
        assert b.reschedule(rig.when(500))
        assert c.restart(0)
        assert (a.when(), b.when(), c.when()) == (rig.when(2_000), rig.when(500), rig.when(0))
        assert rig.turn() == ["c"]
        assert rig.turn(500) == ["b"]
        assert a.restart(1e-6)
        assert rig.turn(1_499) == []
        assert rig.turn(1_500) == ["a"]
        assert rig.turn(5_000) == []

    def test_moved_to_never_and_back(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10)
        assert timer.restart(float("inf"))
        assert timer.when() == float("inf")
        assert rig.turn(10**15) == []
        assert state(timer) == PENDING
        assert timer.reschedule(rig.when(0))
        assert rig.turn() == ["a"]

    def test_what_has_ended_cannot_be_moved(self) -> None:
        rig = self.rig()
        fired, cancelled = rig.set("fired", 10), rig.set("cancelled", 20)
        cancelled.cancel()
        rig.turn(10)
        for timer, ended in ((fired, FIRED), (cancelled, CANCELLED)):
            when = timer.when()
            assert not timer.reschedule(rig.when(50))
            assert not timer.restart(0)
            assert (state(timer), timer.when()) == (ended, when)
        assert rig.turn(100) == []

    def test_a_refused_move_leaves_it(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10)
        for move in (timer.reschedule, timer.restart):
            with refused(ValueError, "nan"):
                move(float("nan"))
            with refused(TypeError, "None"):
                move(None)  # type: ignore[arg-type]
        assert timer.when() == rig.when(10)
        assert rig.turn(10) == ["a"]

    def test_life_a_new_life_from_inside(self) -> None:
        rig = self.rig()
        moves: list[Callable[[], bool]] = [lambda: timer.restart(1e-6), lambda: timer.reschedule(rig.when(5_000))]
        timer = rig.set("a", 10, lambda: rig.note(moves.pop(0)()) if moves else None)
        assert rig.turn(10) == ["a"]
        assert state(timer) == PENDING
        assert len(rig.engine) == 1
        assert rig.turn(1_010) == ["a"]
        assert state(timer) == PENDING
        assert rig.turn(5_000) == ["a"]
        assert state(timer) == FIRED
        assert rig.notes == [True, True]

    def test_a_new_life_now_is_for_the_next_turn(self) -> None:
        rig = self.rig()
        timer = rig.set("a", 10, lambda: timer.restart(0))
        for _ in range(4):
            assert rig.turn(10) == ["a"]

    def test_a_new_life_can_be_cancelled(self) -> None:
        rig = self.rig()
        inside = rig.set("inside", 10, lambda: rig.note(inside.restart(0), inside.cancel()))
        after = rig.set("after", 10, lambda: after.restart(1e-9))
        rig.turn(10)
        assert rig.notes == [True, True]
        assert state(inside) == CANCELLED
        assert after.cancel()
        assert rig.turn(100) == []
        assert state(after) == CANCELLED

    def test_moved_many_times_inside(self) -> None:
        rig = self.rig()
        moves = rig.set("moves", 10, lambda: [moves.restart(1), moves.restart(0), moves.reschedule(rig.when(3_000))])
        ends = rig.set("ends", 10, lambda: rig.note(ends.restart(1), ends.cancel(), ends.restart(0)))
        rig.turn(10)
        assert state(moves) == PENDING
        assert moves.when() == rig.when(3_000)
        assert rig.notes == [True, True, False]
        assert state(ends) == CANCELLED
        assert len(rig.engine) == 1

    def test_a_raising_call_keeps_its_new_life(self) -> None:
        rig = self.rig()

        def then() -> None:
            timer.restart(1e-9)
            raise ValueError

        timer = rig.set("a", 10, then)
        rig.turn(10)
        assert state(timer) == PENDING
        assert rig.turn(11) == ["a"]

    def test_over_when_the_error_is_told(self) -> None:
        rig = self.rig()
        rig.set("a", 10, lambda: 1 // 0)
        rig.engine.on_error = lambda _, timer: rig.note(state(timer), timer.restart(0), timer.cancel())
        rig.turn(10)
        assert rig.notes == [FIRED, False, False]
        assert rig.turn(100) == []

    def test_counts(self) -> None:
        rig = self.rig()
        self._expect(rig, pending=0, sets=0, moves=0, cancels=0, fires=0)
        timers = [rig.set(str(at), at) for at in (10, 10, 20, 30)]
        self._expect(rig, pending=4, sets=4, moves=0, cancels=0, fires=0)
        timers[0].cancel()
        timers[0].cancel()
        timers[1].reschedule(rig.when(15))
        timers[0].reschedule(rig.when(15))
        self._expect(rig, pending=3, sets=4, moves=1, cancels=1, fires=0)
        rig.turn(20)
        timers[1].cancel()
        self._expect(rig, pending=1, sets=4, moves=1, cancels=1, fires=2)
        restarted = rig.set("restarted", 25, lambda: restarted.restart(1))
        rig.turn(25)
        self._expect(rig, pending=2, sets=6, moves=1, cancels=1, fires=3)
        rig.engine.drain()
        self._expect(rig, pending=0, sets=6, moves=1, cancels=3, fires=3)

    def test_lateness(self) -> None:
        rig = self.rig()
        rig.set("on time", 20)
        rig.set("5 ns late", 15)
        rig.turn(20)
        late = rig.engine.stats()["lateness"]
        assert sum(late) == 2
        assert (late[0], late[3]) == (1, 1), "on time, and 5 ns late"

    def test_not_to_be_pickled(self) -> None:
        rig = self.rig()
        with refused(TypeError, "pickle"):
            pickle.dumps(rig.set("a", 10))

    @staticmethod
    def _expect(rig: Rig, **counts: int) -> None:
        stats = rig.engine.stats()
        assert {name: stats[name] for name in counts} == counts
        assert len(rig.engine) == counts["pending"]
