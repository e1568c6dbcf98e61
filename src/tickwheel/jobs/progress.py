from __future__ import annotations

from typing import Final, NamedTuple, Self

from tickwheel.jobs.errors import InvalidJobError, kept_text

__all__ = ["NOTE_MAX", "Progress"]

NOTE_MAX: Final = 200


class Progress(NamedTuple):
    """
    The latest progress that an attempt has reported.

    The progress stays in memory until the attempt ends. Then the history gets the last note.

    Attributes:
        fraction: From 0.0 to 1.0.
        note: The state of the work, or a result so far; "" if there is none.
    """

    fraction: float
    note: str = ""

    @classmethod
    def of(cls, fraction: float, note: str) -> Self:
        """
        Validate a caller's progress. A long *note* is truncated.
        """
        if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
            raise InvalidJobError("progress", fraction, "pass a number in 0..1, such as done / total")
        if not isinstance(note, str):
            raise InvalidJobError("note", note, f"pass a string, not {type(note).__name__}")
        return cls(float(fraction), kept_text(note, NOTE_MAX))
