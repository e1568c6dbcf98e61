"""
Callbacks that are coroutine functions, and what is said of them where nobody awaits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final, TypeGuard

__all__ = ["check_callback", "check_context", "handed_on", "is_coroutine", "is_coroutine_function", "refusal"]

CO_COROUTINE: Final = 0x80
"""The flag of a code object that was written with `async def`, as `inspect` has it."""


def is_coroutine(value: object) -> TypeGuard[Coroutine[Any, Any, Any]]:
    """
    Return whether *value* is a coroutine.
    """
    return isinstance(value, Coroutine)


def is_coroutine_function(callback: object) -> bool:
    """
    Return whether *callback* is a function written with `async def`, a method or a partial of one.

    Something else can only be marked as one with the help of `inspect`, which is slow to import and is left alone until
    somebody else has done so.
    """
    if "inspect" in sys.modules:
        from inspect import iscoroutinefunction  # noqa: PLC0415 - an import costs a quarter of `import tickwheel`

        return iscoroutinefunction(callback)
    while isinstance(callback, MethodType | partial):
        callback = callback.__func__ if isinstance(callback, MethodType) else callback.func
    return isinstance(callback, FunctionType) and bool(callback.__code__.co_flags & CO_COROUTINE)


def refusal(callback: object, name: str = "callback") -> str:
    """
    Return what there is to say about a *callback* that makes a coroutine where nobody awaits it.
    """
    return (
        f"{name} is {callback!r}, which makes a coroutine, and nobody here would await it: "
        "pass executor=TaskExecutor(), or use a wheel that fires on an event loop, such as TimerWheel.asyncio()"
    )


def check_callback(callback: object, *, is_awaited: bool, name: str = "callback") -> None:
    """
    Refuse what cannot be called.

    Args:
        callback: What a user gave.
        is_awaited: Whether somebody awaits the coroutine that it may make.
        name: What it is called in the error.

    Raises:
        TypeError: If *callback* is not callable, or a coroutine function that nobody would await.
    """
    if not callable(callback):
        message = f"{name} is {callback!r}: pass something that can be called"
        raise TypeError(message)
    if not is_awaited and is_coroutine_function(callback):
        raise TypeError(refusal(callback, name))


def check_context(context: object) -> None:
    """
    Refuse what no callback can be called in.

    Raises:
        TypeError: If *context* is something else than a context.
    """
    if not isinstance(context, Context):
        message = f"context is {context!r}: pass a contextvars.Context, or None"
        raise TypeError(message)


def handed_on(
    result: Any, callback: object, timer: object, on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None
) -> Any:
    """
    Return the *result* of a *callback*, or None if it was a coroutine, which is given to *on_coroutine*.

    Raises:
        TypeError: If there is nobody to give it to. It was closed.
    """
    if not is_coroutine(result):
        return result
    if on_coroutine is None:
        result.close()
        raise TypeError(refusal(callback))
    on_coroutine(result, timer)
    return None
