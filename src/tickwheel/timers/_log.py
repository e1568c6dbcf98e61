"""
Where errors go that nobody else is told of.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["log_error"]

_log: Final = logging.getLogger("tickwheel")


def log_error(error: BaseException, timer: object) -> None:
    """
    Log what a callback raised to the logger `tickwheel`: what happens where nobody else is told.
    """
    _log.error("a callback raised: %r", timer, exc_info=error)
