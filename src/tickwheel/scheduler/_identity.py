"""
The name of an owner: one life of one scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["one_life"]

_BYTES: Final = 4
"""Enough that no two lives of one host and process id meet within a lease, and few enough to be read out."""


def one_life(name: str, token: Callable[[int], str]) -> str:
    """
    Return *name* with a random end, which no other life of the same name has.

    Host and process id alone do not say who somebody is: a container that is restarted in place has the same ones, and
    two schedulers of one process share them. A scheduler that took a lease under the name of its former life would take
    the jobs that were running for its own, and rescue none. The end comes from the system, never from a generator that
    a program may seed.
    """
    return f"{name}:{token(_BYTES)}"
