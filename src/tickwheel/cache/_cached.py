"""
A decorator that keeps what a function returns.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

from tickwheel.cache._base import BaseCache

__all__ = ["cached", "call_key"]

F = TypeVar("F", bound=Callable[..., Any])


class _Keywords:
    """
    Stands between positional and keyword arguments in a key.
    """

    def __repr__(self) -> str:
        return "<keywords>"

    def __reduce__(self) -> str:
        return "_KEYWORDS"


_KEYWORDS: Final = _Keywords()


def call_key(*args: Hashable, **keywords: Hashable) -> tuple[Hashable, ...]:
    """
    Return the key of a call: its arguments; keywords in any order are the same call.
    """
    return (*args, _KEYWORDS, *sorted(keywords.items())) if keywords else args


def cached(cache: BaseCache[Any, Any], *, key: Callable[..., Hashable] = call_key) -> Callable[[F], F]:
    """
    Keep what a function, or a coroutine function, returns, in *cache*.

        @cached(TTLCache(maxsize=1000, ttl=60.0))
        def rate(currency): ...

    Calls at the same time with the same arguments are one: see `TTLCache.take` and `take_async`. What raises is not
    kept. The function gets the attributes `cache`, `cache_key` (the *key* function) and `cache_clear`.

    Args:
        cache: Where; several functions that share one need keys that differ.
        key: Makes a key of the arguments, which by default must all be hashable.

    Raises:
        TypeError: If the function is a generator, whose result can be used only once.
    """

    def decorate(function: F) -> F:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            message = f"{function!r} is a generator function: what it returns can be used only once"
            raise TypeError(message)
        wrap = _wrap_async if inspect.iscoroutinefunction(function) else _wrap
        wrapper: Any = functools.update_wrapper(wrap(function, cache, key), function)
        wrapper.cache, wrapper.cache_key, wrapper.cache_clear = cache, key, cache.clear
        return wrapper  # type: ignore[no-any-return]

    return decorate


def _wrap(
    function: Callable[..., Any], cache: BaseCache[Any, Any], make_key: Callable[..., Hashable]
) -> Callable[..., Any]:
    def wrapper(*args: Any, **keywords: Any) -> Any:
        return cache.take(make_key(*args, **keywords), lambda _: function(*args, **keywords))

    return wrapper


def _wrap_async(
    function: Callable[..., Any], cache: BaseCache[Any, Any], make_key: Callable[..., Hashable]
) -> Callable[..., Any]:
    async def wrapper(*args: Any, **keywords: Any) -> Any:
        return await cache.take_async(make_key(*args, **keywords), lambda _: function(*args, **keywords))

    return wrapper
