from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TypeVar, TypeVarTuple, Unpack

__all__ = ["call_in"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def call_in(context: Context | None, call: Callable[[*Ts], R], *args: Unpack[Ts]) -> R:
    """
    Call *call* in *context*, or in a copy if *context* is already entered. If *context* is None, use the current one.
    """
    if context is None:
        return call(*args)
    has_begun = False

    def begin() -> R:
        nonlocal has_begun
        has_begun = True
        return call(*args)

    try:
        return context.run(begin)
    except RuntimeError:
        if has_begun:
            raise
    return context.copy().run(call, *args)
