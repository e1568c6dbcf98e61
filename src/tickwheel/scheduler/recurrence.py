"""
Recurrence: the rule that a recurring job stores, and the instant after this one.

The canonical text is JSON with sorted keys, so that any client can read it:

    {"cron":"0 9 * * 1-5","jitter_ms":0,"misfire":"once","tz":"Europe/Berlin"}
    {"anchor_at":1700000000000,"every_ms":60000,"jitter_ms":0,"misfire":"skip"}

`grace_ms`, `until`, `runs_left`, `run_at`, `next_at`, `expires_ms`, `overlap`, `exclude`, and the `tz` in which an
interval reads that, are there only where they say something. All stores keep the text as it is, so what is added to it
needs no other schema. Cron lines and zones are in `tickwheel.calendar`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from tickwheel.calendar import Cron, Exclusion, Misfire
from tickwheel.calendar.misfire import MISFIRE_GRACE_MS
from tickwheel.errors import RecurrenceError
from tickwheel.scheduler.errors import InvalidRecurrenceError

__all__ = ["Cron", "Exclusion", "Interval", "Misfire", "Overlap", "Recurrence", "share_of"]

_MORE = ("grace_ms", "until", "runs_left", "run_at", "next_at", "expires_ms")
_PASSES_MAX: Final = 10_000
"""How many stretches of what is excluded a search passes before it gives up; each costs up to 50 microseconds."""
_AHEAD_MS: Final = 50 * 366 * 86_400_000
"""How far a search goes, as for a line of cron."""
_LAST_MS: Final = 253_370_764_800_000
"""The year 9999: no calendar here has the one after it, and an exclusion looks ahead."""


@dataclass(frozen=True, slots=True)
class Interval:
    """
    Fires at `anchor_at + n * every_ms`, for every n: the phase is fixed, so lateness never adds up to drift.

    Attributes:
        every_ms: The distance, at least 1.
        anchor_at: Any instant of the series, in ms since the epoch.
        tz: The IANA name of the zone in which a job reads what it leaves out; it moves no instant.
    """

    every_ms: int
    anchor_at: int
    tz: str = "UTC"

    def next(self, after: int) -> int:
        """
        Return the first instant of the series that is later than *after*.
        """
        return self.anchor_at + ((after - self.anchor_at) // self.every_ms + 1) * self.every_ms


class Overlap(StrEnum):
    """
    The policy for instants that pass while a run lasts, its retries included.

    No policy runs a job beside itself: its key is its lock. For that, set a job that fires once for each run.
    """

    SKIP = "skip"
    """They are left out; the next run is the next one in the future."""
    ONCE = "once"
    """One run follows at once, for all of them."""
    ALL = "all"
    """As many runs follow, one after the other."""
    CANCEL = "cancel"
    """The run is asked to stop at the first of them, and the next one follows once it has ended."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """
    A rule and how to follow it.

    Attributes:
        rule: The series of nominal instants.
        misfire: What to do about missed ones.
        jitter_ms: Every run comes later by a share of this, drawn from the key's hash and so the same each time.
        grace_ms: With SKIP, how late a run may begin and not be missed.
        until: The last nominal instant that is allowed, or None.
        runs_left: How many runs may still end, the next one included, or None for any number.
        run_at: The instant of the run that is tried again, was snoozed, or was due while another lasted, where the
            series goes on from it.
        next_at: The instant that the job waited for when it was to run now instead, so that no other one comes before;
            of a run that is tried again, its own, where nothing else shows that it is one.
        expires_ms: For how long after its instant a run is worth firing, while one that expires is tried again or was
            snoozed: its job is due later then, and the next run has this length again.
        exclude: What is left out of the series, before any jitter; all in the zone of *rule*.
        overlap: What to do about instants that pass while a run lasts; None for ALL where *misfire* is, else SKIP.
    """

    rule: Interval | Cron
    misfire: Misfire = Misfire.ONCE
    jitter_ms: int = 0
    grace_ms: int = MISFIRE_GRACE_MS
    until: int | None = None
    runs_left: int | None = None
    run_at: int | None = None
    next_at: int | None = None
    expires_ms: int | None = None
    exclude: tuple[Exclusion, ...] = ()
    overlap: Overlap | None = None

    def next(self, key: str, after: int, passes: Iterable[object] | None = None) -> int | None:
        """
        Return the job's first instant later than *after*, or None if there is none.

        That is `next_at` where it is later. An interval begins at its anchor; `nominal` knows the instants before, too.

        Args:
            key: The job's.
            after: In ms since the epoch.
            passes: As for `nominal`.

        Raises:
            InvalidRecurrenceError: As `nominal`.
        """
        if self.next_at is not None and self.next_at > after:
            return self.next_at
        shift = self.shift_ms(key)
        after -= shift
        if isinstance(self.rule, Interval):  # a run that is wanted before the first one leaves that its instant
            after = max(after, self.rule.anchor_at - 1)
        nominal = self.nominal(after, passes)
        return None if nominal is None else nominal + shift

    def nominal(self, after: int, passes: Iterable[object] | None = None) -> int | None:
        """
        Return the series' first instant later than *after*, before any jitter, or None if there is none.

        A day that a zone's calendar leaves out was missed, like any run that nobody could fire: `skip` leaves it out.

        Args:
            after: In ms since the epoch.
            passes: As many instants are looked at, if they are excluded; an iterator that several searches may share.

        Raises:
            InvalidRecurrenceError: If so much is excluded that the search gives up: whether there is one is not known.
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
        Return when the job comes back after the run due at *due_at*, and the instant of that run if it is another.

        Instants until *begun* were missed, and those from then until *ended* came while the run lasted.
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
            case Overlap.ALL:  # a late instant would be taken for a missed one, unless none is ever left out
                return (found, None) if self.misfire is Misfire.ALL else (ended, found)
        return ended, None

    def after_run(
        self, key: str, due_at: int, begun: int, ended: int, *, has_run: bool
    ) -> tuple[int | None, Recurrence]:
        """
        Return when the job comes back, or None where its series ends, and its recurrence then.

        Args:
            key: The job's.
            due_at: When the run was due.
            begun: When it began; *ended*, if it did not.
            ended: When it ended.
            has_run: Whether it counts; one that was left out does not.
        """
        left = self.runs_left
        if has_run and left is not None:
            left -= 1
        if left == 0:
            return None, self
        due_at_next, run_at = self.following(key, due_at, begun, ended)
        is_same = left == self.runs_left and run_at == self.run_at and self.next_at is self.expires_ms is None
        if is_same:
            return due_at_next, self
        return due_at_next, replace(self, runs_left=left, run_at=run_at, next_at=None, expires_ms=None)

    def postponed(self, key: str, due_at: int, begun: int, expires_ms: int | None = None) -> Recurrence:
        """
        Return the recurrence while the run due at *due_at*, for *expires_ms* if any, waits to be tried again.

        The series goes on from it where instants that pass meanwhile get a run, or some were missed until it had begun.
        """
        goes_on = self._overlaps is not Overlap.SKIP or self._makes_up(key, due_at, begun)
        run_at = due_at if self.run_at is None and goes_on else self.run_at
        expires_ms = expires_ms if self.expires_ms is None else self.expires_ms
        is_noted = self.next_at is not None or run_at is not None or expires_ms is not None
        return replace(self, run_at=run_at, next_at=self.next_at if is_noted else due_at, expires_ms=expires_ms)

    def _makes_up(self, key: str, due_at: int, begun: int) -> bool:
        return self.misfire is Misfire.ALL and (missed := self.next(key, due_at)) is not None and missed <= begun

    def overtaken_at(self, key: str, due_at: int, begun: int) -> int | None:
        """
        Return when the run due at *due_at* has to stop for the next one, or None if it may go on.

        Instants until *begun* were missed: they stop nothing.
        """
        if self.overlap is not Overlap.CANCEL:
            return None
        try:
            return self.next(key, max(begun, due_at if self.run_at is None else self.run_at))
        except InvalidRecurrenceError:  # none is near, and the end of the run says so
            return None

    @property
    def _overlaps(self) -> Overlap:
        if self.overlap is not None:
            return self.overlap
        return Overlap.ALL if self.misfire is Misfire.ALL else Overlap.SKIP

    def moved(self, step_ms: int) -> Recurrence:
        """
        Return the recurrence after the clock was set by *step_ms*: what counts elapsed time is moved along.
        """
        if not isinstance(self.rule, Interval):
            return self
        run_at, next_at = (None if each is None else each + step_ms for each in (self.run_at, self.next_at))
        rule = replace(self.rule, anchor_at=self.rule.anchor_at + step_ms)
        return replace(self, rule=rule, run_at=run_at, next_at=next_at)

    def is_missed(self, due_at: int, now: int) -> bool:
        """
        Return whether the run due at *due_at* was missed, by *now*, and is to be left out.
        """
        return self.misfire is Misfire.SKIP and now - due_at > self.grace_ms

    def upcoming(self, key: str, after: int, count: int, passes: Iterable[object] | None = None) -> Iterator[int]:
        """
        Yield the *count* instants after the run due at *after*, fewer where the series ends: in the year 9999 at last.

        Args:
            key: The job's.
            after: In ms since the epoch.
            count: How many.
            passes: As for `nominal`; all of them share these.

        Raises:
            InvalidRecurrenceError: As `nominal`.
        """
        passes = iter(range(count + _PASSES_MAX) if passes is None else passes)
        if self.runs_left is not None:
            count = min(count, self.runs_left - 1)
        for _ in range(count):
            due_at = self.next(key, after, passes)
            if due_at is None or due_at >= _LAST_MS:
                break
            yield due_at
            after = due_at

    def shift_ms(self, key: str) -> int:
        """
        Return by how much *key* comes after its nominal instants: 0 to `jitter_ms`, spread evenly over keys.
        """
        return share_of(key, self.jitter_ms)

    def to_text(self) -> str:
        """
        Return the canonical text.
        """
        facts: dict[str, Any] = {"misfire": self.misfire.value, "jitter_ms": self.jitter_ms}
        if isinstance(self.rule, Cron):
            facts |= {"cron": self.rule.line, "tz": self.rule.tz}
        else:
            facts |= {"every_ms": self.rule.every_ms, "anchor_at": self.rule.anchor_at}
            if self.exclude or self.rule.tz != "UTC":
                facts["tz"] = self.rule.tz
        if self.exclude:
            facts["exclude"] = [str(each) for each in self.exclude]
        more: dict[str, Any] = {"until": self.until, "runs_left": self.runs_left, "run_at": self.run_at}
        more |= {"next_at": self.next_at, "expires_ms": self.expires_ms}
        more["overlap"] = None if self.overlap is None else self.overlap.value
        if self.grace_ms != MISFIRE_GRACE_MS:
            more["grace_ms"] = self.grace_ms
        facts |= {name: value for name, value in more.items() if value is not None}
        return json.dumps(facts, sort_keys=True, separators=(",", ":"))

    @staticmethod
    @lru_cache(maxsize=4096)
    def from_text(text: str) -> Recurrence:
        """
        Read a canonical text.

        Raises:
            InvalidRecurrenceError: If it is none.
        """
        try:
            facts = json.loads(text)
            rule: Interval | Cron = (
                Cron(facts["cron"], facts["tz"])
                if "cron" in facts
                else Interval(facts["every_ms"], facts["anchor_at"], facts.get("tz", "UTC"))
            )
            more = {name: facts[name] for name in _MORE if name in facts}
            exclude = tuple(Exclusion.parse(each, rule.tz) for each in facts.get("exclude", ()))
            more["overlap"] = Overlap(facts["overlap"]) if "overlap" in facts else None
            return Recurrence(rule, Misfire(facts["misfire"]), facts["jitter_ms"], exclude=exclude, **more)
        except (ValueError, TypeError, LookupError, RecurrenceError):
            raise InvalidRecurrenceError("recurrence", text, "set the job again with every= or cron=") from None


def share_of(key: str, span_ms: int) -> int:
    """
    Return the place of *key* in a span, 0 to *span_ms*: always the same one, and those of many keys fill it evenly.
    """
    if not span_ms:
        return 0
    digest = blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest) * (span_ms + 1) >> 64
