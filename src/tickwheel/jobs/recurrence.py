"""
Recurrence: the rule that a recurring job stores, and the computation of its next instant.

The canonical text is JSON with sorted keys, so that any client can read it:

    {"cron":"0 9 * * 1-5","jitter_ms":0,"misfire":"once","tz":"Europe/Berlin"}
    {"anchor_at":1700000000000,"every_ms":60000,"jitter_ms":0,"misfire":"skip"}
    {"anchor_on":"2030-01-31","every":"1 month","jitter_ms":0,"misfire":"once","time":"02:00:00","tz":"Asia/Tokyo"}

A text has two parts. Callers set the rule. Each run or operation changes the state of the series: `runs`, `run_at`,
`next_at`, `nominal_at`, `expires_ms`, `then`, `ended`, `failures` and `succeeded_at`. Some fields are present only if
they differ from their defaults: the state, `grace_ms`, `until`, `max_runs`, `pause_after`, `overlap`, `exclude`, the
`tz` of an interval's exclusions, `day_match`, `dst_gap` and `dst_overlap`. A text with any other field is refused. All
stores keep the text unchanged, so a new field needs no new schema. Cron lines, calendar rules and zones are in
`tickwheel.calendar`.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from datetime import date, time, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from tickwheel.calendar import Cron, Dates, DayMatch, DstGap, DstOverlap, Exclusion, Misfire, Step
from tickwheel.calendar.misfire import MISFIRE_GRACE_MS
from tickwheel.calendar.zone import zone_data
from tickwheel.errors import MissingExtraError, RecurrenceError
from tickwheel.jobs.errors import InvalidRecurrenceError
from tickwheel.jobs.record import record, replace

__all__ = [
    "FIELDS",
    "Cron",
    "Dates",
    "Ended",
    "Exclusion",
    "Interval",
    "Misfire",
    "Overlap",
    "Recurrence",
    "Rule",
    "in_phase_of",
    "nominal_of",
    "renamed",
    "share_of",
]

_MORE = ("grace_ms", "until", "max_runs", "pause_after")
_STATE = ("runs", "run_at", "next_at", "nominal_at", "expires_ms", "then", "ended", "failures", "succeeded_at")
_OF_RULES: Final = (
    "anchor_at",
    "anchor_on",
    "cron",
    "day_match",
    "dst_gap",
    "dst_overlap",
    "every",
    "every_ms",
    "time",
)
FIELDS: Final = frozenset({*_OF_RULES, "exclude", "jitter_ms", "misfire", "overlap", "tz", *_MORE, *_STATE})
"""All fields that the canonical text of a recurrence may have. A text with any other field is refused."""
_NUMBERS: Final = frozenset(
    {"anchor_at", "every_ms", "jitter_ms", "due_at", "begun", *_MORE, *_STATE} - {"then", "ended"}
)
_JSON: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_DST: Final = ("dst_gap", "dst_overlap")
_DAY: Final = timedelta(days=1)
_PASSES_MAX: Final = 10_000
"""Maximum number of excluded ranges that a search for an instant skips. Each costs up to 50 microseconds."""
_AHEAD_MS: Final = 50 * 366 * 86_400_000
"""Maximum time, in ms, that a search for an instant looks ahead: 50 years."""
_ZONES_MS: Final = 26 * 3_600_000
"""Largest difference between two time zones, in ms."""
_LAST_MS: Final = 253_370_764_800_000
"""The start of the year 9999, in which calendars end. Later instants are never excluded."""


@record
class Interval:
    """
    Fires at `anchor_at + n * every_ms` for every n. The instants are fixed, so lateness does not accumulate.

    *tz* is the IANA zone of the exclusions. It does not change the instants themselves.
    """

    every_ms: int
    anchor_at: int
    tz: str = "UTC"

    def next(self, after: int) -> int:
        """
        Return the first instant of the series that is later than *after*.
        """
        return self.anchor_at + ((after - self.anchor_at) // self.every_ms + 1) * self.every_ms

    def previous(self, instant: int) -> int:
        """
        Return the instant of the series just before *instant*, which must belong to the series.
        """
        return instant - self.every_ms

    @property
    def starts_at(self) -> int:
        """
        The first instant of the series.
        """
        return self.anchor_at

    @property
    def length(self) -> float:
        """
        The interval in seconds.
        """
        return self.every_ms / 1000


Rule: TypeAlias = Interval | Dates | Cron


class Overlap(StrEnum):
    """
    The policy for instants that pass during a run, including its retries.

    No policy runs a job concurrently with itself. For concurrent runs, set one-time jobs with different keys.
    """

    SKIP = "skip"
    """Instants that pass during a run are skipped. The next run is due at the first instant after the run has ended."""
    ONCE = "once"
    """A single run makes up for all instants that passed during the previous run. It follows immediately."""
    ALL = "all"
    """Each instant that passed during a run gets its own run later. These runs follow one after the other."""
    CANCEL = "cancel"
    """At the first instant that passes during a run, the run is asked to stop. The next run then follows."""


class Ended(NamedTuple):
    """
    The end of a run whose node could not compute the next run. Before the job can be due, another node must compute it.

    Attributes:
        has_run: True if the run that ended counts as a run of the series. A skipped run does not count.
    """

    due_at: int
    begun: int
    ended: int
    has_run: bool


@record
class Recurrence:
    """
    A rule, its policies, and the state of its series.

    Attributes:
        rule: The series of nominal instants.
        jitter_ms: Maximum delay of a run. The delay comes from a hash of the key, so it is equal for all runs of a key.
        grace_ms: With misfire SKIP, a run with more than this lateness counts as missed.
        until: The last nominal instant allowed, or None.
        max_runs: Number of runs of the series, or None for no limit.
        runs: Number of runs that have ended.
        run_at: The nominal instant of a run that is being retried, was snoozed, or was due during another run. The
            series continues from this instant.
        next_at: During an additional run: the scheduled instant of the series; no other run comes before it. During a
            retry: the original due time of the run, if `run_at` and `expires_ms` are None.
        nominal_at: The nominal instant of the run, before any jitter, if it does not follow from `due_at`.
        expires_ms: Time to live of a run, stored while a run that can expire is retried or snoozed. The next run gets
            the same time to live.
        exclude: Exclusions from the nominal instants, in the zone of *rule*.
        overlap: Policy for instants that pass during a run. None means ALL if *misfire* is ALL, and SKIP for any other
            *misfire*.
        then: A definition that was set during a run and applies after that run; see `jobs.series`.
        ended: The end of the last run, if its node could not read the rule.
        pause_after: The job is paused after this number of failed runs in a row; None for never.
        failures: Number of failed runs in a row, if they are counted.
    """

    rule: Rule
    misfire: Misfire = Misfire.ONCE
    jitter_ms: int = 0
    grace_ms: int = MISFIRE_GRACE_MS
    until: int | None = None
    max_runs: int | None = None
    runs: int = 0
    run_at: int | None = None
    next_at: int | None = None
    nominal_at: int | None = None
    expires_ms: int | None = None
    exclude: tuple[Exclusion, ...] = ()
    overlap: Overlap | None = None
    then: str | None = None
    ended: Ended | None = None
    pause_after: int | None = None
    failures: int = 0
    succeeded_at: int | None = None

    def next(self, key: str, after: int, passes: Iterable[object] | None = None) -> int | None:
        """
        Return the job's first instant later than *after* (ms since the epoch), or None if there is none.

        The result is never earlier than `next_at` or the start of the rule. (`nominal` ignores both limits.)
        """
        if self.next_at is not None and self.next_at > after:
            return self.next_at
        shift = self.shift_ms(key)
        after -= shift
        if not isinstance(self.rule, Cron):  # the anchor stays, even if an additional run comes before it
            after = max(after, self.rule.starts_at - 1)
        nominal = self.nominal(after, passes)
        return None if nominal is None else nominal + shift

    def nominal(self, after: int, passes: Iterable[object] | None = None) -> int | None:
        """
        Return the first nominal instant (without jitter) later than *after*, or None if there is none.

        If a zone's calendar omits a day, a run on that day counts as missed, and misfire "skip" drops it. Times are in
        ms since the epoch. The search takes one item from *passes* for each excluded instant that it skips. Several
        searches may share *passes*. When *passes* is used up, the search raises an InvalidRecurrenceError.
        """
        last = after + _AHEAD_MS
        line = self.rule if isinstance(self.rule, Cron) else None
        for _ in range(_PASSES_MAX) if passes is None else passes:
            found = self._of_rule(after)
            if found is None or (self.until is not None and found > self.until):
                return None
            if not self.exclude or found >= _LAST_MS:
                return found
            end = next((end for each in self.exclude if (end := each.end(found, line)) is not None), None)
            if end is None:
                return found
            after = end - 1
            if after >= last:
                break
        remedy = "no run is found in 50 years, or too many stretches: exclude less"
        raise InvalidRecurrenceError("exclude", [str(each) for each in self.exclude], remedy)

    def _of_rule(self, after: int) -> int | None:
        if isinstance(self.rule, Interval):
            return self.rule.next(after)
        return self.rule.next(after, makes_up=self.misfire is not Misfire.SKIP)

    def following(self, key: str, due_at: int, begun: int, ended: int) -> tuple[int | None, int | None]:
        """
        Return the next due time after the run that was due at *due_at*, and the nominal instant of the next run.

        The nominal instant is None if it equals the due time. Instants up to *begun* were missed. Instants from *begun*
        to *ended* passed during the run.
        """
        start = due_at if self.misfire is Misfire.ALL else max(due_at, min(begun, ended))
        if self.run_at is not None:
            start = self.run_at
        found = self.next(key, start)
        if found is None or found > ended or (self.misfire is Misfire.ALL and found <= begun):
            return found, None
        match self._overlaps:
            case Overlap.SKIP:
                return self.next(key, max(due_at, ended)), None
            case Overlap.ALL:  # if runs can be skipped, a nominal instant in the past would look missed
                return (found, None) if self.misfire is Misfire.ALL else (ended, found)
        is_last = self.until is not None and ended - self.shift_ms(key) > self.until
        return ended, (self.until if is_last else None)  # the last run may come after the end of the series

    def after_run(
        self, key: str, due_at: int, begun: int, ended: int, *, has_run: bool, has_failed: bool = False
    ) -> tuple[int | None, Recurrence]:
        """
        Return the next due time, or None if the series ends, and the recurrence after the run due at *due_at*.

        *begun* equals *ended* if the run did not start. *has_run* is False for a skipped run, which does not count.
        *has_failed* is True if the run failed and is not retried.
        """
        runs = self.runs + has_run
        if self.max_runs is not None and runs >= self.max_runs:
            return None, self
        due_at_next, run_at = self.following(key, due_at, begun, ended)
        nominal_at = None if run_at is None else run_at - self.shift_ms(key)
        after = self._with_state(runs=runs, run_at=run_at, nominal_at=nominal_at)
        if not has_run:
            return due_at_next, after
        if has_failed:
            return due_at_next, after if self.pause_after is None else replace(after, failures=self.failures + 1)
        return due_at_next, replace(after, failures=0) if after.failures else after

    def pauses(self) -> bool:
        """
        Return True if the number of consecutive failed runs has reached `pause_after`.
        """
        return self.pause_after is not None and self.failures >= self.pause_after

    def _with_state(self, *, runs: int, run_at: int | None, nominal_at: int | None) -> Recurrence:
        is_same = (runs, run_at, nominal_at) == (self.runs, self.run_at, self.nominal_at)
        if is_same and self.next_at is None and self.expires_ms is None and self.ended is None:
            return self
        return replace(self, runs=runs, run_at=run_at, nominal_at=nominal_at, next_at=None, expires_ms=None, ended=None)

    def named(self, key: str, due_at: int) -> int:
        """
        Return the nominal instant of the run due at *due_at*, before any jitter.

        It is the same for all attempts of a run. For an additional run (`run_now`), it is the due time.
        """
        if self.nominal_at is not None:
            return self.nominal_at
        return due_at if self.next_at is not None else due_at - self.shift_ms(key)

    def postponed(self, key: str, due_at: int, begun: int, expires_ms: int | None = None) -> Recurrence:
        """
        Return the recurrence of a series whose run due at *due_at* waits for a retry. *expires_ms* is its time to live.

        If the misfire or overlap policy makes up for passed instants, the series later continues from this run.
        """
        goes_on = self._overlaps is not Overlap.SKIP or self._makes_up(key, due_at, begun)
        run_at = due_at if self.run_at is None and goes_on else self.run_at
        expires_ms = expires_ms if self.expires_ms is None else self.expires_ms
        is_noted = self.next_at is not None or run_at is not None or expires_ms is not None
        next_at, nominal_at = self.next_at if is_noted else due_at, self.named(key, due_at)
        return replace(self, run_at=run_at, next_at=next_at, nominal_at=nominal_at, expires_ms=expires_ms)

    def _makes_up(self, key: str, due_at: int, begun: int) -> bool:
        return self.misfire is Misfire.ALL and (missed := self.next(key, due_at)) is not None and missed <= begun

    def overtaken_at(self, key: str, due_at: int, begun: int) -> int | None:
        """
        Return the time at which the run due at *due_at* must stop for the next run, or None if it may continue.

        Instants until *begun* were missed, and do not stop the run.
        """
        if self.overlap is not Overlap.CANCEL:
            return None
        try:
            return self.next(key, max(begun, due_at if self.run_at is None else self.run_at))
        except InvalidRecurrenceError:  # the search gave up; the end of the run reports the error
            return None

    @property
    def _overlaps(self) -> Overlap:
        if self.overlap is not None:
            return self.overlap
        return Overlap.ALL if self.misfire is Misfire.ALL else Overlap.SKIP

    def moved(self, step_ms: int) -> Recurrence:
        """
        Return the recurrence after a clock step of *step_ms*. Only an interval moves; other rules stay unchanged.
        """
        if not isinstance(self.rule, Interval):
            return self
        instants = (self.run_at, self.next_at, self.nominal_at)
        run_at, next_at, nominal_at = (None if each is None else each + step_ms for each in instants)
        rule = replace(self.rule, anchor_at=self.rule.anchor_at + step_ms)
        ended = self.ended
        if ended is not None:
            ended = Ended(ended.due_at + step_ms, ended.begun + step_ms, ended.ended + step_ms, ended.has_run)
        return replace(self, rule=rule, run_at=run_at, next_at=next_at, nominal_at=nominal_at, ended=ended)

    def has_same_instants(self, other: Recurrence, *, has_phase: bool = False) -> bool:
        """
        Return True if both rules have the same instants, even if their texts differ.

        For intervals and calendar rules (every n days, weeks or months), equal periods are enough; but if *has_phase*
        is True, their phases must also be equal.
        """
        rule, wanted = self.rule, other.rule
        is_same = rule == wanted or _meaning(rule) == _meaning(wanted)
        is_same = is_same and (not has_phase or _has_same_phase(rule, wanted))
        return is_same and (self.exclude == other.exclude or _left_out(self.exclude) == _left_out(other.exclude))

    def has_same_runs(self, other: Recurrence, *, has_phase: bool = False) -> bool:
        """
        Return True if the rules have equal instants, `until` and `max_runs`. For *has_phase*, see `has_same_instants`.
        """
        is_end = (self.until, self.max_runs) == (other.until, other.max_runs)
        return is_end and self.has_same_instants(other, has_phase=has_phase)

    def is_like(self, other: Recurrence, *, has_phase: bool = False) -> bool:
        """
        Return True if the rules are equal, ignoring the state of the series. For *has_phase*, see `has_same_instants`.
        """
        if (self.misfire, self.jitter_ms, self._overlaps) != (other.misfire, other.jitter_ms, other._overlaps):
            return False
        if self.pause_after != other.pause_after:
            return False
        if self.misfire is Misfire.SKIP and self.grace_ms != other.grace_ms:
            return False
        if self.rule.tz != other.rule.tz and zone_data(self.rule.tz) != zone_data(other.rule.tz):
            return False
        return self.has_same_runs(other, has_phase=has_phase)

    def is_postponed(self, due_at: int) -> bool:
        """
        Return True if the run due at *due_at* is a retry, was snoozed, or was due during another run.
        """
        is_late = self.next_at is not None and self.next_at <= due_at
        return is_late or self.run_at is not None or self.expires_ms is not None

    def turned_into(
        self, other: Recurrence, key: str, due_at: int, now: int, *, has_begun: bool, has_phase: bool = False
    ) -> tuple[int | None, Recurrence]:
        """
        Return the new due time and recurrence of a job that takes the rule of *other*.

        *due_at* is the current due time. An owed run (begun, due or postponed) keeps its due time; the new rule applies
        to later runs. A changed interval counts from the last nominal instant. The due time is None if the new rule has
        no run left. Times are ms since the epoch. *has_begun* is True if the run has made an attempt; *has_phase* is as
        in `has_same_instants`.
        """
        is_owed = has_begun or due_at <= now or self.is_postponed(due_at)
        nominal, shift = self.named(key, due_at), other.shift_ms(key)
        before, rule = self.rule, other.rule
        is_timed = not self.has_same_instants(other, has_phase=has_phase)
        last = nominal
        if type(before) is type(rule) and not isinstance(before, Cron):
            if not is_owed:
                last = before.previous(nominal)
            elif self.next_at is not None and self.next_at > due_at:  # an additional run does not belong to the series
                last = before.previous(self.next_at - self.shift_ms(key))
            if not has_phase or not is_timed:
                rule = in_phase_of(rule, before, last if last <= now else None, nominal)
        after = replace(other, rule=rule, runs=self.runs, run_at=self.run_at, next_at=self.next_at)
        after = replace(after, nominal_at=self.nominal_at, expires_ms=self.expires_ms, then=None, ended=self.ended)
        failures = 0 if after.pause_after is None else self.failures
        after = replace(after, failures=failures, succeeded_at=self.succeeded_at)
        if not is_owed and other.max_runs is not None and self.runs >= other.max_runs:
            return None, after
        if not is_timed:
            return _in_place(after, key, due_at, nominal, shift - self.shift_ms(key), is_owed=is_owed)
        if is_owed:
            # the new rule does not make up for missed instants
            run_at = None if self.run_at is None else max(now, self.run_at)
            next_at = self.next_at if self.is_postponed(due_at) else None
            return due_at, replace(after, run_at=run_at, next_at=next_at, nominal_at=nominal)
        after = replace(after, next_at=None, nominal_at=None, run_at=None)
        is_counted = isinstance(before, Interval) and isinstance(rule, Interval)
        return _begun_again(after, nominal, shift, now, last if is_counted else None)

    def is_missed(self, due_at: int, now: int) -> bool:
        """
        Return True if, at *now*, the run due at *due_at* counts as missed and must be skipped.
        """
        return self.misfire is Misfire.SKIP and now - due_at > self.grace_ms

    def is_past(self, key: str, due_at: int) -> bool:
        """
        Return True if the run due at *due_at* was moved to a time after the end of the series.
        """
        if self.until is None or self.run_at is not None or self.next_at is not None:
            return False
        return due_at - self.shift_ms(key) > self.until

    def upcoming(self, key: str, after: int, count: int, passes: Iterable[object] | None = None) -> Iterator[int]:
        """
        Yield the next *count* instants after the run due at *after*; fewer if the series or the calendar (9999) ends.

        The searches for these instants share *passes*; see `nominal`.
        """
        passes = iter(range(count + _PASSES_MAX) if passes is None else passes)
        if self.max_runs is not None:
            count = min(count, self.max_runs - self.runs - 1)
        for _ in range(count):
            due_at = self.next(key, after, passes)
            if due_at is None or due_at >= _LAST_MS:
                break
            yield due_at
            after = due_at

    def shift_ms(self, key: str) -> int:
        """
        Return the delay of the key's runs after their nominal instants: 0 to `jitter_ms`, evenly distributed over keys.
        """
        return share_of(key, self.jitter_ms)

    def to_text(self) -> str:
        """
        Return the canonical text.
        """
        facts: dict[str, Any] = {"misfire": self.misfire.value, "jitter_ms": self.jitter_ms}
        if isinstance(self.rule, Cron):
            facts |= {"cron": self.rule.line, "tz": self.rule.tz}
            if self.rule.day_match is not DayMatch.EITHER:
                facts["day_match"] = self.rule.day_match.value
        elif isinstance(self.rule, Dates):
            facts |= {"every": str(self.rule.step), "time": self.rule.time.isoformat(), "tz": self.rule.tz}
            facts["anchor_on"] = self.rule.anchor_on.isoformat()
        else:
            facts |= {"every_ms": self.rule.every_ms, "anchor_at": self.rule.anchor_at}
            if self.exclude or self.rule.tz != "UTC":
                facts["tz"] = self.rule.tz
        if not isinstance(self.rule, Interval):
            facts |= {name: value.value for name in _DST if (value := getattr(self.rule, name)) is not None}
        if self.exclude:
            facts["exclude"] = [str(each) for each in self.exclude]
        more = {name: getattr(self, name) for name in ("until", "max_runs", "pause_after", *_STATE)}
        more |= {"runs": self.runs or None, "failures": self.failures or None}
        more["overlap"] = None if self.overlap is None else self.overlap.value
        if self.grace_ms != MISFIRE_GRACE_MS:
            more["grace_ms"] = self.grace_ms
        facts |= {name: value for name, value in more.items() if value is not None}
        return _JSON.encode(facts)

    @staticmethod
    @lru_cache(maxsize=4096)
    def from_text(text: str) -> Recurrence:
        """
        Parse a canonical text; raise an InvalidRecurrenceError for any other text.
        """
        try:
            facts = json.loads(text)
            _check_numbers(facts)
            state = {name: facts.pop(name) for name in _STATE if name in facts}
            if not FIELDS.issuperset(facts):
                raise ValueError  # noqa: TRY301  as for any other unreadable text
            if "ended" in state:
                state["ended"] = Ended(*state["ended"])
                _check_numbers(state["ended"]._asdict())
            if "exclude" in facts:
                facts["exclude"] = tuple(facts["exclude"])
            rule = _rule_of(tuple(facts.items()))
            return replace(rule, **state) if state else rule
        except (ValueError, TypeError, LookupError, AttributeError, RecurrenceError):
            raise InvalidRecurrenceError("recurrence", text, "set the job again with every= or cron=") from None


@lru_cache(maxsize=4096)
def _rule_of(items: tuple[tuple[str, Any], ...]) -> Recurrence:
    """
    Return the recurrence with the fields *items*. The caller checks numbers first, because the cache treats 1.0 as 1.
    """
    facts = dict(items)
    gap = DstGap(facts["dst_gap"]) if "dst_gap" in facts else None
    overlap = DstOverlap(facts["dst_overlap"]) if "dst_overlap" in facts else None
    rule: Rule
    if "cron" in facts:
        rule = Cron(facts["cron"], facts["tz"], DayMatch(facts.get("day_match", DayMatch.EITHER)), gap, overlap)
    elif "time" in facts:
        step = Step.of(facts["every"])
        if step is None:
            raise ValueError(items)
        at, anchor_on = time.fromisoformat(facts["time"]), date.fromisoformat(facts["anchor_on"])
        rule = Dates(step, at, anchor_on, facts["tz"], gap, overlap)
    else:
        if facts["every_ms"] < 1:
            raise ValueError(items)
        rule = Interval(facts["every_ms"], facts["anchor_at"], facts.get("tz", "UTC"))
    more = {name: facts[name] for name in _MORE if name in facts}
    exclude = tuple(Exclusion.parse(each, rule.tz) for each in facts.get("exclude", ()))
    more["overlap"] = Overlap(facts["overlap"]) if "overlap" in facts else None
    return Recurrence(rule, Misfire(facts["misfire"]), facts["jitter_ms"], exclude=exclude, **more)


def _check_numbers(facts: dict[str, Any]) -> None:
    for name in _NUMBERS & facts.keys():
        if type(facts[name]) is not int:
            raise TypeError(name)


def _in_place(
    series: Recurrence, key: str, due_at: int, nominal: int, step_ms: int, *, is_owed: bool
) -> tuple[int | None, Recurrence]:
    if not is_owed and series.until is not None and nominal > series.until:
        return None, series
    if not step_ms:
        return due_at, series
    run_at, next_at = (None if each is None else each + step_ms for each in (series.run_at, series.next_at))
    after = replace(series, run_at=run_at, next_at=next_at)
    if is_owed or due_at + step_ms != nominal + series.shift_ms(key):
        return due_at, replace(after, nominal_at=nominal)
    return due_at + step_ms, after


def _begun_again(
    series: Recurrence, nominal: int, shift: int, now: int, last: int | None
) -> tuple[int | None, Recurrence]:
    """
    Return the due time and the recurrence after a change of rule. No run has begun, is due or was postponed.

    *series* has the new rule and the old state. *nominal* is the scheduled run's nominal instant, *shift* the new
    jitter, and *last* the nominal instant of an interval's last run.
    """
    rule = series.rule
    if last is not None and isinstance(rule, Interval) and max(rule.anchor_at, last + rule.every_ms) <= now:
        first = rule.next(now - rule.every_ms)  # the run is late under the new rule: it gets the latest instant
        if series.nominal(first - 1) == first:
            return max(now, first + shift), replace(series, nominal_at=first)
    is_due = nominal < now and series.nominal(nominal - 1) == nominal
    start = now - 1 if isinstance(rule, Cron) else max(now, rule.starts_at) - 1
    found = nominal if is_due else series.nominal(start)
    return (None if found is None else found + shift), series


def in_phase_of(rule: Rule, before: Rule, last: int | None, nominal: int) -> Rule:
    """
    Return *rule*, moved to continue the rhythm of *before* if both rules are of the same kind.

    If their periods differ, the new rhythm begins at *last*, the nominal instant of the last run under the old rule. If
    *last* is None, it begins at *nominal*, the next run's nominal instant.
    """
    if isinstance(rule, Interval) and isinstance(before, Interval):
        if rule.every_ms == before.every_ms:
            return replace(rule, anchor_at=before.anchor_at)
        return replace(rule, anchor_at=nominal if last is None else last + rule.every_ms)
    if isinstance(rule, Dates) and isinstance(before, Dates):
        if rule.step == before.step:
            return replace(rule, anchor_on=before.anchor_on)
        if last is None:
            return replace(rule, anchor_on=before.date_of(nominal))
        return rule.counted_from(before.date_of(last))
    return rule


def _has_same_phase(rule: Rule, other: Rule) -> bool:
    if isinstance(rule, Interval) and isinstance(other, Interval):
        return (rule.anchor_at - other.anchor_at) % rule.every_ms == 0
    return not (isinstance(rule, Dates) and isinstance(other, Dates)) or rule.has_phase_of(other)


def _meaning(rule: Rule) -> Hashable:
    if isinstance(rule, Interval):
        return rule.every_ms
    try:
        return rule.meaning
    except (MissingExtraError, RecurrenceError, ValueError):  # this node cannot read the rules, so compare the texts
        return rule


def _left_out(exclude: Iterable[Exclusion]) -> Hashable:
    others: set[Hashable] = set()
    days: set[tuple[date, date]] = set()
    for each in exclude:
        if each.first is not None and each.last is not None:
            others.add(zone_data(each.tz))
            days.add((each.first, each.last))
        else:
            assert each.line is not None
            others.add((len(each.line.line.split()), _meaning(each.line)))
    stretches: list[tuple[date, date]] = []
    for first, last in sorted(days):
        if stretches and first <= stretches[-1][1] + _DAY:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], last))
        else:
            stretches.append((first, last))
    return frozenset(others), tuple(stretches)


def nominal_of(key: str, due_at: int, text: str | None) -> int | None:
    """
    Return the nominal instant of the run of *key* due at *due_at*; None if the recurrence *text* is None or unreadable.
    """
    if text is None:
        return None
    try:
        return Recurrence.from_text(text).named(key, due_at)
    except InvalidRecurrenceError:
        return None


def renamed(key: str, due_at: int, text: str) -> int | None:
    """
    Return the instant that replaces *due_at* under the current zone data, or None if *due_at* is still right.

    The zone data may have changed since *due_at* was computed. Then the rule's instant nearest to *due_at* replaces it.
    If two instants are equally near, the later one is chosen. Retries and moved runs keep their due times.

    Raises:
        RecurrenceError: If this node cannot compute the instants of the rule.
    """
    if '"every_ms"' in text or '"tz":"UTC"' in text:  # the instants of these rules do not depend on zone data
        return None
    series = Recurrence.from_text(text)
    if any(each is not None for each in (series.run_at, series.next_at, series.nominal_at, series.ended)):
        return None
    shift = series.shift_ms(key)
    nominal = due_at - shift
    later = series.nominal(nominal - 1)
    if later == nominal:
        return None
    earlier, span = None, _ZONES_MS >> 10
    while earlier is None and span <= _ZONES_MS:
        found = series.nominal(nominal - span - 1)
        while found is not None and found < nominal:
            earlier = found
            found = series.nominal(found)
        span *= 2
    if earlier is not None and (later is None or nominal - earlier < later - nominal):
        return earlier + shift
    return None if later is None else later + shift


def share_of(key: str, span_ms: int) -> int:
    """
    Return the position of *key* in a span, 0 to *span_ms*: constant for each key, and evenly distributed over keys.
    """
    if not span_ms:
        return 0
    digest = blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest) * (span_ms + 1) >> 64
