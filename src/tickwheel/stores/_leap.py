"""
The leap: the distance by which generations and epochs jump after a change of server, so that no number is used again.
"""

from __future__ import annotations

import secrets
from typing import Final

__all__ = ["leap"]

_LEAST: Final = 1 << 32
"""Minimum distance of a leap (see the module). No server assigns that many numbers while its standby lags behind."""
# thousands of leaps fit below 2**53, the limit up to which every store and JSON parser counts exactly
_SPREAD: Final = 1 << 40
"""
Range of the random part of a leap, so that two leaps from the same numbers lead to different numbers.
"""


def leap() -> int:
    return _LEAST + secrets.randbelow(_SPREAD)
