"""
A crontab, read line by line into jobs to set.

Read as cron reads it: comments and empty lines, `NAME=value` lines (of which `CRON_TZ` and `TZ` set the zone of what
follows), five fields or an alias, and the rest of the line is the command. There is no shell here: the command is the
payload of a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tickwheel.calendar import Cron
from tickwheel.errors import RecurrenceError

__all__ = ["BadLine", "CrontabLine", "parse"]

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_ZONES: Final = frozenset({"CRON_TZ", "TZ"})
_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class CrontabLine:
    """
    One job of a crontab.
    """

    line: int
    cron: str
    tz: str
    command: str
    user: str | None


@dataclass(frozen=True, slots=True)
class BadLine:
    """
    One line that cannot be read, and why.
    """

    line: int
    reason: str


def parse(lines: Iterable[str], *, has_user: bool, tz: str) -> Iterator[CrontabLine | BadLine]:
    """
    Read *lines*.

    Args:
        lines: Of the file.
        has_user: Whether a user's name precedes the command, as in the system's crontab.
        tz: The zone of lines that no assignment precedes.
    """
    for number, text in enumerate(lines, 1):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment:
            if assignment[1] in _ZONES:
                tz = assignment[2].strip("\"' ")
            continue
        try:
            yield _entry(number, line, tz, has_user=has_user)
        except RecurrenceError as error:
            yield BadLine(number, str(error))


def _entry(number: int, line: str, tz: str, *, has_user: bool) -> CrontabLine:
    count = 1 if line.startswith("@") else _FIELDS
    words = line.split(None, count + has_user)
    cron = " ".join(words[:count])
    Cron.parse(cron, tz)
    rest = words[count:]
    user = rest.pop(0) if has_user and rest else None
    return CrontabLine(number, cron, tz, rest[0] if rest else "", user)
