"""
Rules that this node cannot read, because their zone, library or format version is missing here.

A job with such a rule is set aside for a node that can read it. When this node claims set-aside jobs, it names the
parts of rules that it cannot read, such as a zone. The store skips jobs whose rules contain these parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from tickwheel.calendar import Cron, DayMatch, DstGap, DstOverlap, Exclusion, Misfire, Step
from tickwheel.calendar.zone import zone_of
from tickwheel.errors import RecurrenceError
from tickwheel.jobs.definition import Definition
from tickwheel.jobs.recurrence import FIELDS, Interval, Overlap, Recurrence

__all__ = ["is_readable", "unreadable_part", "with_end", "with_retry"]


def is_readable(text: str) -> bool:
    try:
        _read(Recurrence.from_text(text))
    except Exception:  # noqa: BLE001  a library or the zone's file may raise anything
        return False
    return True


def unreadable_part(text: str) -> str | None:
    """
    Return the part of the canonical *text* that this node cannot read, or None if it can read all of it.

    The part is as small as possible, so that many rules share it. It is the whole text if no part can be isolated.
    """
    if is_readable(text):
        return None
    part = _part_of(text)
    return part if part in text else text  # another program may have written the text, for instance with blanks


def _part_of(text: str) -> str:
    facts = _facts_of(text)
    if added := sorted(facts.keys() - FIELDS):
        return f"{json.dumps(added[0])}:"
    if "cron" in facts and not _works(_line_of, "* * * * *"):
        return '"cron":'
    for name, read in READERS.items():
        if name in facts and not _works(read, facts[name]):
            return f"{json.dumps(name)}:{json.dumps(facts[name], separators=(',', ':'))}"
    return text


def with_end(text: str, due_at: int, begun: int, ended: int, *, has_run: bool) -> str:
    return _with(text, ended=[due_at, begun, ended, has_run])


def with_retry(text: str, due_at: int, expires_ms: int | None) -> str:
    """
    Return *text*, an unreadable recurrence, with a note that the run due at *due_at* waits for a retry.

    The series continues from that run. A node that can read the rule then decides which missed instants to make up for.
    """
    more = {} if expires_ms is None else {"expires_ms": expires_ms}
    return _with(text, **{"run_at": due_at, "next_at": due_at, **more, **_facts_of(text)})


def _facts_of(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _with(text: str, **more: Any) -> str:
    facts = _facts_of(text)
    return json.dumps(facts | more, sort_keys=True, separators=(",", ":")) if facts else text


def _read(recurrence: Recurrence) -> None:
    rule = recurrence.rule
    if isinstance(rule, Cron):
        _line_of(rule.line, rule.day_match)
    if recurrence.exclude or not isinstance(rule, Interval):
        zone_of(rule.tz)
    if recurrence.then is not None:
        _read(Definition.from_text(recurrence.then).series)


@lru_cache(maxsize=4096)
def _line_of(line: str, day_match: DayMatch = DayMatch.EITHER) -> Cron:
    return Cron.parse(line, day_match=day_match)


def _any_line_of(line: str) -> Cron:
    with suppress(RecurrenceError):
        return _line_of(line)
    return _line_of(line, DayMatch.BOTH)


def _step_of(text: str) -> Step:
    step = Step.of(text)
    if step is None:
        raise ValueError(text)
    return step


def _exclusions_of(texts: list[str]) -> None:
    for text in texts:
        Exclusion.parse(text)


def _works(read: Callable[[Any], object], what: object) -> bool:
    try:
        read(what)
    except Exception:  # noqa: BLE001  as above
        return False
    return True


READERS: Final[dict[str, Callable[[Any], object]]] = {
    "tz": zone_of,
    "misfire": Misfire,
    "overlap": Overlap,
    "day_match": DayMatch,
    "dst_gap": DstGap,
    "dst_overlap": DstOverlap,
    "every": _step_of,
    "cron": _any_line_of,
    "exclude": _exclusions_of,
}
"""For each field of a canonical text, a function that raises an exception if this node cannot read the value."""
