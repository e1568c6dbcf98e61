"""
Operations on many jobs, as data. A backend sends them to its writer, to the caller's connection, or over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, assert_never

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Actor, Cancel, Move, Replay, Resume, Set, SetPause, Write
from tickwheel.jobs.requests import SetRequest, When, due_at, flag
from tickwheel.typing import Duration

ACTOR: ContextVar[Actor | None] = ContextVar("tickwheel_actor", default=None)
"""The author that the history records for the writes of a service's current request."""

__all__ = [
    "ACTOR",
    "NOTE_BYTES_MAX",
    "CancelJobs",
    "MoveJobs",
    "PauseJobs",
    "ReplayJobs",
    "ResumeJobs",
    "SetJobs",
    "SetWrites",
    "Verb",
    "note_of",
    "writes_of",
]

NOTE_BYTES_MAX: Final = 1_000
"""Maximum length of the note of a pause, in bytes."""


@dataclass(frozen=True, slots=True)
class SetJobs:
    name: ClassVar = "set_many"
    requests: Iterable[SetRequest]


@dataclass(frozen=True, slots=True)
class MoveJobs:
    """
    Move the pending jobs of *keys*. If *runs_now* is True, a recurring job gets an additional run.
    """

    name: ClassVar = "move"
    keys: Iterable[str]
    when: When
    if_generation: int | None = None
    runs_now: bool = False


@dataclass(frozen=True, slots=True)
class CancelJobs:
    name: ClassVar = "cancel"
    keys: Iterable[str]
    if_generation: int | None = None
    running: bool = False


@dataclass(frozen=True, slots=True)
class ReplayJobs:
    name: ClassVar = "replay"
    keys: Iterable[str]
    if_generation: int | None = None
    delay: Duration = 0
    rate: float | None = None

    def delays(self, count: int) -> list[float]:
        first = checks.delay_ms(self.delay) / 1000
        step = 0.0 if self.rate is None else 1 / checks.check_rate(self.rate)
        return [first + number * step for number in range(count)]


@dataclass(frozen=True, slots=True)
class PauseJobs:
    name: ClassVar = "pause"
    keys: Iterable[str]
    note: str = ""
    by: str | None = None
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class ResumeJobs:
    name: ClassVar = "resume"
    keys: Iterable[str]
    if_generation: int | None = None


SetWrites: TypeAlias = Callable[[Iterable[SetRequest], int, int | None, int | None], list[Set]]

Verb: TypeAlias = SetJobs | MoveJobs | CancelJobs | ReplayJobs | PauseJobs | ResumeJobs


def writes_of(
    verb: Verb,
    set_writes: SetWrites,
    now: int,
    clock_step: int | None,
    latest: int | None = None,
    *,
    is_estimate: bool = False,
    actor: Actor | None,
    owner: str,
) -> list[Write]:
    """
    Return the writes of *verb*, one for each job, in order. All arguments are validated first.
    """
    match verb:
        case SetJobs():
            return [*set_writes(verb.requests, now, clock_step, latest)]
        case MoveJobs():
            due = due_at(verb.when.delay, verb.when.at, now, latest=latest)
            counted_in = clock_step if verb.when.at is None else None
            counted_from = latest if is_estimate and verb.when.at is None and due > now else None
            generation, keys = checks.check_generation(verb.if_generation), checks.check_keys(verb.keys)
            keeps_next = verb.runs_now
            return [
                Move(key, due, generation, counted_in, actor=actor, keeps_next=keeps_next, counted_from=counted_from)
                for key in keys
            ]
        case CancelJobs():
            generation = checks.check_generation(verb.if_generation)
            stops = flag("running", verb.running)
            return [Cancel(key, generation, actor=actor, stops=stops) for key in checks.check_keys(verb.keys)]
        case PauseJobs():
            generation = checks.check_generation(verb.if_generation)
            words = note_of(owner if verb.by is None else verb.by, verb.note)
            return [SetPause(key, *words, generation, actor=actor) for key in checks.check_keys(verb.keys)]
        case ResumeJobs():
            generation = checks.check_generation(verb.if_generation)
            return [Resume(key, generation, actor) for key in checks.check_keys(verb.keys)]
        case ReplayJobs():
            generation = checks.check_generation(verb.if_generation)
            keys = checks.check_keys(verb.keys)
            dues = [due_at(delay, None, now, latest=latest) for delay in verb.delays(len(keys))]
            return [
                Replay(key, due, generation, actor, counted_from=latest if is_estimate and due > now else None)
                for key, due in zip(keys, dues, strict=True)
            ]
        case _:
            assert_never(verb)


def note_of(by: str, note: str) -> tuple[str, str]:
    return _text("by", by, 255), _text("note", note, NOTE_BYTES_MAX)


def _text(name: str, text: str, bytes_max: int) -> str:
    if not isinstance(text, str):
        raise InvalidJobError(name, text, f"pass a string, not {type(text).__name__}")
    return checks.check_text(name, text, bytes_max)
