"""
Answers 422, with the reason, if a user of the application wrote a time or rule that cannot be read.
"""

from __future__ import annotations

from typing import Final

from tickwheel.errors import InvalidDelayError, InvalidValueError

__all__ = ["STATUS", "Refusal", "document_of"]

STATUS: Final = 422

Refusal = (InvalidValueError, InvalidDelayError)
"""The errors of an unreadable time or rule. `document_of` finds out if a user wrote this time or rule."""

_WHEN: Final = frozenset(
    {
        *("at", "cron", "day_match", "delay", "dst_gap", "dst_overlap", "every", "exclude", "expires", "jitter"),
        *("max_runs", "max_wait", "misfire", "misfire_grace", "overlap", "pause_after", "time", "tz", "until"),
    }
)
"""The arguments of `set` that users of an application may write, because they determine due times."""


def document_of(error: Exception) -> dict[str, str] | None:
    """
    Return the body of the answer to *error*, or None if the program caused the error.
    """
    if not isinstance(error, Refusal) or error.name not in _WHEN:
        return None
    return {"detail": str(error), "field": error.name}
