"""
The one thing that stores know of the text of a recurrence: the run that a series waits for.
"""

from __future__ import annotations

import re

__all__ = ["put_off"]

_RUN_AT = re.compile(r',"run_at":\d+')
"""As it is in a canonical text, where another name always comes before it."""


def put_off(text: str) -> str:
    """
    Return the recurrence *text* of a job that is moved to later: its series goes on from there.
    """
    return _RUN_AT.sub("", text)
