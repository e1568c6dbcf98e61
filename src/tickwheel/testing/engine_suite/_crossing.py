"""
Calls each method on a timer in each state, inside and outside of callbacks. The answers depend only on the state.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tickwheel.errors import ClosedError
from tickwheel.testing.engine_suite._base import EngineTests, Rig

__all__ = ["CrossingTests"]

FIRST: Final = 10e-9
LATER: Final = 40e-9
"""Delay for the methods that move the tested timer."""


class CrossingRig:
    def __init__(self, rig: Rig) -> None:
        self.engine = rig.engine
        self.clock = rig.clock
        self.start = rig.start

    def turn_to(self, at: int) -> None:
        self.clock.jump((self.start + at - self.clock.monotonic_ns()) / 1e9)
        self.engine.fire_due()


@dataclass
class Subject:
    rig: CrossingRig
    handle: Any = None
    id: int = 0
    fired: int = 0
    then: Callable[[], object] | None = None
    answers: list[object] = field(default_factory=list)

    def set(self, *, by_id: bool) -> None:
        if by_id:
            self.id = self.rig.engine.call_later_many([FIRST], self._fire_many)[0]
        else:
            self.handle = self.rig.engine.call_later(FIRST, self._fire)

    def name(self) -> Any:
        return self.handle if self.handle is not None else self.id

    def _fire(self) -> None:
        self.fired += 1
        then, self.then = self.then, None
        if then is not None:
            then()

    def _fire_many(self, ids: array[int]) -> None:
        assert list(ids) == [self.id], "a new life has the id of the former one"
        self._fire()


def by_cancel_many(subject: Subject) -> bool:
    return subject.rig.engine.cancel_many([subject.name()]) == 1


def by_array(subject: Subject) -> bool:
    names = array("q", [subject.id]) if subject.id else [subject.name()]
    return subject.rig.engine.cancel_many(names) == 1


def by_move_many(subject: Subject) -> bool:
    return subject.rig.engine.move_many([subject.name()], LATER) == 1


def by_delays(subject: Subject) -> bool:
    names = array("q", [subject.id]) if subject.id else [subject.name()]
    return subject.rig.engine.move_many(names, array("d", [LATER])) == 1


ENDS: Final[dict[str, Callable[[Subject], bool]]] = {"cancel_many": by_cancel_many, "cancel_many of an array": by_array}
MOVES: Final[dict[str, Callable[[Subject], bool]]] = {"move_many": by_move_many, "move_many of arrays": by_delays}
HANDLE_ENDS: Final[dict[str, Callable[[Subject], bool]]] = {"cancel": lambda subject: subject.handle.cancel()}
HANDLE_MOVES: Final[dict[str, Callable[[Subject], bool]]] = {
    "restart": lambda subject: subject.handle.restart(LATER),
    "reschedule": lambda subject: subject.handle.reschedule(subject.rig.clock.monotonic() + LATER),
}


def nothing(_subject: Subject) -> None: ...


def end(subject: Subject) -> None:
    assert by_cancel_many(subject)


def move(subject: Subject) -> None:
    assert by_move_many(subject)


def move_and_end(subject: Subject) -> None:
    move(subject)
    end(subject)


def move_twice(subject: Subject) -> None:
    move(subject)
    move(subject)


def drain(subject: Subject) -> None:
    subject.rig.engine.drain()


def move_and_drain(subject: Subject) -> None:
    move(subject)
    drained = subject.rig.engine.drain()
    assert len(drained) == 1
    if subject.id:
        assert drained[0].args == (subject.id,)


def close(subject: Subject) -> None:
    subject.rig.engine.close()


STATES: Final[dict[str, tuple[Callable[[Subject], None], bool, bool]]] = {
    "pending": (nothing, True, True),
    "moved": (move, True, True),
    "cancelled": (end, False, False),
    "drained": (drain, False, False),
    "closed": (close, False, False),
}
"""For each state: a function that produces it, and whether the timer can then be cancelled and moved."""

OWN_STATES: Final[dict[str, tuple[Callable[[Subject], None], bool, bool]]] = {
    "firing": (nothing, False, True),
    "a new life": (move, True, True),
    "a new life, moved": (move_twice, True, True),
    "a new life, cancelled": (move_and_end, False, False),
    "a new life, drained": (move_and_drain, False, False),
    "firing, the others drained": (drain, False, True),
    "firing, closed": (close, False, False),
}
"""A table like `STATES`, for the states of a timer inside its own callback."""


class CrossingTests(EngineTests):
    def test_from_outside(self) -> None:
        self._cross(STATES, lambda _subject, ask: ask())

    def test_from_another_callback(self) -> None:
        def place(subject: Subject, ask: Callable[[], None]) -> None:
            subject.rig.engine.call_later(1e-9, ask)
            subject.rig.turn_to(5)

        self._cross(STATES, place)

    def test_from_a_sibling(self) -> None:
        def place(subject: Subject, _ask: Callable[[], None]) -> None:
            subject.rig.turn_to(10)

        self._cross(STATES, place, before=True)

    def test_from_a_batch(self) -> None:
        def place(subject: Subject, ask: Callable[[], None]) -> None:
            subject.rig.engine.call_later_many([1e-9], lambda _: ask())
            subject.rig.turn_to(5)

        self._cross(STATES, place)

    def test_from_its_own_callback(self) -> None:
        def place(subject: Subject, ask: Callable[[], None]) -> None:
            subject.then = ask
            subject.rig.turn_to(10)

        self._cross(OWN_STATES, place, is_own=True)

    def test_in_a_worker(self) -> None:
        def place(subject: Subject, ask: Callable[[], None]) -> None:
            taken: list[Any] = []
            subject.rig.engine.runner = taken.append
            subject.then = ask
            subject.rig.turn_to(10)
            subject.rig.engine.runner = None
            assert subject.fired == 0
            for timer in taken:
                timer.run()

        self._cross(OWN_STATES, place, is_own=True)

    def test_while_it_waits_for_a_worker(self) -> None:
        def place(subject: Subject, ask: Callable[[], None]) -> None:
            taken: list[Any] = []
            subject.rig.engine.runner = taken.append
            subject.rig.turn_to(10)
            subject.rig.engine.runner = None
            ask()
            for timer in taken:
                timer.run()

        waiting = {
            name: OWN_STATES[name] for name in ("firing", "a new life", "a new life, cancelled", "firing, closed")
        }
        self._cross(waiting, place, is_waiting=True)

    def test_after_it_fired(self) -> None:
        def place(subject: Subject, ask: Callable[[], None]) -> None:
            subject.rig.turn_to(10)
            ask()

        def after_an_error(subject: Subject, ask: Callable[[], None]) -> None:
            subject.then = lambda: 1 / 0
            subject.rig.engine.on_error = lambda _error, _timer: ask()
            subject.rig.turn_to(10)

        for each in (place, after_an_error):
            self._cross({"fired": (nothing, False, False)}, each, is_fired=True)

    def _cross(
        self,
        states: dict[str, tuple[Callable[[Subject], None], bool, bool]],
        place: Callable[[Subject, Callable[[], None]], None],
        *,
        before: bool = False,
        is_own: bool = False,
        is_waiting: bool = False,
        is_fired: bool = False,
    ) -> None:
        for by_id in (False, True):
            ends = ENDS if by_id else {**ENDS, **HANDLE_ENDS}
            moves = MOVES if by_id else {**MOVES, **HANDLE_MOVES}
            for state, (prepare, can_end, can_move) in states.items():
                for verb, call in {**ends, **moves}.items():
                    what = f"{verb} by {'id' if by_id else 'handle'}, {state}"
                    rig = CrossingRig(self.rig())
                    subject = Subject(rig)
                    asked: list[bool] = []

                    def ask(
                        subject: Subject = subject,
                        prepare: Callable[[Subject], None] = prepare,
                        call: Callable[[Subject], bool] = call,
                        asked: list[bool] = asked,
                    ) -> None:
                        prepare(subject)
                        asked.append(call(subject))

                    if before:
                        rig.engine.call_later(FIRST, ask)
                    subject.set(by_id=by_id)
                    place(subject, ask)
                    expected = can_end if verb in ends else can_move
                    assert asked == [expected], f"{what}: {asked}"
                    is_pending = verb in moves and can_move
                    assert len(rig.engine) == is_pending, f"{what}: {len(rig.engine)} pending"
                    if by_id:
                        assert rig.engine.has_id(subject.id) == is_pending, what
                    else:
                        assert subject.handle.pending() == is_pending, what
                    former = subject.fired
                    is_void = is_waiting and ((verb in moves and can_move) or "new life" in state)
                    has_fired = is_own or is_fired or (is_waiting and not is_void)
                    assert former == has_fired, f"{what}: fired {former} times"
                    rig.turn_to(10_000)
                    assert subject.fired - former == is_pending, f"{what}: fired {subject.fired - former} times more"
                    rig.engine.check()
                    self._expect_counts(rig, what)

    @staticmethod
    def _expect_counts(rig: CrossingRig, what: str) -> None:
        stats = rig.engine.stats()
        assert stats["pending"] == len(rig.engine) == 0, what
        assert stats["sets"] == stats["cancels"] + stats["fires"], f"{what}: {stats}"
        try:
            assert len(rig.engine.call_later_many([1], print)) == 1, what
        except ClosedError:
            assert rig.engine.closed(), what
