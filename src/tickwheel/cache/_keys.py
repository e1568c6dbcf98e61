from __future__ import annotations

from collections.abc import Hashable
from typing import Final

__all__ = ["call_key", "typed_call_key"]


class _Keywords:
    def __repr__(self) -> str:
        return "<keywords>"

    def __reduce__(self) -> str:
        return "_KEYWORDS"


_KEYWORDS: Final = _Keywords()


def call_key(*args: Hashable, **keywords: Hashable) -> tuple[Hashable, ...]:
    """
    Return the key of a call, made of its arguments. The order of keywords does not matter.
    """
    return (*args, _KEYWORDS, *sorted(keywords.items())) if keywords else args


def typed_call_key(*args: Hashable, **keywords: Hashable) -> tuple[Hashable, ...]:
    """
    Return the key of a call in which 1, 1.0 and True are different arguments.
    """
    values = (*args, *(value for _, value in sorted(keywords.items())))
    return (*call_key(*args, **keywords), *map(type, values))
