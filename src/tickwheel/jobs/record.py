"""
The decorator that makes the values of the scheduler's model.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from tickwheel._core import make_fast

__all__ = ["record"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """
    Make *cls* a value: compared and hashed by its fields, and frozen.

    The durable path makes seven of these for every firing, so they are made natively, and hidden from the garbage
    collector where their fields can lead to no cycle: see `make_fast`.
    """
    return make_fast(dataclass(frozen=True, slots=True)(cls))
