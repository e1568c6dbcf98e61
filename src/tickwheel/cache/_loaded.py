"""
A loaded value with a lifetime of its own.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from tickwheel.typing import Seconds

__all__ = ["Loaded"]

V = TypeVar("V")


class Loaded(NamedTuple, Generic[V]):
    """
    A value with a lifetime of its own, for a loader to return: `take` and its variants return the value alone.

        def resolve(name):
            answer = ask(name)
            return Loaded(answer.address, ttl=answer.ttl)

    Attributes:
        value: The value.
        ttl: How long it lives, in seconds or a timedelta; None for as long as the cache's rule says, 0 to keep nothing.
    """

    value: V
    ttl: Seconds | None = None
