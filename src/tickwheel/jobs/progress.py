"""
The progress of a running attempt, as its handler notes it.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from tickwheel.jobs.errors import InvalidJobError, kept_text

__all__ = ["NOTE_MAX", "Progress"]

NOTE_MAX: Final = 200
"""The number of characters of a note that are kept."""


class Progress(NamedTuple):
    """
    The part of its work that an attempt has done, as it noted it last.

    It is in memory alone until the attempt ends; the last note goes into the history with that end.

    Attributes:
        fraction: From 0.0 to 1.0.
        note: Where it is, or what it has found so far, in words; "" where nothing was said.
    """

    fraction: float
    note: str = ""

    @classmethod
    def of(cls, fraction: float, note: str) -> Self:
        """
        Return what a caller noted; of a long *note* its beginning.

        Raises:
            InvalidJobError: Naming the value and the remedy.
        """
        if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
            raise InvalidJobError("progress", fraction, "pass a number in 0..1, such as done / total")
        if not isinstance(note, str):
            raise InvalidJobError("note", note, f"pass a string, not {type(note).__name__}")
        return cls(float(fraction), kept_text(note, NOTE_MAX))
