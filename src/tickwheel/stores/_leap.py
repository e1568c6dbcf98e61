"""
The leap of sequences after a change of server.
"""

from __future__ import annotations

import secrets
from typing import Final

__all__ = ["leap"]

_LEAST: Final = 1 << 32
"""Minimum leap: more numbers than any server gives out while its standby lags behind."""
_SPREAD: Final = 1 << 40
"""
Random part of a leap. A leap may be lost with its server, and the next one must not land on the same number. Thousands
of such leaps fit below 2**53, up to which every store and every JSON parser counts exactly.
"""


def leap() -> int:
    return _LEAST + secrets.randbelow(_SPREAD)
