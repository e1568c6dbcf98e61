"""
Code with caches that type checkers must accept, and lines with `type: ignore` that they must refuse.

In both checkers, an ignore that is not needed is an error. So every line is checked. The code is never run.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from tickwheel.cache import (
    CachedFunction,
    CacheInfo,
    LoadStats,
    Reason,
    Refresh,
    TLRUCache,
    TTLCache,
    cached,
    cachedmethod,
    typed_call_key,
)

ages: TTLCache[str, int] = TTLCache(10, ttl=60)


def items() -> None:
    """
    A cache returns values of its value type.

    It accepts only keys and values of its own types.
    """
    ages["ada"] = 36
    assert_type(ages["ada"], int)
    assert_type(ages.get("ada"), int | None)
    assert_type(ages.get("ada", 0), int)
    assert_type(ages.get("ada", "unknown"), int | str)
    assert_type(ages.peek("ada"), int | None)
    assert_type(ages.peek("ada", 0), int)
    assert_type(ages.pop("ada"), int)
    assert_type(ages.pop("ada", None), int | None)
    assert_type(ages.setdefault("ada", 36), int)
    assert_type(ages.popitem(), tuple[str, int])
    assert_type(ages.expire(), list[tuple[str, int]])
    assert_type(list(ages), list[str])
    assert_type(list(ages.items()), list[tuple[str, int]])
    assert_type(ages.get_many(["ada"]), dict[str, int])
    assert_type(ages.remaining("ada"), float | None)
    ages.set("ada", 36, ttl=timedelta(seconds=5))
    ages.set_many({"ada": 36}, ttl=5)
    assert_type(ages.touch("ada", 1.5), bool)
    del ages["ada"]

    ages[1] = 36  # type: ignore[index]
    ages["ada"] = "36"  # type: ignore[assignment]
    ages.get(1)  # type: ignore[call-overload]
    ages.peek(1)  # type: ignore[call-overload]
    ages.pop(b"ada")  # type: ignore[call-overload]
    ages.setdefault("ada", "36")  # type: ignore[arg-type]
    ages.set("ada", "36")  # type: ignore[arg-type]
    ages.set("ada", 36, ttl="5")  # type: ignore[arg-type]
    ages.set_many({1: 36})  # type: ignore[dict-item]
    ages.get_many([1])  # type: ignore[list-item]
    ages.touch(1)  # type: ignore[arg-type]
    del ages[1]  # type: ignore[arg-type]


async def loads() -> None:
    """
    A loader must take keys of the cache's key type, and return values of its value type.
    """

    def load(name: str) -> int:
        return len(name)

    async def load_later(name: str) -> int:
        return len(name)

    def load_many(names: list[str]) -> dict[str, int]:
        return {name: len(name) for name in names}

    async def load_many_later(names: list[str]) -> dict[str, int]:
        return load_many(names)

    assert_type(ages.take("ada", load), int)
    assert_type(await ages.take_async("ada", load_later), int)
    assert_type(ages.take_many(["ada"], load_many), dict[str, int])
    assert_type(await ages.take_many_async(["ada"], load_many_later), dict[str, int])
    assert_type(ages.stats().loads, LoadStats)

    ages.take(1, load)  # type: ignore[arg-type]
    ages.take("ada", load_later)  # type: ignore[arg-type]
    ages.take("ada", str.upper)  # type: ignore[arg-type]
    ages.take_many(["ada"], load)  # type: ignore[arg-type]
    await ages.take_async("ada", load)  # type: ignore[arg-type]


@cached(ages, typed=True)
def length(name: str, *, times: int = 1) -> int:
    """
    Return a number.
    """
    return len(name) * times


@cached(TTLCache[Any, Any](10, 60.0), key=typed_call_key)
async def fetch(url: str) -> bytes:
    """
    Return bytes, as a coroutine.
    """
    return url.encode()


async def functions() -> None:
    """
    A cached function has the parameters and the result of the original function.

    It also has the attributes of a cached function.
    """
    assert_type(length("ada", times=2), int)
    assert_type(await fetch("url"), bytes)
    assert_type(length.cache_info(), CacheInfo)
    length.cache_clear()
    length.cache.pop(length.cache_key("ada"), None)
    assert_type(length.__wrapped__("ada"), int)

    length(5)  # type: ignore[arg-type]
    length("ada", 2)  # type: ignore[call-arg]
    length("ada").upper()  # type: ignore[attr-defined]
    length.cache_clear(1)  # type: ignore[call-arg]
    cached({})  # type: ignore[arg-type]


class Shop:
    """
    A class with methods cached by `cached` and by `cachedmethod`.
    """

    cache: TTLCache[Any, int] = TTLCache(10, 60.0)

    @cached(cache)
    def stock(self, article: str) -> int:
        """
        Return a number.
        """
        return len(article)

    @cachedmethod(lambda self: self.cache)
    def price(self, article: str) -> int:
        """
        Return a number.
        """
        return len(article)


def methods(shop: Shop) -> None:
    """
    A method that is cached by `cached` or by `cachedmethod` is bound to its object.
    """
    assert_type(shop.stock("pear"), int)
    assert_type(shop.price("pear"), int)
    assert_type(shop.price.cache_info(), CacheInfo)
    assert_type(Shop.price(shop, "pear"), int)
    bound: CachedFunction[[str], int] = shop.price
    bound.cache_clear()
    shop.stock.cache_clear()

    shop.stock(5)  # type: ignore[arg-type]
    shop.price(5)  # type: ignore[arg-type]
    shop.price()  # type: ignore[call-arg]
    cachedmethod(shop.cache)  # type: ignore[arg-type]


def constructors() -> None:
    """
    The arguments of constructors are checked.
    """

    def on_expire(key: str, value: int, reason: Reason) -> None: ...

    def until(key: str, value: int, now: float) -> float:
        return now + value + len(key)

    TTLCache(10, timedelta(minutes=1), on_expire=on_expire, refresh=Refresh(ahead=5, stale_if_error=timedelta(hours=1)))
    assert_type(TLRUCache(10, until), TLRUCache[str, int])

    TTLCache("10", 60.0)  # type: ignore[arg-type]
    TTLCache(10, "60")  # type: ignore[arg-type]
    TTLCache(10, 60.0, refresh=5)  # type: ignore[arg-type]
    Refresh(ahead="5")  # type: ignore[arg-type]
    TLRUCache(10, 60.0)  # type: ignore[arg-type]
