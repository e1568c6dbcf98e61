"""
Lanes: jobs that share a fate, because one handler, one queue or one receiver takes them all.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["lane_of"]

_ORIGIN: Final = re.compile(r".*?://[^/?#]*", re.DOTALL)
_NAMED: Final = ("handler", "pull")
"""Targets whose handlers are names. A handler of any other target may be an address."""


@lru_cache(maxsize=4_096)
def lane_of(target: str, handler: str) -> str:
    """
    Return the lane of the jobs of *target* and *handler*, such as "handler:mail" or "webhook:https://example.com".

    The lane of an address is its receiver: scheme, host and port as they are written. The stores compute the same in
    their own languages, see the method `scan`.
    """
    origin = None if target in _NAMED else _ORIGIN.match(handler)
    return f"{target}:{handler if origin is None else origin[0]}"
