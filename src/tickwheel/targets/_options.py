"""
The queue options that a job may have. They are checked when the job is set, even if the queue's library is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from tickwheel.jobs.errors import InvalidJobError

__all__ = [
    "SECONDS_MAX",
    "Kind",
    "check_headers",
    "check_options",
    "count",
    "flag",
    "mapping",
    "matching",
    "scalar",
    "seconds",
    "text",
    "whole_to",
]

Kind = tuple[Callable[[Any], bool], str]
"""A check of an option's value, and the remedy if the check fails."""

SECONDS_MAX: Final = 3_155_760_000
"""Maximum number of seconds: a century. Libraries add the seconds to a date, and dates have a limited range."""
_OURS: Final = ("tickwheel-", "traceparent", "message-id")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


text: Final[Kind] = (lambda value: isinstance(value, str) and bool(value), "pass a text")
flag: Final[Kind] = (lambda value: isinstance(value, bool), "pass true or false")
count: Final[Kind] = (
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "pass a whole number, 0 or more",
)
seconds: Final[Kind] = (
    lambda value: _is_number(value) and 0 < value <= SECONDS_MAX,
    "pass seconds, more than 0 and less than a century",
)
mapping: Final[Kind] = (lambda value: isinstance(value, dict), "pass an object of names and values")
scalar: Final[Kind] = (
    lambda value: isinstance(value, str | bool) or _is_number(value),
    "pass a text, a number, true or false",
)


def whole_to(most: int, least: int = 0) -> Kind:
    def is_one(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return is_one, f"pass a whole number from {least} to {most}"


def matching(pattern: str, remedy: str) -> Kind:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None, remedy


def check_options(
    library: str, options: Mapping[str, Any], kinds: Mapping[str, Kind], refused: Mapping[str, str]
) -> None:
    """
    Refuse an option that *library* does not have, or an invalid value.

    *kinds* has the options that exist. *refused* has options that contradict the job, each with the remedy.
    """
    for name, value in options.items():
        shown = f"options[{name!r}]"
        if name in refused:
            raise InvalidJobError(shown, value, refused[name])
        if name not in kinds:
            raise InvalidJobError("option", name, f"the options of {library} are {', '.join(sorted(kinds))}")
        is_right, remedy = kinds[name]
        if value is not None and not is_right(value):
            raise InvalidJobError(shown, value, remedy)


def check_headers(
    name: str, headers: Mapping[str, Any] | None, library: str = "", theirs: Collection[str] = ()
) -> None:
    """
    Refuse *headers* that would replace headers of a firing, or the *library*'s own headers (*theirs*).
    """
    for each in headers or ():
        if each.lower().startswith(_OURS):
            raise InvalidJobError(name, each, "choose another name: tickwheel sets this one")
        if each in theirs:
            raise InvalidJobError(name, each, f"choose another name: {library} sets this one")
