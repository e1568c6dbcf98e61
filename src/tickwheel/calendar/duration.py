"""
Internal: durations as text: `90s`, `2h30m`, `PT30M`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["from_text"]

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PARTS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|min|s|m|h|d|w)")
_NUMBER: Final = r"(?:([0-9]+(?:[.,][0-9]+)?)%s)?"
_ISO: Final = re.compile(f"P{_NUMBER % 'W'}{_NUMBER % 'D'}(?:T(?=[0-9]){_NUMBER % 'H'}{_NUMBER % 'M'}{_NUMBER % 'S'})?")
_ISO_UNITS: Final = (604_800, 86_400, 3600, 60, 1)
_LONGEST: Final = 100
"""Maximum number of characters of a duration. A century in nanoseconds has only 19 digits."""


def from_text(text: str) -> float:
    """
    Parse *text* as seconds: numbers with units (ms, s, m or min, h, d, w), or an ISO 8601 duration.

    A leading minus sign is allowed.

    Raises:
        ValueError: If the text is not of this form, or has years or months, which have no fixed length. The message
            says what to write instead.
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    if len(rest) <= _LONGEST:
        parts = _PARTS.findall(rest)
        if parts and "".join(number + unit for number, unit in parts) == rest:
            return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)
        iso = _ISO.fullmatch(rest)
        if iso is not None and any(iso.groups()):
            pairs = zip(iso.groups(), _ISO_UNITS, strict=True)
            return sign * sum(float(number.replace(",", ".")) * unit for number, unit in pairs if number)
    remedy = "write numbers with units such as 90s, 1.5h, 2h30m, 7d, or ISO 8601 without years and months such as PT30M"
    raise ValueError(remedy)
