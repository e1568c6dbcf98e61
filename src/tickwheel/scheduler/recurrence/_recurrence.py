"""
What a recurring job stores, and the instant after this one.

The canonical text is JSON with sorted keys, so that any client can read it:

    {"cron":"0 9 * * 1-5","jitter_ms":0,"misfire":"once","tz":"Europe/Berlin"}
    {"anchor_at":1700000000000,"every_ms":60000,"jitter_ms":0,"misfire":"skip"}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from tickwheel.calendar import Cron, Misfire
from tickwheel.calendar.misfire import MISFIRE_GRACE_MS
from tickwheel.scheduler.errors import InvalidRecurrenceError
from tickwheel.scheduler.recurrence._interval import Interval

__all__ = ["Recurrence"]

_LAST_MS = 253_402_214_400_000
"""A day before the year 10000, which no calendar here has, in whatever zone it is shown."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """
    A rule and how to follow it.

    Attributes:
        rule: The series of nominal instants.
        misfire: What to do about missed ones.
        jitter_ms: Every run comes later by a share of this, drawn from the key's hash and so the same each time.
    """

    rule: Interval | Cron
    misfire: Misfire = Misfire.ONCE
    jitter_ms: int = 0

    def next(self, key: str, after: int) -> int | None:
        """
        Return the job's first instant later than *after*, or None if there is none.
        """
        shift = self.shift_ms(key)
        nominal = self.nominal(after - shift)
        return None if nominal is None else nominal + shift

    def nominal(self, after: int) -> int | None:
        """
        Return the rule's first instant later than *after*, before any jitter.

        A day that a zone's calendar leaves out was missed, like any run that nobody could fire: `skip` leaves it out.
        """
        if isinstance(self.rule, Interval):
            return self.rule.next(after)
        return self.rule.next(after, makes_up=self.misfire is not Misfire.SKIP)

    def following(self, key: str, due_at: int, now: int) -> int | None:
        """
        Return when the job comes back after the run due at *due_at* has ended at *now*.
        """
        if self.misfire is Misfire.ALL:
            return self.next(key, due_at)
        return self.next(key, max(due_at, now))

    def is_missed(self, due_at: int, now: int) -> bool:
        """
        Return whether the run due at *due_at* was missed, by *now*, and is to be left out.
        """
        return self.misfire is Misfire.SKIP and now - due_at > MISFIRE_GRACE_MS

    def upcoming(self, key: str, after: int, count: int) -> list[int]:
        """
        Return the next *count* instants, fewer where the series ends; it does at the end of the year 9999.
        """
        found: list[int] = []
        while len(found) < count:
            due_at = self.next(key, after)
            if due_at is None or due_at >= _LAST_MS:
                break
            found.append(due_at)
            after = due_at
        return found

    def shift_ms(self, key: str) -> int:
        """
        Return by how much *key* comes after its nominal instants: 0 to `jitter_ms`, spread evenly over keys.
        """
        if not self.jitter_ms:
            return 0
        digest = blake2b(key.encode(), digest_size=8).digest()
        return int.from_bytes(digest) * (self.jitter_ms + 1) >> 64

    def to_text(self) -> str:
        """
        Return the canonical text.
        """
        facts: dict[str, Any] = {"misfire": self.misfire.value, "jitter_ms": self.jitter_ms}
        if isinstance(self.rule, Cron):
            facts |= {"cron": self.rule.line, "tz": self.rule.tz}
        else:
            facts |= {"every_ms": self.rule.every_ms, "anchor_at": self.rule.anchor_at}
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
                Cron(facts["cron"], facts["tz"]) if "cron" in facts else Interval(facts["every_ms"], facts["anchor_at"])
            )
            return Recurrence(rule, Misfire(facts["misfire"]), facts["jitter_ms"])
        except (ValueError, TypeError, LookupError):
            raise InvalidRecurrenceError("recurrence", text, "set the job again with every= or cron=") from None
