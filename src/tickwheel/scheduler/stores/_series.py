"""
All that stores know of the text of a recurrence: the runs that a series waits for, and how long a run is worth firing.
"""

from __future__ import annotations

import re

__all__ = ["ahead", "length_of", "of_next_life", "put_off"]

# As they are in a canonical text, where another name always comes before them.
_WAITS = re.compile(r',"(?:next_at|run_at)":\d+')
_AGAIN = re.compile(r',"(?:expires_ms|next_at|run_at)":')
_BEFORE_NEXT_AT = re.compile(r'"misfire":"\w+"')
_LENGTH = re.compile(r',"expires_ms":(-?\d+)')


def put_off(text: str) -> str:
    """
    Return the recurrence *text* of a job that is moved to later: its series goes on from there.
    """
    return _WAITS.sub("", text)


def ahead(text: str, due_at: int) -> str:
    """
    Return the recurrence *text* of a job that waited until *due_at* and runs earlier: its series goes on from there.

    A run that is tried again is the same run, and one that was to run now already leaves the series where that did.
    """
    if _AGAIN.search(text):
        return text
    return _BEFORE_NEXT_AT.sub(rf'\g<0>,"next_at":{due_at}', text, count=1)


def length_of(text: str) -> int | None:
    """
    Return for how long after its instant a run is worth firing, in ms, where a retry has taken the job away from that.
    """
    found = _LENGTH.search(text)
    return None if found is None else int(found[1])


def of_next_life(text: str) -> str:
    """
    Return the recurrence *text* of a job that is due at the instant of a run again.
    """
    return _LENGTH.sub("", text)
