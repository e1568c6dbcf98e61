from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar

from tickwheel.errors import ClosedError, ReentrantError
from tickwheel.testing.engine_suite._base import EngineTests, Rig
from tickwheel.testing.manual_clock import ManualClock
from tickwheel.timers.contract import Engine, Timer

__all__ = ["MemoryTests"]


class Thing:
    def __call__(self, *args: object) -> None:
        pass


class LastWord(Thing):
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call()


class MemoryTests(EngineTests):
    def test_cancel_gives_back(self) -> None:
        rig = self.rig()
        timer, watched = self._watched(rig.engine)
        timer.restart(5)
        assert [ref() is None for ref in watched] == [False] * 3
        timer.cancel()
        assert [ref() is None for ref in watched] == [True] * 3

    def test_firing_gives_back(self) -> None:
        rig = self.rig()
        timer, watched = self._watched(rig.engine)
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert [ref() is None for ref in watched] == [True] * 3
        assert not timer.pending()

    def test_a_drain_gives_back(self) -> None:
        rig = self.rig()
        timer, (callback, argument, _) = self._watched(rig.engine)
        drained = rig.engine.drain()
        assert (callback() is None, argument() is None) == (False, False)
        del drained
        assert (callback() is None, argument() is None) == (True, True)
        assert timer.cancelled()

    def test_a_batch_gives_back(self) -> None:
        rig = self.rig()
        seen: list[bool] = []

        def cancel_sibling() -> None:
            seen.extend([timer.cancel(), *(ref() is None for ref in watched)])

        rig.engine.call_later(0, cancel_sibling)
        timer, watched = self._watched(rig.engine, 0)
        rig.engine.fire_due()
        assert seen == [True] * 4

    def test_an_engine_that_goes(self) -> None:
        """
        An engine in a cycle with callbacks, handles and hooks is garbage-collected, whatever its state.
        """
        for is_closed in (False, True):
            for is_fired in (False, True):
                gc.collect()
                watched = self._cycle(is_closed=is_closed, is_fired=is_fired)
                assert watched() is not None, "it is a cycle"
                gc.collect()
                assert watched() is None

    def _cycle(self, *, is_closed: bool, is_fired: bool) -> weakref.ref[Thing]:
        clock = ManualClock()
        engine = self.make_engine(clock)
        thing = Thing()
        thing.__dict__.update(engine=engine, timers=[], clock=clock)
        engine.on_earlier = thing
        engine.on_error = thing
        for delay in (0, 0, 5, float("inf")):
            thing.__dict__["timers"].append(engine.call_later(delay, thing.__call__, thing))
        if is_fired:
            engine.fire_due(1)
        if is_closed:
            engine.close()
        return weakref.ref(thing)

    def test_a_pending_timer_of_nobody(self) -> None:
        rig = self.rig()
        rig.engine.call_later(1e-9, rig.log.append, "a")
        gc.collect()
        rig.clock.jump(1)
        rig.engine.fire_due()
        assert rig.log == ["a"]

    def test_a_handle_outlives_its_engine(self) -> None:
        clock = ManualClock()
        engine = self.make_engine(clock)
        pending, cancelled = engine.call_later(1, print), engine.call_later(1, print)
        cancelled.cancel()
        engine.close()
        del engine
        gc.collect()
        for timer in (pending, cancelled):
            assert timer.cancelled()
            assert not timer.cancel()
            assert not timer.restart(1)
            assert timer.when() > 0

    def test_last_words(self) -> None:
        for end in ("cancel", "fire", "drain", "close"):
            for verb in ("set", "cancel", "move", "drain", "arm", "fire", "close"):
                rig = self.rig()
                words: list[str] = []
                other = rig.set("other", 5_000)
                do = self._verbs(rig, other)[verb]

                def last_word(rig: Rig = rig, do: Callable[[], object] = do, words: list[str] = words) -> None:
                    rig.engine.check()
                    words.append("said")
                    with _tolerated():
                        do()
                    rig.engine.check()

                timer = rig.engine.call_later(0, LastWord(last_word))
                if end == "cancel":
                    timer.cancel()
                elif end == "fire":
                    rig.engine.fire_due()
                else:
                    getattr(rig.engine, end)()
                assert words == ["said"], (end, verb)
                rig.engine.check()
                assert len(rig.engine) <= 2

    def test_a_collection_at_any_step(self) -> None:
        for verb in ("set", "cancel", "move", "drain", "arm", "close"):
            rig = self.rig()
            said = 0

            def litter(rig: Rig = rig, verb: str = verb) -> None:
                victims = [rig.engine.call_later(5, print) for _ in range(2)] if not rig.engine.closed() else []

                def last_word() -> None:
                    nonlocal said
                    said += 1
                    with _tolerated():
                        self._verbs(rig, victims[0] if victims else None)[verb]()

                thing = LastWord(last_word)
                thing.__dict__["cycle"] = thing

            with _eager_collections():
                for turn in range(60):
                    with _tolerated():
                        litter()
                        timers = [rig.engine.call_later(delay / 1e6, rig.log.append, "x") for delay in range(5)]
                        timers[0].cancel()
                        timers[1].restart(1e-6)
                    rig.clock.jump(1e-6)
                    rig.engine.fire_due(3 if turn % 2 else None)
                gc.collect()
            assert said > 0
            rig.engine.check()
            left = len(rig.engine.drain())
            assert left == 0 or not rig.engine.closed()
            assert len(rig.engine) == 0

    @staticmethod
    def _verbs(rig: Rig, other: Timer | None) -> dict[str, Callable[[], object]]:
        other = other or rig.timers.get("other")
        return {
            "set": lambda: rig.engine.call_later(0, rig.log.append, "from a finalizer"),
            "cancel": lambda: other and other.cancel(),
            "move": lambda: other and other.restart(1e-6),
            "drain": rig.engine.drain,
            "arm": rig.engine.arm,
            "fire": rig.engine.fire_due,
            "close": rig.engine.close,
        }

    @staticmethod
    def _watched(engine: Engine, delay: float = 1) -> tuple[Timer, tuple[weakref.ref[Thing], ...]]:
        variable: ContextVar[Thing] = ContextVar("variable")
        callback, argument, contained, context = Thing(), Thing(), Thing(), Context()
        context.run(variable.set, contained)
        timer = engine.call_later(delay, callback, argument, context=context)
        return timer, (weakref.ref(callback), weakref.ref(argument), weakref.ref(contained))


@contextmanager
def _tolerated() -> Iterator[None]:
    try:
        yield
    except (ClosedError, ReentrantError):
        return


@contextmanager
def _eager_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
