"""
Compares callers' requests and answers with the writes that took effect in the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from simulation.history import Answered, Called, Committed
from tickwheel.jobs.checks import decode_payload
from tickwheel.jobs.model import Answer, Cancel, Move, Outcome, Replay, Resume, Set, SetMode, SetPause

__all__ = ["Callers"]

_BEHIND_MS: Final = 2.0
"""Tolerance in ms for the comparison of two rounded times."""
_VERBS: Final[dict[str, type]] = {
    "set": Set,
    "move": Move,
    "run_now": Move,
    "cancel": Cancel,
    "stop": Cancel,
    "replay": Replay,
    "pause": SetPause,
    "resume": Resume,
}


class Callers:
    """
    All calls in the history of a simulated day, by the number of the call.
    """

    def __init__(self) -> None:
        self._called: dict[int, Called] = {}
        self._answered: dict[int, Answered] = {}
        self._commits: defaultdict[tuple[str, str], list[Committed]] = defaultdict(list)
        self._set_by: set[int] = set()

    def called(self, event: Called) -> None:
        """
        Record a call.
        """
        self._called[event.call] = event

    def answered(self, event: Answered) -> None:
        """
        Record the answer to a caller.
        """
        self._answered[event.call] = event

    def committed(self, event: Committed, key: str) -> None:
        """
        Record a write that took effect for *key*.
        """
        self._commits[event.machine, key].append(event)
        set_ = (Outcome.CREATED, Outcome.REPLACED, Outcome.KEPT)
        if isinstance(event.write, Set) and event.answer.outcome in set_:
            self._set_by.add(decode_payload(event.write.job.payload)["call"])

    def due_too_soon(self, event: Committed) -> str | None:
        """
        Return the fault if a write made a job due sooner than requested, by the clock of the store.
        """
        write, job = event.write, event.answer.job
        asked = decode_payload(write.job.payload) if isinstance(write, Set) else {}
        if not isinstance(write, Set) or "delay" not in asked:
            return None
        called_ms = event.store_ms - (event.at - self._called[asked["call"]].at) / 1e6
        is_told = job is not None and event.answer.outcome in (Outcome.CREATED, Outcome.REPLACED)
        is_free = write.mode is SetMode.REPLACE and write.max_wait_ms is None
        due_at = job.due_at if job is not None and is_told and is_free else write.job.due_at
        missing = called_ms + asked["delay"] * 1e3 - due_at
        return f"{write.job.key!r} is due {missing:.0f} ms before its delay is over" if missing > _BEHIND_MS else None

    def asked_at(self, event: Committed) -> int:
        """
        Return the time at which a caller requested *event*, or the time of *event* if it does not set a job.
        """
        if not isinstance(event.write, Set):
            return event.at
        return self._called[decode_payload(event.write.job.payload)["call"]].at

    def key_of(self, call: int) -> str:
        """
        Return the key to which *call* refers.
        """
        return self._called[call].key

    def judge(self) -> Iterator[tuple[int, str]]:
        """
        Yield the time and the text of each untrue answer to a caller.
        """
        for number, called in self._called.items():
            answered = self._answered.get(number)
            if answered is None or answered.outcome == "unknown":
                continue
            if called.verb == "skip":  # a skip reads first, and may write nothing
                continue
            if answered.outcome == "refused":
                if called.verb == "set" and number in self._set_by:
                    yield answered.at, f"call {number} was refused, and {called.key!r} is set"
                continue
            found = [
                commit.answer
                for commit in self._commits[called.machine, called.key]
                if called.at <= commit.at <= answered.at and isinstance(commit.write, _VERBS[called.verb])
            ]
            told = (answered.outcome, answered.generation)
            if told not in [(each.outcome.value, _generation(each)) for each in found]:
                yield answered.at, f"{called.verb} of {called.key!r} got the answer {told}, and the store said {found}"


def _generation(answer: Answer) -> int:
    return 0 if answer.job is None else answer.job.generation
