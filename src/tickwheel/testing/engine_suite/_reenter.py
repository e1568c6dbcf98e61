from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial

from tickwheel.errors import ReentrantError
from tickwheel.testing.engine_suite._base import EngineTests, Rig, refused

__all__ = ["ReenterTests"]

BATCH = ("a", "b", "c", "d")
"""Labels of the timers of a batch. All these timers have the deadline 10."""


class ReenterTests(EngineTests):
    def batches(self, act: Callable[[Rig], object]) -> Iterator[tuple[int, str, Rig]]:
        """
        Yield each position of a batch, its label, and a fresh rig in which the timer at that position calls *act*.

        Each rig also has a later timer at 1000.
        """
        for position, acting in enumerate(BATCH):
            rig = self.rig()
            for label in BATCH:
                rig.set(label, 10, partial(act, rig) if label == acting else None)
            rig.set("far", 1_000)
            yield position, acting, rig

    def test_set(self) -> None:
        def act(rig: Rig) -> None:
            for label, at in (("past", 5), ("now", 10), ("later", 11), ("last", 2_000)):
                rig.set(label, at)

        for _, _, rig in self.batches(act):
            assert rig.turn(10) == list(BATCH)
            assert rig.turn(11) == ["past", "now", "later"]
            assert rig.turn(5_000) == ["far", "last"]

    def test_cancel_one(self) -> None:
        for victim in (*BATCH, "far"):
            self._cancel_one(victim)

    def _cancel_one(self, victim: str) -> None:
        for position, _, rig in self.batches(lambda rig: rig.note(rig.timers[victim].cancel())):
            called = BATCH[: position + 1]
            assert rig.turn(10) == [label for label in BATCH if label in called or label != victim]
            assert rig.notes == [victim not in called]
            assert rig.timers[victim].cancelled() == rig.notes[0]
            assert rig.turn(1_000) == ["far"] * (victim != "far")

    def test_cancel_all(self) -> None:
        for position, _, rig in self.batches(lambda rig: rig.note(*(each.cancel() for each in rig.timers.values()))):
            assert rig.turn(10) == list(BATCH[: position + 1])
            assert rig.notes == [False] * (position + 1) + [True] * (len(BATCH) - position)
            assert rig.turn(5_000) == []
            assert len(rig.engine) == 0

    def test_move_one(self) -> None:
        """
        If a callback moves a later timer of its batch, that timer fires at its new time, and not in this batch.
        """
        for at in (5, 10, 11, 500):
            for victim in BATCH:
                self._move_one(victim, at)

    def _move_one(self, victim: str, at: int) -> None:
        for position, acting, rig in self.batches(
            lambda rig: rig.note(rig.timers[victim].reschedule(rig.when(at))) if not rig.notes else None
        ):
            is_in_time = victim not in BATCH[:position]
            is_stopped = is_in_time and victim != acting
            assert rig.turn(10) == [label for label in BATCH if label != victim or not is_stopped]
            assert rig.notes == [is_in_time]
            assert rig.turn(max(at, 10)) == [victim] * is_in_time
            assert rig.turn(1_000) == ["far"]

    def test_move_away_and_back(self) -> None:
        def act(rig: Rig) -> None:
            for at in (2_000, 5, 10):
                rig.note(rig.timers["d"].reschedule(rig.when(at)))

        for position, _, rig in self.batches(act):
            if position < len(BATCH) - 1:
                assert rig.turn(10) == ["a", "b", "c"]
                assert rig.notes == [True] * 3
                assert rig.turn(10) == ["d"]
                assert rig.turn(5_000) == ["far"]

    def test_drain(self) -> None:
        for position, _, rig in self.batches(lambda rig: rig.note(*(each.args[0] for each in rig.engine.drain()))):
            assert rig.turn(10) == list(BATCH[: position + 1])
            assert rig.notes == [*BATCH[position + 1 :], "far"]
            assert all(rig.timers[str(label)].cancelled() for label in rig.notes)
            assert len(rig.engine) == 0
            rig.set("after", 20)
            assert rig.turn(5_000) == ["after"]

    def test_drain_and_set(self) -> None:
        def act(rig: Rig) -> None:
            rig.engine.drain()
            rig.set("after", 10)

        for position, _, rig in self.batches(act):
            assert rig.turn(10) == list(BATCH[: position + 1])
            assert rig.turn(10) == ["after"]

    def test_drain_does_not_end_who_drains(self) -> None:
        def act(rig: Rig) -> None:
            rig.engine.drain()
            rig.note(rig.timers[rig.log[-1]].restart(0))

        for position, acting, rig in self.batches(act):
            assert rig.turn(10) == list(BATCH[: position + 1])
            assert rig.notes == [True]
            assert rig.timers[acting].pending()
            assert len(rig.engine) == 1

    def test_close(self) -> None:
        def act(rig: Rig) -> None:
            rig.note(*(each.args[0] for each in rig.engine.close()))
            rig.note(rig.timers[rig.log[-1]].restart(0))
            with refused(RuntimeError, "closed"):
                rig.set("after", 10)

        for position, _, rig in self.batches(act):
            assert rig.turn(10) == list(BATCH[: position + 1])
            assert rig.errors == []
            assert rig.notes == [*BATCH[position + 1 :], "far", False]
            assert rig.turn(5_000) == []
            assert len(rig.engine) == 0

    def test_fire_inside_a_firing(self) -> None:
        for _, acting, rig in self.batches(lambda rig: rig.engine.fire_due()):
            assert rig.turn(10) == list(BATCH)
            ((error, timer),) = rig.errors
            assert type(error) is ReentrantError
            assert timer is rig.timers[acting]
            assert rig.turn(1_000) == ["far"]

    def test_look_around(self) -> None:
        def act(rig: Rig) -> None:
            rig.engine.check()
            gc.collect()
            stats = rig.engine.stats()
            rig.note(len(rig.engine), stats["pending"], stats["fires"], rig.engine.closed())

        for position, _, rig in self.batches(act):
            rig.turn(10)
            left = len(BATCH) - position
            assert rig.notes == [left, left, position + 1, False]

    def test_arm_inside(self) -> None:
        for position, _, rig in self.batches(lambda rig: rig.note(rig.engine.arm())):
            rig.turn(10)
            (armed,) = rig.notes
            assert isinstance(armed, int)
            assert armed <= rig.start + (10 if position < len(BATCH) - 1 else 1_000)
            assert rig.turn(1_000) == ["far"]
