"""
Groups dead letters by their cause. The groups are called incidents.

Two dead letters are in one group if their target and handler are equal, their errors come from the same line of the
user's code (if known), and the errors differ only in variable parts: numbers, ids and quoted values. Some quoted names
are not variable parts: the key of a KeyError; the names in an AttributeError, NameError or ImportError; and names after
words such as "table" or "column".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final

from tickwheel.jobs.model import Job
from tickwheel.jobs.record import record

__all__ = ["HOURS", "LETTERS_MAX", "Incident", "Incidents", "incidents_of", "normalised"]

LETTERS_MAX: Final = 10_000
"""Maximum number of dead letters that are examined, latest first."""
HOURS: Final = 24
_PLACES_MAX: Final = 20
_CHARS_MAX: Final = 500
_VARIABLE: Final = re.compile(
    r"""
    (?<!\w)(?P<quoted> '[^'\n]*' | "[^"\n]*" | `[^`\n]*` )(?!\w)                # an apostrophe quotes nothing
    | (?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])       # a UUID
    | \b0x[0-9a-f]+
    | \b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b                       # a digest, or a part of one
    | (?<!\S)/(?=\S*[0-9])\S+                                                    # a path with a number
    | [0-9]+(?:[.,:_][0-9]+)*                                                    # a number, a time, an address
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_.]{0,63}")
"""Matches a quoted text that may be a name in the user's code. A text with a digit is a variable part of an error."""
_NAMING_ERRORS: Final = re.compile(
    r"(?:[\w.]+\.)?(?:KeyError|AttributeError|NameError|UnboundLocalError|ImportError|ModuleNotFoundError)\b"
)
"""Matches errors of Python whose quoted texts are names in the user's code."""
_NAMING_WORDS: Final = re.compile(
    r"\b(?:argument|attribute|column|command|constraint|database|exchange|field|function|handler|index|keyword|method"
    r"|module|option|package|parameter|property|queue|relation|role|schema|table|topic|type|variable|view)s?:? ?$",
    re.IGNORECASE,
)
"""Matches a word, such as "column", that shows that the quoted text after it is a name in the user's code."""
_WORD_CHARS: Final = 16


@record
class Incident:
    """
    Dead letters with the same cause.

    Attributes:
        fingerprint: The group's id. The same cause always has the same id.
        error: The common error, with `…` for variable parts; "" if no error was stored.
        example: The error of the latest letter, unchanged.
        errors: Number of different error texts among the letters, as stored.
        first_at: Due time of the first letter's last attempt, in ms since the epoch.
        last_at: Due time of the latest letter's last attempt.
        by_hour: Number of letters that were due in each of the last 24 hours, oldest hour first.
        places: Each target and handler with its number of letters, most frequent first; at most 20.
        keys: The letters' keys, latest first.
        raised_in: The function of the user's code that raised the error, as in `Job`; or None.
    """

    fingerprint: str
    error: str
    example: str
    count: int
    errors: int
    first_at: int
    last_at: int
    by_hour: tuple[int, ...]
    places: tuple[tuple[str, str, int], ...]
    keys: tuple[str, ...]
    raised_in: str | None = None


@record
class Incidents:
    """
    The dead letters of a store as incidents.

    Attributes:
        incidents: Ordered by their latest letters, latest first.
        looked_at: Number of dead letters that were examined, all with the requested prefix.
        is_all: True if all dead letters were examined. If there are more than 10,000, only the latest are examined.
    """

    incidents: tuple[Incident, ...]
    looked_at: int
    is_all: bool


def incidents_of(letters: Sequence[Job], now: int, *, search: str = "", prefix: str = "") -> Incidents:
    """
    Group *letters*, which must be sorted, latest first. At most `LETTERS_MAX` letters are examined.

    If there are more, the result's `is_all` is False. The last hour of `by_hour` ends at *now*. *prefix* selects keys.
    *search* selects letters with this text in key, error, target, handler or `raised_in`, ignoring case.
    """
    wanted = search.casefold()
    looked_at = [job for job in letters[:LETTERS_MAX] if job.key.startswith(prefix)]
    groups: dict[tuple[str, ...], _Group] = {}
    for job in looked_at:
        if _has(job, wanted):
            kind = (normalised(job.error or ""), job.target, normalised(job.handler), job.raised_in or "")
            groups.setdefault(kind, _Group(job)).add(job, now)
    found = tuple(group.incident(*kind) for kind, group in groups.items())
    return Incidents(found, len(looked_at), len(letters) <= LETTERS_MAX)


@lru_cache(maxsize=4096)
def normalised(text: str) -> str:
    """
    Return *text* with `…` for variable parts, on one line, truncated to 500 characters.
    """
    names_all = _NAMING_ERRORS.match(text) is not None

    def fixed(found: re.Match[str]) -> str:
        quoted = found["quoted"]
        if quoted is None or not _NAME.fullmatch(quoted, 1, len(quoted) - 1):
            return "…"
        at = found.start()
        return quoted if names_all or _NAMING_WORDS.search(text, max(0, at - _WORD_CHARS), at) else "…"

    return " ".join(_VARIABLE.sub(fixed, text).split())[:_CHARS_MAX]


def _has(job: Job, wanted: str) -> bool:
    texts = (job.key, job.error, job.target, job.handler, job.raised_in)
    return not wanted or any(wanted in (text or "").casefold() for text in texts)


@dataclass(slots=True)
class _Group:
    latest: Job
    first_at: int = 0
    by_hour: list[int] = field(default_factory=lambda: [0] * HOURS)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    keys: list[str] = field(default_factory=list)
    errors: set[str | None] = field(default_factory=set)

    def add(self, job: Job, now: int) -> None:
        self.first_at = job.due_at
        hour = HOURS - 1 - max(0, now - job.due_at) // 3_600_000
        if hour >= 0:
            self.by_hour[hour] += 1
        self.places[job.target, job.handler] += 1
        self.keys.append(job.key)
        self.errors.add(job.error)

    def incident(self, error: str, target: str, handler: str, raised_in: str) -> Incident:
        name = f"{error}\0{target}\0{handler}\0{raised_in}".rstrip("\0").encode("utf-8", "surrogatepass")
        return Incident(
            fingerprint=sha256(name).hexdigest()[:16],
            error=error,
            example=self.latest.error or "",
            count=len(self.keys),
            errors=len(self.errors),
            first_at=self.first_at,
            last_at=self.latest.due_at,
            by_hour=tuple(self.by_hour),
            places=tuple((*place, count) for place, count in self.places.most_common(_PLACES_MAX)),
            keys=tuple(self.keys),
            raised_in=raised_in or None,
        )
