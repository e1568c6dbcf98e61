"""
Finds the due times of a recurring job by trying one instant after another.

The checker compares these due times with the ones that the engine's calendar has computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from simulation._weather import Weather
from simulation.history import Committed, Fired, Returned
from tickwheel.jobs.model import Answer, Job, Move, Outcome, Redate, Set, Settle, key_of
from tickwheel.testing._store_model import is_same_series

__all__ = ["Series", "may_be_left_out", "must_be_continued"]

_MINUTE_MS: Final = 60_000
_GRACE_MS: Final = 60_000
_NEAR_MS: Final = 5_000
"""
Tolerance in ms, larger than the error of an owner's estimate of the store's clock.
"""
_STOPPING_MS: Final = 10_000
"""Maximum time in ms until a long handler stops."""


@dataclass(frozen=True, slots=True)
class _Run:
    """
    The times at which a run began and ended by the store's clock, and the true time at which it began.
    """

    begun: int
    ended: int
    at: int


class _Awaited(NamedTuple):
    """
    The due time with which a series continues after a `run_now`, and the true time at which this was recorded.

    If *is_near* is true, another due time is allowed as well, because the `run_now` came too close to *due_at*.
    """

    due_at: int
    since: int
    is_near: bool


class Series:
    """
    Judges how recurring jobs continue after each run.
    """

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._runs: dict[tuple[str, str, int, int], _Run] = {}
        self._returned: dict[str, int] = {}
        self._awaited: dict[str, _Awaited] = {}

    def changed(self, event: Committed, before: Job | None) -> str | None:
        """
        Record a caller's write. Return the fault if the write set the same rule again and changed anything.
        """
        write, outcome = event.write, event.answer.outcome
        if (
            isinstance(write, Move)
            and outcome is Outcome.MOVED
            and before is not None
            and before.recurrence is not None
        ):
            if not write.keeps_next:
                self._awaited.pop(write.key, None)
            elif _is_fresh(before) and before.due_at > event.store_ms - _NEAR_MS:
                is_near = before.due_at <= event.store_ms + _NEAR_MS
                self._awaited.setdefault(write.key, _Awaited(before.due_at, event.at, is_near))
        elif isinstance(write, Set) and (wrong := _loses(write, before, event.answer)):
            return wrong
        elif outcome in (Outcome.CREATED, Outcome.REPLACED, Outcome.CANCELLED):
            self._awaited.pop(key_of(write), None)
        elif isinstance(write, Redate) and outcome is Outcome.MOVED and write.job.key in self._awaited:
            awaited = self._awaited[write.job.key]
            is_elapsed = "every_ms" in json.loads(write.recurrence or "{}")  # a due time of the wall clock stays
            by = write.due_at - write.job.due_at if is_elapsed else 0
            self._awaited[write.job.key] = _Awaited(awaited.due_at + by, event.at, awaited.is_near)
        return None

    def fired(self, event: Fired) -> None:
        """
        Record that a handler has begun.
        """
        firing = (event.machine, event.key, event.generation, event.attempt)
        self._runs[firing] = _Run(event.store_ms, event.store_ms, event.at)

    def returned(self, event: Returned, job: Job) -> str | None:
        """
        Record that a long handler has returned. Return its fault, if any.
        """
        firing = (event.machine, event.key, event.generation, event.attempt)
        self._runs[firing] = run = replace(self._runs[firing], ended=event.store_ms)
        self._returned[event.key] = event.at
        facts: dict[str, Any] = json.loads(job.recurrence or "{}")
        if facts.get("overlap") != "cancel" or self._weather.stepped > run.at:
            return None
        limit = _first_after(facts, max(run.begun, facts.get("run_at", job.due_at)))
        since = event.at - (event.store_ms - limit) * 1_000_000
        if limit < event.store_ms - _STOPPING_MS and self._weather.has_calm(since, event.at):
            return f"{event.key!r} ran on beyond {limit}, when its next run was due"
        return None

    def busy_until(self, key: str) -> int:
        """
        Return the true time at which the last long handler of *key* returned, or 0.
        """
        return self._returned.get(key, 0)

    def judge(self, event: Committed, before: Job, write: Settle) -> str | None:
        """
        Return the fault, if any, in the continuation of the series after the run *before*.
        """
        facts: dict[str, Any] = json.loads(before.recurrence or "{}")
        due_at, next_at = facts.get("run_at", before.due_at), write.due_at
        if next_at is None:
            return "it has ended"
        if next_at <= due_at:
            return f"it goes back from {due_at}"
        awaited = self._awaited.pop(before.key, None)
        if awaited is not None and next_at == awaited.due_at:
            return None
        # If a clock is set while the run lasts, the due time stays at first: it is moved once the job waits again.
        if awaited is not None and not awaited.is_near and self._weather.stepped < awaited.since:
            return f"it waited for {awaited.due_at}" if event.store_ms + _NEAR_MS < awaited.due_at else None
        run = self._runs.get((event.machine, before.key, before.generation, before.attempt))
        if must_be_continued(before.recurrence):
            due_at, begun, ended, _ = facts["ended"]
            run = _Run(begun, ended, event.at)
        elif run is None:
            run = _Run(event.store_ms, event.store_ms, event.at)
        elif self._weather.stepped > run.at:  # these times are from before and after a clock step
            return None
        return _Continuation(facts, due_at, run, event.store_ms).flaw(next_at, write)


@dataclass(frozen=True, slots=True)
class _Continuation:
    """
    The due times with which a series may continue after *run*.
    """

    facts: dict[str, Any]
    due_at: int
    run: _Run
    settled: int

    @property
    def makes_up_all(self) -> bool:
        return bool(self.facts["misfire"] == "all")

    @property
    def policy(self) -> str:
        return str(self.facts.get("overlap", "all" if self.makes_up_all else "skip"))

    def flaw(self, next_at: int, write: Settle) -> str | None:
        """
        Return the reason why the series must not continue at *next_at*, or None if it may.
        """
        until = next_at
        if self.policy != "skip" and self._may_follow_at_once(next_at):
            if self.policy != "all":
                return None
            until = json.loads(write.recurrence or "{}").get("run_at", next_at)
        elif not _is_in_series(self.facts, next_at):
            return "it is not an instant of the series"
        elif self._came_meanwhile(next_at) and not (self.makes_up_all and self.policy == "all"):
            return "it came while the run lasted"
        left_out = (each for each in _between(self.facts, self.due_at, until) if not self._may_be_left_out(each))
        first = next(left_out, None)
        return None if first is None else f"the run at {first} is left out"

    def _came_meanwhile(self, instant: int) -> bool:
        return self.run.begun + _NEAR_MS < instant < self.run.ended - _NEAR_MS

    def _may_follow_at_once(self, next_at: int) -> bool:
        """
        Return True if the next run may begin at once: a due time passed in *run*, and *next_at* is the end of *run*.
        """
        is_all = self.makes_up_all or "run_at" in self.facts
        after = self.due_at if is_all else max(self.due_at, self.run.begun - _NEAR_MS)
        has_ended = self.run.ended - _NEAR_MS <= next_at <= self.settled + _NEAR_MS
        return has_ended and _first_after(self.facts, after) <= next_at

    def _may_be_left_out(self, instant: int) -> bool:
        if not self.makes_up_all and "run_at" not in self.facts and instant <= self.run.begun + _NEAR_MS:
            return True
        if self.policy != "skip" or instant > self.settled + _NEAR_MS:
            return False
        return not self.makes_up_all or instant > self.run.begun - _NEAR_MS


def _is_fresh(job: Job) -> bool:
    """
    Return True if the run for which *job* waits has had no attempt yet.
    """
    return job.state == "pending" and not job.attempt and job.sent_as is None


def _loses(write: Set, before: Job | None, answer: Answer) -> str | None:
    if not is_same_series(write, before) or answer.outcome in (Outcome.UNCHANGED, Outcome.WRONG_GENERATION):
        return None
    return f"{write.job.key!r} was declared again, and is {answer.outcome}"


def must_be_continued(text: str | None) -> bool:
    """
    Return True if *text*, a stored recurrence, shows that the series must be continued on another node.
    """
    return text is not None and '"ended":' in text


def may_be_left_out(job: Job, store_ms: int) -> bool:
    """
    Return True if a run of *job* may be omitted, because it has expired, or is late and its series skips late runs.
    """
    is_expired = job.expires_at is not None and store_ms >= job.expires_at
    skips = json.loads(job.recurrence or "{}").get("misfire") == "skip"
    return is_expired or (skips and store_ms - job.due_at > _GRACE_MS)


def _between(facts: dict[str, Any], after: int, before: int) -> Iterator[int]:
    instant = _first_after(facts, after)
    while instant < before:
        yield instant
        instant = _first_after(facts, instant)


def _first_after(facts: dict[str, Any], instant: int) -> int:
    step: int = facts.get("every_ms", _MINUTE_MS)
    instant += step - (instant - facts.get("anchor_at", 0)) % step
    while not _is_in_series(facts, instant):
        instant += step
    return instant


def _is_in_series(facts: dict[str, Any], instant: int) -> bool:
    if "every_ms" in facts:
        return bool((instant - facts["anchor_at"]) % facts["every_ms"] == 0)
    moment = datetime.fromtimestamp(instant / 1000, UTC)
    minute, hour = facts["cron"].split()[:2]
    return instant % _MINUTE_MS == 0 and _fits(minute, moment.minute) and _fits(hour, moment.hour)


def _fits(field: str, value: int) -> bool:
    star, slash, step = field.partition("/")
    if star == "*":
        return not slash or value % int(step) == 0
    return value == int(field)
