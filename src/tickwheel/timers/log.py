"""
The log for errors that nothing else receives.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["log_error", "logger"]


def logger() -> Logger:
    """
    Return the logger `tickwheel`; logging is imported when there is something to log.
    """
    import logging  # noqa: PLC0415 - it would be a tenth of the cost of importing tickwheel

    return logging.getLogger("tickwheel")


def log_error(error: BaseException, timer: object) -> None:
    """
    Log what a callback raised to the logger `tickwheel`: the default where nothing else receives it.
    """
    logger().error("a callback raised: %r", timer, exc_info=error)
