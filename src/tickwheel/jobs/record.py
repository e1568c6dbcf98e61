from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from tickwheel._core import make_fast

__all__ = ["record"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """
    Make *cls* a value class: frozen, compared and hashed by its fields.

    Each firing creates seven such objects. Therefore native code creates them, and hides them from the garbage
    collector if their fields cannot form a cycle; see `make_fast`.
    """
    return make_fast(dataclass(frozen=True, slots=True)(cls))
