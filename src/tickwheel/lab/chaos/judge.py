"""
Finds violations of the service's guarantees in a history.

    lost          a job was acknowledged, was not cancelled, and never arrived
    doubled       an accepted attempt arrived again, or, without a fault in between, the job arrived as a new attempt
    early         a job arrived before the acknowledged instant, or before the instant in its message
    unexpected    a job arrived that was never set or was already moved or cancelled, or its message has a wrong instant
    silent        an acknowledged job first arrived more than five seconds late, although no fault delayed the job

A job is fired at least once. If a fault loses the target's answer, or the record of the answer, the job may arrive
again. This arrival has another attempt number in its fire id, and is counted as repeated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from tickwheel.lab.chaos.history import Delivery, Fault, History, Outcome, Write

__all__ = ["Verdict", "judge", "owed"]

_SILENT_MS = 5_000.0
"""Maximum lateness of a job in ms, from the end of the last fault that delayed it."""

T = TypeVar("T", Write, Delivery)


@dataclass(slots=True)
class Verdict:
    """
    The findings of a run. Each violation is a sentence.

    *repeated* is the number of repeated arrivals that faults explain. *late_ms* has the lateness of the first arrival
    of each generation.
    """

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    repeated: int = 0
    late_ms: list[float] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        kinds = ("lost", "doubled", "early", "unexpected", "silent")
        return [f"{kind}: {text}" for kind in kinds for text in getattr(self, kind)]


def judge(history: History, in_flight_ms: float, lease_ms: float = 0.0) -> Verdict:
    """
    Return the verdict on the *history* of a completed run.

    *in_flight_ms* is the maximum time that a message takes to the target without a fault. *lease_ms* is the time for
    which no other process may fire the jobs of a killed process.
    """
    verdict = Verdict()
    writes, deliveries = _by_key(history.writes), _by_key(history.deliveries)
    # A process that is paused after it began a firing sends the message when it continues.
    stalled_ms = in_flight_ms + max((fault.ended_at - fault.began_at for fault in history.faults), default=0.0)
    for key in {**writes, **deliveries}:
        life = _Life(writes.get(key, []))
        arrived = deliveries.get(key, [])
        verdict.lost += life.lost(key, arrived)
        verdict.unexpected += life.unexpected(arrived, in_flight_ms, stalled_ms)
        verdict.early += life.early(arrived)
        verdict.silent += life.silent(arrived, history.faults, lease_ms)
        _judge_repeats(arrived, history.faults, verdict)
        verdict.late_ms += life.late(arrived)
    return verdict


def owed(writes: Iterable[Write], deliveries: Iterable[Delivery]) -> set[str]:
    arrived = _by_key(deliveries)
    return {key for key, of_key in _by_key(writes).items() if _Life(of_key).lost(key, arrived.get(key, []))}


class _Life:
    # Judges the deliveries of one key by its writes, which require some deliveries and allow others.

    def __init__(self, writes: Sequence[Write]) -> None:
        self._writes = writes
        self._due = {write.generation: write.due_at for write in writes if _is_new(write)}
        self._is_sure = all(write.outcome is not Outcome.UNKNOWN for write in writes)

    def lost(self, key: str, arrived: Iterable[Delivery]) -> list[str]:
        generation = self._owed()
        if generation is None or any(one.is_accepted and one.generation >= generation for one in arrived):
            return []
        return [f"{key}/{generation}, due {self._due[generation]:.0f}"]

    def _owed(self) -> int | None:
        # Returns a generation: this one or a later one has to arrive.
        generation = None
        for write in self._writes:
            if _is_new(write):
                generation = write.generation
            elif write.verb == "cancel" and write.outcome is not Outcome.REFUSED:
                generation = None
        return generation

    def unexpected(self, arrived: Iterable[Delivery], in_flight_ms: float, stalled_ms: float) -> Iterator[str]:
        for one in arrived:
            due_at = self._due.get(one.generation)
            if due_at is None and (self._is_sure or not self._writes):
                yield f"{_fire_id(one)} arrived, and that generation was never set"
            elif due_at is not None and one.due_at < due_at:
                yield f"{_fire_id(one)} carries {one.due_at:.0f}, and {due_at:.0f} was acknowledged"
            for write in self._writes:
                # During a firing, a set is accepted, and the firing completes; moves and cancels are refused.
                until = write.ended_at + (stalled_ms if write.verb == "set" else in_flight_ms)
                if _overrules(write, one) and one.arrived_at > until:
                    yield f"{_fire_id(one)} arrived {one.arrived_at - write.ended_at:.0f} ms after its {write.verb}"

    def early(self, arrived: Iterable[Delivery]) -> Iterator[str]:
        for one in arrived:
            due_at = max(one.due_at, self._due.get(one.generation, 0.0))
            if one.arrived_at < due_at:
                yield f"{_fire_id(one)} arrived {due_at - one.arrived_at:.1f} ms before {due_at:.0f}"

    def silent(self, arrived: Iterable[Delivery], faults: Iterable[Fault], lease_ms: float) -> Iterator[str]:
        answered = {write.generation: write.ended_at for write in self._writes if _is_new(write)}
        for one in _first(arrived):
            if one.generation not in answered:  # it is unknown when its write was answered
                continue
            start = max(self._due.get(one.generation, one.due_at), one.due_at, answered[one.generation])
            for fault in sorted(faults, key=lambda fault: fault.began_at):
                if fault.began_at - start <= _SILENT_MS:
                    start = max(start, fault.ended_at)
                    if fault.kind == "kill":  # the next owner polls three times per lease
                        start = max(start, fault.began_at + lease_ms * 4 / 3)
            if one.arrived_at - start > _SILENT_MS:
                yield f"{_fire_id(one)} arrived {one.arrived_at - start:.0f} ms after it was due and all was well"

    def late(self, arrived: Iterable[Delivery]) -> Iterator[float]:
        for one in _first(arrived):
            yield one.arrived_at - self._due.get(one.generation, one.due_at)


def _judge_repeats(arrived: Sequence[Delivery], faults: Sequence[Fault], verdict: Verdict) -> None:
    accepted: set[tuple[int, int]] = set()
    taken: dict[int, list[Delivery]] = defaultdict(list)
    for one in arrived:
        if (one.generation, one.attempt) in accepted:  # a receiver that was full gets the same attempt again
            verdict.doubled.append(f"{_fire_id(one)} arrived again")
        if one.is_accepted:
            accepted.add((one.generation, one.attempt))
        taken[one.generation].append(one)
    for of_generation in taken.values():
        for before, after in pairwise(of_generation):
            if not before.is_accepted or before.attempt == after.attempt:
                continue
            if any(fault.began_at <= after.arrived_at and fault.ended_at >= before.arrived_at for fault in faults):
                verdict.repeated += 1
            else:
                verdict.doubled.append(f"{_fire_id(after)} arrived after {_fire_id(before)} was taken, without a fault")


def _first(arrived: Iterable[Delivery]) -> list[Delivery]:
    first: dict[int, Delivery] = {}
    for one in arrived:
        first.setdefault(one.generation, one)
    return list(first.values())


def _is_new(write: Write) -> bool:
    return write.outcome is Outcome.ACKNOWLEDGED and write.verb != "cancel"


def _overrules(write: Write, one: Delivery) -> bool:
    if write.outcome is not Outcome.ACKNOWLEDGED:
        return False
    # A cancel names the generation that it ended.
    return one.generation <= write.generation if write.verb == "cancel" else one.generation < write.generation


def _fire_id(one: Delivery) -> str:
    return f"{one.key}/{one.generation}/{one.attempt}"


def _by_key(events: Iterable[T]) -> dict[str, list[T]]:
    by_key: dict[str, list[T]] = {}
    for event in events:
        by_key.setdefault(event.key, []).append(event)
    return by_key
