"""
The verbs on many jobs, as data: what a caller asks for, before it is known who does it.

A face makes one of these, and a backend does it: with its own writer, on the caller's connection, or over HTTP.

Internal: other rooms use it, users do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, assert_never

from tickwheel.scheduler import checks
from tickwheel.scheduler.model import Cancel, Move, Replay, Set, Write
from tickwheel.scheduler.verbs.requests import SetRequest, When, due_at

__all__ = ["CancelJobs", "MoveJobs", "ReplayJobs", "SetJobs", "Verb", "writes_of"]


@dataclass(frozen=True, slots=True)
class SetJobs:
    """
    Set each as it says.
    """

    name: ClassVar = "set_many"
    requests: Iterable[SetRequest]


@dataclass(frozen=True, slots=True)
class MoveJobs:
    """
    Give the pending jobs of *keys* one instant.
    """

    name: ClassVar = "move"
    keys: Iterable[str]
    when: When
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class CancelJobs:
    """
    Remove the jobs of *keys*.
    """

    name: ClassVar = "cancel"
    keys: Iterable[str]
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayJobs:
    """
    Make the dead jobs of *keys* pending again, due now.
    """

    name: ClassVar = "replay"
    keys: Iterable[str]
    if_generation: int | None = None


Verb: TypeAlias = SetJobs | MoveJobs | CancelJobs | ReplayJobs


def writes_of(
    verb: Verb, set_write: Callable[[SetRequest, int, int | None], Set], now: int, era: int | None
) -> list[Write]:
    """
    Return the writes that do *verb*, one for each job, in order; all is checked first.

    Args:
        verb: What was asked for.
        set_write: Makes the write of one request, by the same time and era.
        now: The store's time in ms.
        era: The clock's, for instants that count elapsed time; None where nobody follows them.

    Raises:
        InvalidJobError: Naming the value and the remedy; also InvalidDelayError and TypeError, as `due_at`.
    """
    match verb:
        case SetJobs():
            return [set_write(request, now, era) for request in verb.requests]
        case MoveJobs():
            due = due_at(verb.when.delay, verb.when.at, now)
            counted_in = era if verb.when.at is None else None
            generation = checks.check_generation(verb.if_generation)
            return [Move(key, due, generation, counted_in) for key in checks.check_keys(verb.keys)]
        case CancelJobs():
            generation = checks.check_generation(verb.if_generation)
            return [Cancel(key, generation) for key in checks.check_keys(verb.keys)]
        case ReplayJobs():
            generation = checks.check_generation(verb.if_generation)
            return [Replay(key, now, generation) for key in checks.check_keys(verb.keys)]
        case _:
            assert_never(verb)
