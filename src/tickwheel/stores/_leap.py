"""
The leap of sequences when another server answers than the one that they were drawn from.
"""

from __future__ import annotations

import secrets
from typing import Final

__all__ = ["leap"]

_LEAST: Final = 1 << 32
"""More than any server gives out while its standby lags behind."""
_SPREAD: Final = 1 << 40
"""A leap may be lost with the server that made it: the next one must not land where it did. Thousands of such leaps fit
below 2**53, up to which every store and every JSON parser counts exactly."""


def leap() -> int:
    """
    Return the distance of a leap: large and random.
    """
    return _LEAST + secrets.randbelow(_SPREAD)
