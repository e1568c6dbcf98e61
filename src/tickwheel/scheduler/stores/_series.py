"""
All that stores know of the text of a recurrence: the run that a series waits for, and how long a run is worth firing.
"""

from __future__ import annotations

import re

__all__ = ["length_of", "of_next_life", "put_off"]

# As they are in a canonical text, where another name always comes before them.
_RUN_AT = re.compile(r',"run_at":\d+')
_LENGTH = re.compile(r',"expires_ms":(-?\d+)')


def put_off(text: str) -> str:
    """
    Return the recurrence *text* of a job that is moved to later: its series goes on from there.
    """
    return _RUN_AT.sub("", text)


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
