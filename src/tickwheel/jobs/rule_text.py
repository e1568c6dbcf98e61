"""
The rule of a recurring job in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tickwheel.calendar import Cron
from tickwheel.errors import MissingExtraError

__all__ = ["rule_text", "seconds"]

_GAPS: Final = {"end": "at the end of the gap", "skip": "left out"}


def rule_text(recurrence: str, moment: Callable[[int], str], *, explains_cron: bool = False) -> str:
    """
    Return a canonical *recurrence* in words: the rule, and the number of remaining runs.

    *moment* converts an instant, in ms since the epoch, to text. If *explains_cron* is True, the meaning of a cron line
    in English, if known, precedes the line.
    """
    rule = json.loads(recurrence)
    parts = _times(rule, explains_cron=explains_cron)
    if "exclude" in rule:
        parts.append(f"but not {', '.join(rule['exclude'])}")
    if rule["jitter_ms"]:
        parts.append(f"spread over {seconds(rule['jitter_ms'])}")
    if "until" in rule:
        parts.append(f"until {moment(rule['until'])}")
    if "max_runs" in rule:
        parts.append(f"{rule['max_runs'] - rule.get('runs', 0)} left")
    if rule["misfire"] != "once":
        grace = f" if later than {seconds(rule['grace_ms'])}" if "grace_ms" in rule else ""
        parts.append(f"missed runs: {rule['misfire']}{grace}")
    if "overlap" in rule:
        parts.append(f"runs due while one lasts: {rule['overlap']}")
    if "pause_after" in rule:
        count = rule["pause_after"]
        parts.append(f"paused after {count:,} failure{'' if count == 1 else 's'} in a row")
    return ", ".join(parts)


def _times(rule: dict[str, Any], *, explains_cron: bool) -> list[str]:
    if "cron" in rule:
        matched = ", where day and weekday match" if "day_match" in rule else ""
        words = _words(rule["cron"]) if explains_cron else None
        line = rule["cron"] if words is None else f"{words} ({rule['cron']})"
        parts = [f"{line} in {rule['tz']}{matched}"]
    elif "time" in rule:
        parts = [f"every {rule['every']} at {rule['time'].removesuffix(':00')} in {rule['tz']}"]
    else:
        parts = [f"every {seconds(rule['every_ms'])}"]
    if "dst_gap" in rule:
        parts.append(f"skipped times: {_GAPS[rule['dst_gap']]}")
    if "dst_overlap" in rule:
        parts.append(f"doubled times: {rule['dst_overlap']}")
    return parts


def _words(line: str) -> str | None:
    try:
        return Cron(line).words
    except MissingExtraError:
        return None


def seconds(ms: int) -> str:
    """
    Return *ms* as a number of seconds with its unit.
    """
    return f"{ms / 1000:g} s"
