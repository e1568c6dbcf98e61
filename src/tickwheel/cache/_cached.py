from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from tickwheel import _core
from tickwheel.cache._base import BaseCache
from tickwheel.cache._keys import call_key, typed_call_key
from tickwheel.cache._stats import CacheInfo

__all__ = ["CachedFunction", "cached", "chosen_key", "clear", "found", "is_async", "refuse_generators"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)


class CachedFunction(Protocol[P, R_co]):
    """
    The result of `cached`: a function with cached results, and these attributes.
    """

    cache: BaseCache[Any, Any]
    """The cache of the results."""
    cache_key: Callable[..., Hashable]
    """Makes the key of a call from its arguments."""
    __name__: str

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R_co: ...

    def cache_clear(self) -> None:
        """
        Remove all entries, and reset the counters of `cache_info`.
        """

    def cache_info(self) -> CacheInfo:
        """
        Return hits, misses, maximum and current size of the cache.
        """

    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> Self: ...
    @overload
    def __get__(
        self: CachedFunction[Concatenate[S, Q], R], instance: S, owner: Any = None, /
    ) -> CachedFunction[Q, R]: ...


def cached(
    cache: BaseCache[Any, Any] | None, *, key: Callable[..., Hashable] | None = None, typed: bool = False
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]:
    """
    Cache the results of a function, or a coroutine function, in *cache*.

        @cached(TTLCache(maxsize=1000, ttl=60.0))
        def rate(currency): ...

    Simultaneous calls with the same arguments run the function once: see `TTLCache.take` and `take_async`. Errors are
    not cached, and a result that does not fit is still returned. The function gets the attributes of `CachedFunction`.

    Args:
        cache: The cache. Functions that share a cache need distinct keys. With None, nothing is cached, and each call
            runs the function.
        key: Makes a key of the arguments; None for `call_key`, which needs hashable arguments.
        typed: True to distinguish the arguments 1, 1.0 and True. The keys are then made by `typed_call_key`.

    Raises:
        TypeError: If *cache* is not a cache of tickwheel or None, if *key* and *typed* are both given, or if the
            function is a generator function, because a generator can be used only once. A call also raises a TypeError
            if the function is not a coroutine function, but returns a coroutine.
    """
    make_key = chosen_key(key, is_typed=typed)
    if cache is None:
        make_key = _no_key  # not even concurrent calls share a result
    cache = found(cache)

    def decorate(function: Callable[P, R]) -> CachedFunction[P, R]:
        refuse_generators(function)
        wrap = _wrap_async if is_async(function) else _wrap
        wrapper: Any = functools.update_wrapper(wrap(function, cache, make_key), function)
        wrapper.cache, wrapper.cache_key = cache, make_key
        wrapper.cache_info, wrapper.cache_clear = cache._info, functools.partial(clear, cache)
        return wrapper  # type: ignore[no-any-return]

    return decorate


def found(cache: BaseCache[Any, Any] | None) -> BaseCache[Any, Any]:
    if cache is None:
        from tickwheel.cache._ttl import TTLCache  # noqa: PLC0415 - its module imports this one

        return TTLCache(maxsize=0, ttl=1.0)
    if not isinstance(cache, _core.Cache):
        message = f"cache is {cache!r}: pass a TTLCache or TLRUCache, or None to keep nothing"
        raise TypeError(message)
    return cache


def refuse_generators(function: Callable[..., Any]) -> None:
    if _is_any(function, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        message = f"{function!r} is a generator function: what it returns can be used only once"
        raise TypeError(message)


def is_async(function: Callable[..., Any]) -> bool:
    return _is_any(function, inspect.iscoroutinefunction)


def _is_any(function: Callable[..., Any], *kinds: Callable[[Any], bool]) -> bool:
    return any(kind(each) for kind in kinds for each in (function, type(function).__call__))


def chosen_key(key: Callable[..., Hashable] | None, *, is_typed: bool) -> Callable[..., Hashable]:
    if key is not None and is_typed:
        message = f"key is {key!r} and typed is True: let the key have the types of the arguments in it"
        raise TypeError(message)
    return key or (typed_call_key if is_typed else call_key)


def _no_key(*_args: object, **_keywords: object) -> Hashable:
    return object()


def clear(cache: BaseCache[Any, Any]) -> None:
    cache.clear()
    cache._restart_info()


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
