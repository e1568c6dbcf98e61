"""
Internal: the child of a fork forgets the pending timers, so that they fire only in the parent.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["call_after_fork"]


class Forked(Protocol):
    def after_fork(self) -> None: ...


_forked: weakref.WeakSet[Forked] = weakref.WeakSet()


def call_after_fork(forked: Forked) -> None:
    """
    Call `after_fork` of *forked* in the child of every fork, as long as the object exists.
    """
    _forked.add(forked)


def _call_all() -> None:
    for forked in list(_forked):
        forked.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_call_all)
