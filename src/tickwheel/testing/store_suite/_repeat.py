"""
A repeated write changes nothing and gets the answer to the first write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tickwheel.jobs.model import (
    Answer,
    AttemptState,
    Cancel,
    Job,
    Move,
    Outcome,
    Recalled,
    Replay,
    Resume,
    Set,
    SetPause,
)
from tickwheel.jobs.once import Once, Repeat
from tickwheel.testing.store_suite._base import Rig, StoreTests, everything

HOUR = 3_600_000
ASKED = "0" * 32
OTHER = "f" * 32

_Marked: TypeAlias = Set | Move | SetPause | Resume | Cancel | Replay


class RepeatTests(StoreTests):
    def test_each_write_is_done_once(self) -> None:
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            dead = rig.dead("dead")
            writes: list[_Marked] = [
                Set(Job("k", 0, rig.now + HOUR, b'"a payload"', handler="h")),
                Move("k", rig.now + 2 * HOUR),
                SetPause("k", "somebody", "a note"),
                Resume("k"),
                Cancel("k"),
                Replay(dead.key, rig.now + HOUR, dead.generation),
            ]
            marked = [replace(write, once=mark(number)) for number, write in enumerate(writes)]
            firsts = [rig.do(write) for write in marked]
            words = ("created", "moved", "paused", "resumed", "cancelled", "replayed")
            assert [answer.outcome.value for answer in firsts] == list(words)
            left = everything(rig.store)
            assert [plain(rig.do(write)) for write in marked] == firsts, "one by one"
            assert [plain(answer) for answer in rig.store.apply(marked)] == firsts, "in one batch"
            assert everything(rig.store) == left

    def test_one_batch_with_a_mark_twice(self) -> None:
        """
        If two equal writes of a batch have one idempotency mark, only the first is done.
        """
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            write = Set(Job("k", 0, rig.now + HOUR), once=mark(0))
            other = Set(Job("k", 0, rig.now + HOUR), once=mark(0, part="1:k"))
            first, second, third = rig.store.apply([write, write, other])
            assert (first.outcome, plain(second)) == (Outcome.CREATED, first)
            assert third.outcome is Outcome.REPLACED

    def test_refusals_are_kept(self) -> None:
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            move = Move("k", rig.now + HOUR, once=mark(0))
            assert rig.do(move).outcome is Outcome.NOT_FOUND
            job = rig.pending("k")
            assert rig.do(move) == Recalled(Outcome.NOT_FOUND)
            move = replace(move, if_generation=job.generation + 1, once=mark(1))
            refused = rig.do(move)
            rig.cancel("k")
            assert plain(rig.do(move)) == refused == Answer(Outcome.WRONG_GENERATION, job)
            rig.running("r")
            cancel = Cancel("r", once=mark(2))
            assert rig.do(cancel).outcome is Outcome.TOO_LATE
            answer = rig.do(replace(cancel, over=rig.status("r", AttemptState.WITHDRAWN)))
            assert (answer.outcome, type(answer)) == (Outcome.CANCELLED, Answer)
            assert plain(rig.do(cancel)) == answer

    def test_another_request_under_the_same_token(self) -> None:
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            first = Set(Job("{t}k", 0, rig.now + HOUR), once=mark(0))
            rig.do(first)
            left = everything(rig.store)
            others: list[_Marked] = [
                Set(Job("{t}k", 0, rig.now), once=mark(0, asked=OTHER)),
                Set(Job("{t}new", 0, rig.now), once=mark(0, "0:{t}new", OTHER)),
                Cancel("{t}k", once=mark(0, "7:{t}k", OTHER)),
            ]
            assert [answer.outcome for answer in rig.store.apply(others)] == [Outcome.KEY_REUSED] * 3
            assert everything(rig.store) == left
            assert rig.do(first).outcome is Outcome.CREATED

    def test_what_has_lapsed(self) -> None:
        """
        After the answer to a write has expired, its idempotency key may be used again.
        """
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            write = Set(Job("k", 0, rig.now + HOUR), once=mark(0, lasts_ms=0))
            first, second = rig.do(write), rig.do(write)
            assert [first.outcome, second.outcome] == [Outcome.CREATED, Outcome.REPLACED]
            other = replace(write, once=mark(0, asked=OTHER))
            assert rig.do(other).outcome is Outcome.REPLACED
            assert rig.do(other) == Recalled(Outcome.REPLACED, rig.get("k"))

    def test_the_reply_to_a_request(self) -> None:
        """
        Only one node at a time can claim a request. All repeats of the request get the first reply.
        """
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            repeat, other = Repeat("a" * 32, ASKED, HOUR), Repeat("a" * 32, OTHER, HOUR)
            claim = repeat.keep(b"", HOUR)
            assert [rig.do(claim).outcome for _ in range(2)] == [Outcome.CREATED, Outcome.TOO_LATE]
            assert rig.do(other.keep(b"", HOUR)).outcome is Outcome.KEY_REUSED
            assert rig.do(repeat.keep(None)).outcome is Outcome.CREATED, "given up"
            assert rig.do(claim).outcome is Outcome.CREATED
            assert rig.do(repeat.keep(b"a\0reply")).outcome is Outcome.CREATED
            assert rig.do(claim) == rig.do(repeat.keep(b"another")) == Recalled(Outcome.KEPT, None, b"a\0reply")
            assert rig.do(repeat.keep(None)) == Recalled(Outcome.KEPT, None, b"a\0reply"), "not given up any more"

    def test_writes_without_a_mark(self) -> None:
        with self.rig() as rig:
            if not rig.store.abilities.keeps_answers:
                return
            bare = Set(Job("{t}bare", 0, rig.now + HOUR))
            marked = Set(Job("{t}marked", 0, rig.now + HOUR), once=mark(0))
            assert outcomes(rig, bare, marked) == ["created", "created"]
            assert outcomes(rig, marked, bare) == ["created", "replaced"]
            assert outcomes(rig, Cancel("{t}marked"), marked) == ["cancelled", "created"]
            assert rig.store.get("{t}marked") is None


def mark(number: int, part: str = "0:k", asked: str = ASKED, lasts_ms: int = HOUR) -> Once:
    return Once(f"{number:032x}", part, asked, lasts_ms)


def plain(answer: Answer) -> Answer:
    assert type(answer) is Recalled, answer
    return Answer(answer.outcome, answer.job)


def outcomes(rig: Rig, *writes: Set | Cancel) -> list[str]:
    return [answer.outcome.value for answer in rig.store.apply(writes)]
