"""
Internal: the log for errors that the user's code does not handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["log_error", "logger"]


def logger() -> Logger:
    import logging  # noqa: PLC0415  a tenth of the cost of importing tickwheel

    return logging.getLogger("tickwheel")


def log_error(error: BaseException, timer: object) -> None:
    logger().error("a callback raised: %r", timer, exc_info=error)
