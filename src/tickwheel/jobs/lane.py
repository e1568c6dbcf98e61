from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["lane_of"]

_ORIGIN: Final = re.compile(r".*?://[^/?#]*", re.DOTALL)
_NAMED: Final = ("handler", "pull")
"""Targets that have one lane for each handler. Any other target has one lane, or a lane for each receiver."""


@lru_cache(maxsize=4_096)
def lane_of(target: str, handler: str) -> str:
    """
    Return the lane of the jobs of *target* and *handler*.

    A lane is a handler ("handler:mail"), a pull queue ("pull:video"), or a receiver. The receiver of a URL is the
    scheme, host and port as written ("webhook:https://example.com"). Any other target has one lane ("rabbitmq:").
    The stores on SQLite and PostgreSQL compute the same names in SQL.
    """
    if target in _NAMED:
        return f"{target}:{handler}"
    origin = _ORIGIN.match(handler)
    return f"{target}:{'' if origin is None else origin[0]}"
