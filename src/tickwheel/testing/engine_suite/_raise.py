from __future__ import annotations

import asyncio

from tickwheel.testing.engine_suite._base import EngineTests, refused

__all__ = ["RaiseTests"]


class CustomExit(BaseException): ...


EXCEPTIONS = (
    Exception,
    ValueError,
    AssertionError,
    StopIteration,
    MemoryError,
    RecursionError,
    ExceptionGroup("", [ValueError()]),
)
EXITS = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, CustomExit)


class RaiseTests(EngineTests):
    def test_an_exception_goes_to_the_handler(self) -> None:
        for kind in EXCEPTIONS:
            for position in range(3):
                rig = self.rig()

                def fail(kind: object = kind) -> None:
                    raise kind  # type: ignore[misc]

                for number, label in enumerate("abc"):
                    rig.set(label, 10, fail if number == position else None)
                assert rig.turn(10) == ["a", "b", "c"]
                ((error, timer),) = rig.errors
                assert error is kind or type(error) is kind
                assert timer is rig.timers["abc"[position]]
                assert len(rig.engine) == 0

    def test_an_exit_leaves_the_turn(self) -> None:
        """
        An exception that is not an `Exception` propagates from `fire_due`. The next call fires the other timers.
        """
        for kind in EXITS:
            for position in range(3):
                rig = self.rig()

                def leave(kind: type[BaseException] = kind) -> None:
                    raise kind

                for number, label in enumerate("abc"):
                    rig.set(label, 10, leave if number == position else None)
                rig.set("far", 1_000)
                rig.clock.jump(20e-9)
                with refused(kind):
                    rig.engine.fire_due()
                rig.engine.check()
                called = list("abc"[: position + 1])
                assert rig.log == called
                assert len(rig.engine) == 4 - len(called)
                assert [rig.timers[label].pending() for label in "abc"] == [label not in called for label in "abc"]
                assert rig.turn() == [label for label in "abc" if label not in called]
                assert rig.turn(2_000) == ["far"]
                assert rig.errors == []

    def test_the_rest_keeps_its_place(self) -> None:
        rig = self.rig()

        def leave() -> None:
            rig.set("same instant", 10)
            raise KeyboardInterrupt

        rig.set("a", 10, leave)
        rig.set("b", 10)
        rig.set("c", 12)
        rig.clock.jump(20e-9)
        with refused(KeyboardInterrupt):
            rig.engine.fire_due()
        rig.set("earlier", 5)
        rig.set("between", 11)
        assert rig.turn() == ["earlier", "b", "same instant", "between", "c"]

    def test_the_rest_waits_for_what_is_earlier(self) -> None:
        rig = self.rig()

        def leave() -> None:
            raise KeyboardInterrupt

        def cancel() -> None:
            rig.timers["c"].cancel()

        rig.set("a", 10, leave)
        rig.set("rest", 10)
        rig.clock.jump(20e-9)
        with refused(KeyboardInterrupt):
            rig.engine.fire_due()
        rig.set("b", 1, cancel)
        rig.set("c", 2)
        rig.set("d", 3)
        rig.log.clear()
        while rig.engine.arm() is not None:
            rig.engine.fire_due(2)
        assert rig.log == ["b", "d", "rest"]

    def test_raise_the_rest_can_be_moved_and_cancelled(self) -> None:
        rig = self.rig()

        def leave() -> None:
            raise SystemExit

        rig.set("a", 10, leave)
        for label in "bcde":
            rig.set(label, 10)
        rig.clock.jump(20e-9)
        with refused(SystemExit):
            rig.engine.fire_due()
        assert rig.timers["b"].reschedule(rig.when(100))
        assert rig.timers["c"].cancel()
        assert rig.timers["d"].reschedule(rig.when(10))
        assert rig.turn() == ["e", "d"]
        assert [each.args[0] for each in rig.engine.drain()] == ["b"]

    def test_what_the_handler_raises_leaves_the_turn(self) -> None:
        rig = self.rig()

        def handler(error: BaseException, _: object) -> None:
            raise OSError from error

        rig.engine.on_error = handler
        rig.set("a", 10, lambda: 1 // 0)
        rig.set("b", 10)
        rig.clock.jump(20e-9)
        with refused(OSError):
            rig.engine.fire_due()
        assert rig.log == ["a"]
        assert rig.turn() == ["b"]

    def test_the_next_turn_is_not_nested(self) -> None:
        rig = self.rig()

        def leave() -> None:
            raise KeyboardInterrupt

        for _ in range(3):
            rig.engine.call_later(0, leave)
            with refused(KeyboardInterrupt):
                rig.engine.fire_due()
        assert rig.turn() == []
