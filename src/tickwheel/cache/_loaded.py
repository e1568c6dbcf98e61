from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from tickwheel.typing import Seconds

__all__ = ["Loaded"]

V = TypeVar("V")


class Loaded(NamedTuple, Generic[V]):
    """
    The result of a loader that determines the lifetime. `take` and its variants return only the value.

        def resolve(name):
            answer = ask(name)
            return Loaded(answer.address, ttl=answer.ttl)

    Attributes:
        ttl: The lifetime, in seconds or a timedelta; None for the cache's default, 0 to store nothing.
    """

    value: V
    ttl: Seconds | None = None
