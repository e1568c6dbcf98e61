"""
Overlapping calls of one timer: a rescheduled timer is due or called again while its earlier call is running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

from tickwheel.testing.engine_suite._base import EngineTests, Rig
from tickwheel.timers.contract import DueTimer

__all__ = ["OverlapTests"]

PATIENCE_S = 20.0
"""Maximum wait in seconds. A longer wait means that something hangs."""


class OverlapTests(EngineTests):
    def calling(self, *acts: Callable[[DueTimer], object]) -> tuple[Rig, list[DueTimer], DueTimer]:
        """
        Return a rig, the timers handed to its runner, and a due timer. Each call of the timer runs the next of *acts*.
        """
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append
        coming = iter(acts)
        timer: Any = rig.set("a", 10, lambda: next(coming)(timer))
        rig.clock.jump(10e-9)
        assert rig.engine.fire_due() == 1
        return rig, handed, timer

    def test_a_new_life_that_is_due_before_the_call_ends(self) -> None:
        def again(timer: DueTimer) -> None:
            assert timer.restart(5e-9)
            rig.clock.jump(5e-9)
            assert rig.engine.fire_due() == 1
            rig.note(timer.pending(), timer.cancelled(), timer.cancel())

        rig, handed, timer = self.calling(again, again, _rest)
        for number in range(3):
            assert len(handed) == number + 1
            handed[number].run()
        assert rig.notes == [False] * 6
        assert (rig.log, timer.callback, timer.restart(1)) == (["a"] * 3, None, False)
        handed[0].run()
        assert rig.log == ["a"] * 3
        rig.engine.check()

    def test_run_from_inside(self) -> None:
        rig, handed, _ = self.calling(lambda timer: rig.note(timer.run()))
        handed.pop().run()
        rig.engine.runner = None
        timer: Any = rig.set("b", 20, lambda: rig.note(timer.run()))
        assert rig.turn(20) == ["b"]
        assert (rig.log, rig.notes) == (["a", "b"], [None, None])

    def test_a_call_inside_a_call(self) -> None:
        def first(timer: DueTimer) -> None:
            for _ in range(2):
                assert timer.restart(5e-9)
                rig.clock.jump(5e-9)
                assert rig.engine.fire_due() == 1
                handed.pop().run()
                rig.note((timer.pending(), timer.cancelled(), timer.cancel(), timer.callback is None))
            assert timer.restart(5e-9)

        rig, handed, timer = self.calling(first, _rest, _rest, _rest)
        handed.pop().run()
        assert rig.notes == [(False,) * 4] * 2
        assert timer.pending()
        rig.clock.jump(5e-9)
        assert rig.engine.fire_due() == 1
        handed.pop().run()
        assert (rig.log, timer.callback, timer.restart(1)) == (["a"] * 4, None, False)
        rig.engine.check()

    def test_two_calls_at_once(self) -> None:
        """
        If two threads call one timer, the later call can move the timer even after the earlier call has ended.
        """
        has_begun, may_end = threading.Event(), threading.Event()

        def first(timer: DueTimer) -> None:
            assert timer.restart(5e-9)
            has_begun.set()
            may_end.wait(PATIENCE_S)

        def second(timer: DueTimer) -> None:
            may_end.set()
            other.join(PATIENCE_S)
            rig.note(timer.callback is None, timer.cancel(), timer.restart(5e-9))

        rig, handed, timer = self.calling(first, second, _rest)
        other = threading.Thread(target=handed.pop().run)
        other.start()
        assert has_begun.wait(PATIENCE_S)
        for is_pending in (True, False):
            rig.clock.jump(5e-9)
            assert rig.engine.fire_due() == 1
            handed.pop().run()
            assert timer.pending() == is_pending
        assert rig.notes == [False, False, True]
        assert (rig.log, timer.callback) == (["a"] * 3, None)
        rig.engine.check()

    def test_a_context_that_is_in_use(self) -> None:
        variable: ContextVar[str] = ContextVar("variable", default="nobody's")
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append

        def note_and_set(value: str) -> None:
            rig.note(variable.get())
            variable.set(value)

        def act() -> None:
            note_and_set(f"mine {len(rig.notes)}")
            if len(rig.notes) > 1:
                return
            assert timer.restart(0)
            assert rig.engine.fire_due() == 1
            handed.pop().run()  # the rescheduled call
            handed.pop().run()  # another timer's call
            rig.note(variable.get())

        theirs = copy_context()
        rig.engine.call_later(0, note_and_set, "other", context=theirs)
        timer = rig.engine.call_later(0, act, context=theirs)
        assert rig.engine.fire_due() == 2
        handed.pop().run()
        assert rig.notes == ["nobody's", "mine 0", "mine 0", "mine 0"]
        assert rig.errors == []
        assert (variable.get(), theirs[variable]) == ("nobody's", "mine 0")

    def test_an_error_in_a_context(self) -> None:
        """
        A callback whose own error reads "cannot enter context" is not called again, and its error is reported.
        """

        def fail() -> None:
            rig.note(1)
            raise RuntimeError("cannot enter context")

        rig = self.rig()
        rig.engine.call_later(0, fail, context=copy_context())
        assert rig.engine.fire_due() == 1
        assert (rig.notes, [type(error) for error, _ in rig.errors]) == ([1], [RuntimeError])

    def test_a_new_life_that_ends_before_the_call(self) -> None:
        """
        If a callback reschedules its timer and then cancels it, or closes the engine, the timer does not fire again.
        """
        ends: tuple[Callable[[Rig, DueTimer], object], ...] = (
            lambda _, timer: timer.cancel(),
            lambda rig, timer: rig.engine.cancel_many([timer]),
            lambda rig, _: rig.engine.drain(),
            lambda rig, _: rig.engine.close(),
            lambda rig, _: rig.engine.after_fork(),
        )
        for end in ends:
            self._check_end(end)

    def _check_end(self, end: Callable[[Rig, DueTimer], object]) -> None:
        def first(timer: DueTimer) -> None:
            assert timer.restart(5e-9)
            end(rig, timer)

        rig, handed, timer = self.calling(first)
        handed.pop().run()
        assert (timer.pending(), timer.cancelled(), timer.cancel(), timer.restart(1)) == (False, True, False, False)
        rig.clock.jump(1)
        assert rig.engine.fire_due() == 0
        assert (rig.log, timer.callback) == (["a"], None)
        rig.engine.check()

    def test_a_new_life_that_waits_is_moved(self) -> None:
        def again(timer: DueTimer) -> None:
            for _ in range(2):
                assert timer.restart(5e-9)
                rig.clock.jump(5e-9)
                assert rig.engine.fire_due() == 1

        def last(timer: DueTimer) -> None:
            rig.engine.close()
            rig.note(timer.restart(0))

        rig, handed, timer = self.calling(again, last)
        for number in range(3):
            handed[number].run()
        assert (rig.log, rig.notes, timer.restart(1)) == (["a", "a"], [False], False)
        assert rig.engine.stats()["fires"] == 3

    def test_a_new_life_that_the_runner_refuses(self) -> None:
        def again(timer: DueTimer) -> None:
            assert timer.restart(5e-9)
            rig.clock.jump(5e-9)
            rig.engine.runner = lambda _: 1 // 0
            assert rig.engine.fire_due() == 1
            rig.engine.runner = handed.append
            timer.run()
            rig.note(timer.pending(), timer.cancelled(), timer.cancel(), timer.restart(5e-9))

        rig, handed, timer = self.calling(again, _rest)
        handed.pop().run()
        assert rig.notes == [False, False, False, True]
        assert [type(error) for error, _ in rig.errors] == [ZeroDivisionError]
        rig.clock.jump(5e-9)
        assert rig.engine.fire_due() == 1
        handed.pop().run()
        assert (rig.log, timer.callback) == (["a", "a"], None)
        rig.engine.check()

    def test_moved_again_before_the_call_ends(self) -> None:
        def first(timer: DueTimer) -> None:
            for delay in (9e-9, 20e-9, 3e-9, 12e-9):
                assert timer.restart(delay)
            rig.set("set", 30)

        rig, handed, timer = self.calling(first, _rest)
        handed.pop().run()
        assert timer.when() == rig.when(22)
        assert timer.restart(20e-9)
        assert rig.engine.arm() == rig.start + 30
        rig.engine.check()
        rig.clock.jump(20e-9)
        assert rig.engine.fire_due() == 2
        for due in handed:
            due.run()
        assert rig.log == ["a", "set", "a"]


def _rest(_: DueTimer) -> None:
    pass
