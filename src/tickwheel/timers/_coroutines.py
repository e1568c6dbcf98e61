"""
Checks whether callbacks are coroutine functions, and refuses them if no event loop would await them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final, TypeGuard

__all__ = ["check_callback", "check_context", "hand_on", "is_coroutine", "is_coroutine_function", "refusal"]

CO_COROUTINE: Final = 0x80
"""The flag that marks the code object of an `async def` function, as in `inspect`."""


def is_coroutine(value: object) -> TypeGuard[Coroutine[Any, Any, Any]]:
    return isinstance(value, Coroutine)


def is_coroutine_function(callback: object) -> bool:
    """
    Return True if *callback* is written with `async def`, or is a method or a partial of such a function.

    Objects that `inspect` has marked are recognised only if `inspect` is already loaded, because its import is slow.
    """
    if "inspect" in sys.modules:
        from inspect import iscoroutinefunction  # noqa: PLC0415 - an import costs a quarter of `import tickwheel`

        return iscoroutinefunction(callback)
    while isinstance(callback, MethodType | partial):
        callback = callback.__func__ if isinstance(callback, MethodType) else callback.func
    return isinstance(callback, FunctionType) and bool(callback.__code__.co_flags & CO_COROUTINE)


def refusal(callback: object, name: str = "callback") -> str:
    return (
        f"{name} is {callback!r}, which makes a coroutine, and nobody here would await it: "
        "pass executor=TaskExecutor(), or use a wheel that fires on an event loop, such as TimerWheel.asyncio()"
    )


def check_callback(callback: object, *, is_awaited: bool, name: str = "callback") -> None:
    if not callable(callback):
        message = f"{name} is {callback!r}: pass something that can be called"
        raise TypeError(message)
    if not is_awaited and is_coroutine_function(callback):
        raise TypeError(refusal(callback, name))


def check_context(context: object) -> None:
    if not isinstance(context, Context):
        message = f"context is {context!r}: pass a contextvars.Context, or None"
        raise TypeError(message)


def hand_on(
    coroutine: Coroutine[Any, Any, Any],
    callback: object,
    source: object,
    on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None,
) -> None:
    """
    Pass the *coroutine* that *callback* has returned to *on_coroutine*, or close it and raise if there is no such hook.
    """
    if on_coroutine is None:
        coroutine.close()
        raise TypeError(refusal(callback))
    on_coroutine(coroutine, source)
