from __future__ import annotations

from tickwheel.testing.engine_suite._base import EngineTests, Rig, refused
from tickwheel.timers.contract import DueTimer

__all__ = ["RunnerTests"]


class RunnerTests(EngineTests):
    def handed(self) -> tuple[Rig, list[DueTimer]]:
        """
        Return a rig, and three due timers that were handed to the rig's runner but not run.
        """
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append
        for label in "abc":
            rig.set(label, 10)
        rig.clock.jump(10e-9)
        assert rig.engine.fire_due() == 3
        assert rig.log == []
        return rig, handed

    def test_in_order_and_once(self) -> None:
        rig, handed = self.handed()
        assert [timer is rig.timers[label] for timer, label in zip(handed, "abc", strict=True)] == [True] * 3
        for timer in handed * 2:
            timer.run()
        assert rig.log == ["a", "b", "c"]
        assert rig.engine.fire_due() == 0

    def test_it_counts_as_fired(self) -> None:
        rig, handed = self.handed()
        assert len(rig.engine) == 0
        for timer in handed:
            assert (timer.pending(), timer.cancelled(), timer.cancel()) == (False, False, False)
        assert rig.engine.drain() == []
        for timer in handed:
            timer.run()
        assert rig.log == ["a", "b", "c"]

    def test_moved_before_it_ran(self) -> None:
        rig, handed = self.handed()
        assert handed[0].restart(1e-9)
        assert handed[1].restart(1e-9)
        assert handed[1].cancel()
        for timer in handed:
            timer.run()
        assert rig.log == ["c"]
        rig.clock.jump(1e-9)
        rig.engine.fire_due()
        handed.pop().run()
        assert rig.log == ["c", "a"]

    def test_runner_a_new_life_from_inside(self) -> None:
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append
        timer = rig.set("a", 10, lambda: timer.restart(5e-9))
        rig.clock.jump(10e-9)
        rig.engine.fire_due()
        handed.pop().run()
        assert timer.pending()
        rig.clock.jump(5e-9)
        rig.engine.fire_due()
        handed.pop().run()
        assert rig.log == ["a", "a"]

    def test_run_without_a_firing(self) -> None:
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append
        rig.set("a", 10)
        rig.clock.jump(10e-9)
        rig.engine.fire_due()
        (timer,) = handed
        timer.restart(1)
        timer.run()
        timer.cancel()
        timer.run()
        assert rig.log == []

    def test_what_it_returns(self) -> None:
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append
        answer = object()
        rig.engine.call_later(0, lambda: answer)
        rig.engine.call_later(0, lambda: 1 // 0)
        rig.engine.fire_due()
        assert [timer.run() is answer for timer in handed] == [True, False]
        assert [timer.run() for timer in handed] == [None, None]

    def test_errors(self) -> None:
        rig = self.rig()
        handed: list[DueTimer] = []
        rig.engine.runner = handed.append

        def leave() -> None:
            raise KeyboardInterrupt

        rig.set("a", 10, lambda: 1 // 0)
        rig.set("b", 10, leave)
        rig.clock.jump(10e-9)
        rig.engine.fire_due()
        handed[0].run()
        ((error, timer),) = rig.errors
        assert type(error) is ZeroDivisionError
        assert timer is rig.timers["a"]
        with refused(KeyboardInterrupt):
            handed[1].run()

    def test_a_runner_that_raises(self) -> None:
        """
        An error of the runner goes to `on_error` with the timer, which counts as fired. The runner gets the next timer.
        """
        rig = self.rig()
        handed: list[DueTimer] = []

        def runner(timer: DueTimer) -> None:
            if not handed:
                handed.append(timer)
                raise OSError("full")
            timer.run()

        rig.engine.runner = runner
        rig.set("a", 10)
        rig.set("b", 10)
        rig.clock.jump(10e-9)
        assert rig.engine.fire_due() == 2
        assert [(type(error), timer is rig.timers["a"]) for error, timer in rig.errors] == [(OSError, True)]
        handed[0].run()
        assert rig.log == ["b"]
        assert not handed[0].restart(1)

    def test_an_exit_of_the_runner(self) -> None:
        rig = self.rig()

        def runner(_: DueTimer) -> None:
            rig.engine.runner = None
            raise KeyboardInterrupt

        rig.engine.runner = runner
        rig.set("a", 10)
        rig.set("b", 10)
        rig.clock.jump(10e-9)
        with refused(KeyboardInterrupt):
            rig.engine.fire_due()
        assert rig.turn() == ["b"]
