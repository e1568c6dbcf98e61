from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

from tickwheel.testing.engine_suite._base import EngineTests, Rig
from tickwheel.timers.contract import Timer

__all__ = ["ThreadTests"]

PATIENCE_S = 20.0
"""Maximum wait in seconds. A longer wait means that something hangs."""


class ThreadTests(EngineTests):
    def test_a_turn_beside_a_turn(self) -> None:
        """
        While one thread fires timers, `fire_due` in another thread returns 0 immediately, and no firing is lost.
        """
        rig = self.rig()
        answers: list[int] = []

        def then() -> None:
            other = threading.Thread(target=lambda: answers.append(rig.engine.fire_due()))
            other.start()
            other.join(PATIENCE_S)

        rig.set("a", 10, then)
        rig.set("b", 10)
        assert rig.turn(10) == ["a", "b"]
        assert answers == [0]

    def test_others_use_it_during_a_callback(self) -> None:
        rig = self.rig()
        answers: list[object] = []

        def elsewhere() -> None:
            answers.append(rig.timers["b"].cancel())
            answers.append(rig.timers["c"].reschedule(rig.when(500)))
            rig.set("e", 20)
            rig.engine.check()
            answers.append(len(rig.engine))
            answers.append(rig.timers["a"].cancel())

        def then() -> None:
            other = threading.Thread(target=elsewhere)
            other.start()
            other.join(PATIENCE_S)

        rig.set("a", 10, then)
        for label in "bcd":
            rig.set(label, 10)
        assert rig.turn(10) == ["a", "d"]
        assert answers == [True, True, 3, False]
        assert rig.turn(1_000) == ["e", "c"]

    def test_moved_from_elsewhere_while_it_fires(self) -> None:
        rig = self.rig()

        def then() -> None:
            other = threading.Thread(target=lambda: rig.timers["a"].reschedule(rig.when(20)))
            other.start()
            other.join(PATIENCE_S)

        rig.set("a", 10, then)
        assert rig.turn(10) == ["a"]
        assert rig.timers["a"].pending()
        assert len(rig.engine) == 1

    def test_hammered(self) -> None:
        """
        Each timer has exactly one outcome while four threads set, move and cancel timers and a fifth fires them.

        A timer that is moved while it fires may have two outcomes, because it fires once more.
        """
        hammering = Hammering(self.rig())
        hammering.run()
        assert hammering.failures == []
        assert len(hammering.outcomes) == 6_000
        for name, timer, was_cancelled in hammering.outcomes:
            fired, is_moved = hammering.fired[name], name % 2
            assert not timer.pending()
            assert fired + timer.cancelled() == 1 or (is_moved and fired > 0), (hammering.seed, name)
            assert not was_cancelled or timer.cancelled(), (hammering.seed, name)


class Hammering:
    """
    Four threads set, move and cancel timers of their own. A fifth thread fires all timers. Every second timer is moved.

    *fired* has the number of calls per timer. *outcomes* has, for each timer, its number, and the result of its cancel.
    """

    def __init__(self, rig: Rig) -> None:
        self.seed = random.randrange(2**32)
        self.fired: Counter[int] = Counter()
        self.outcomes: list[tuple[int, Timer, bool]] = []
        self.failures: list[BaseException] = []
        self._rig = rig
        self._is_over = threading.Event()

    def run(self) -> None:
        workers = [threading.Thread(target=self._noting, args=(self._hammer, number)) for number in range(4)]
        firing = threading.Thread(target=self._noting, args=(self._fire,))
        for thread in (*workers, firing):
            thread.start()
        for thread in workers:
            thread.join(PATIENCE_S)
        self._is_over.set()
        firing.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in (*workers, firing)), f"hangs, seed {self.seed}"
        self._rig.clock.jump(1)
        self._rig.engine.fire_due()
        self._rig.engine.check()
        assert len(self._rig.engine) == 0

    def _hammer(self, number: int) -> None:
        rng = random.Random(self.seed + number)
        mine: list[tuple[int, Timer]] = []
        for step in range(1_500):
            name = number * 1_000_000 + step
            mine.append((name, self._rig.engine.call_later(rng.random() * 1e-6, self.fired.update, [name])))
            for moved, timer in mine[-4:]:
                if moved % 2:
                    timer.restart(rng.random() * 1e-6)
            if step % 2:
                victim, timer = mine.pop(rng.randrange(len(mine)))
                self.outcomes.append((victim, timer, timer.cancel()))
        self.outcomes.extend((name, timer, False) for name, timer in mine)

    def _fire(self) -> None:
        while not self._is_over.is_set():
            self._rig.clock.jump(1e-8)
            self._rig.engine.fire_due(50)

    def _noting(self, target: Callable[..., None], *args: object) -> None:
        try:
            target(*args)
        except BaseException as error:
            self.failures.append(error)
            raise
