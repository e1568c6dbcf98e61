from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from tickwheel.cache._base import BaseCache
from tickwheel.cache._cached import CachedFunction, chosen_key, clear, found, is_async, refuse_generators
from tickwheel.cache._stats import CacheInfo

__all__ = ["CachedMethod", "cachedmethod"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class CachedMethod(Generic[S, P, R]):
    """
    The result of `cachedmethod`: a method whose results are stored in a cache of its object.
    """

    def __init__(
        self,
        method: Callable[Concatenate[S, P], R],
        cache: Callable[[Any], BaseCache[Any, Any] | None],
        key: Callable[..., Hashable],
    ) -> None:
        functools.update_wrapper(self, method)
        self._method = method
        self._cache = cache
        self._key = key
        self._bound = _BoundAsync if is_async(method) else _Bound

    def __repr__(self) -> str:
        return f"<cachedmethod {self._method!r}>"

    def __call__(self, instance: S, /, *args: P.args, **keywords: P.kwargs) -> R:
        return self._bind(instance)(*args, **keywords)

    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> Self: ...
    @overload
    def __get__(self, instance: S, owner: Any = None, /) -> CachedFunction[P, R]: ...
    def __get__(self, instance: S | None, owner: Any = None, /) -> Self | CachedFunction[P, R]:
        return self if instance is None else self._bind(instance)

    def _bind(self, instance: S) -> CachedFunction[P, R]:
        bound: Any = self._bound(instance, self._method, found(self._cache(instance)), self._key)
        return bound  # type: ignore[no-any-return]


class _Bound:
    """
    A method bound to one object, with the attributes of the method.
    """

    __slots__ = ("_instance", "_method", "cache", "cache_key")

    def __init__(
        self, instance: Any, method: Callable[..., Any], cache: BaseCache[Any, Any], key: Callable[..., Hashable]
    ) -> None:
        self._instance = instance
        self._method = method
        self.cache = cache
        self.cache_key = key

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        method, instance = self._method, self._instance
        return self.cache.take(self.cache_key(*args, **keywords), lambda _: method(instance, *args, **keywords))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    @property
    def __self__(self) -> Any:
        return self._instance

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Bound):
            return NotImplemented
        return self._instance is other._instance and self._method == other._method

    def __hash__(self) -> int:
        return hash((id(self._instance), self._method))

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle only the object, because the copy looks up the method again.
        return getattr, (self._instance, self._method.__name__)

    def __repr__(self) -> str:
        return f"<cachedmethod {self._method!r} of {object.__repr__(self._instance)}>"

    @property
    def __wrapped__(self) -> Any:
        return self._method.__get__(self._instance)

    def cache_info(self) -> CacheInfo:
        return self.cache._info()

    def cache_clear(self) -> None:
        clear(self.cache)


class _BoundAsync(_Bound):
    __slots__ = ()

    async def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        method, instance = self._method, self._instance
        key = self.cache_key(*args, **keywords)
        return await self.cache.take_async(key, lambda _: method(instance, *args, **keywords))


for _kind in (_Bound, _BoundAsync):
    _kind.__doc__ = property(lambda self: self._method.__doc__)  # type: ignore[assignment]  # for help()


def cachedmethod(
    cache: Callable[[Any], BaseCache[Any, Any] | None],
    *,
    key: Callable[..., Hashable] | None = None,
    typed: bool = False,
) -> Callable[[Callable[Concatenate[S, P], R]], CachedMethod[S, P, R]]:
    """
    Cache the results of a method, or a coroutine method, in a cache of its object.

        class Prices:
            def __init__(self):
                self.cache = TTLCache(maxsize=1000, ttl=60.0)

            @cachedmethod(lambda self: self.cache)
            def rate(self, currency): ...

    Unlike `cached` on a method, this decorator does not keep objects alive, and objects need not be hashable.
    `prices.rate.cache_info()` and `cache_clear()` refer to the cache of that object.

    Args:
        cache: Returns the cache of an object, or None to cache nothing. Methods that share a cache need distinct keys.
        key: Makes a key of the arguments without the object; None for `call_key`.
        typed: True to distinguish the arguments 1, 1.0 and True.

    Raises:
        TypeError: As for `cached`. If *cache* returns a wrong object, the look-up of the method raises the error.
    """
    if not callable(cache):
        message = f"cache is {cache!r}: pass a function of the object that returns its cache"
        raise TypeError(message)
    make_key = chosen_key(key, is_typed=typed)

    def decorate(method: Callable[Concatenate[S, P], R]) -> CachedMethod[S, P, R]:
        refuse_generators(method)
        return CachedMethod(method, cache, make_key)

    return decorate
