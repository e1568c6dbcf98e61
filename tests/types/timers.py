"""
Code with timers that type checkers must accept, and lines with `type: ignore` that they must refuse.

In both checkers, an ignore that is not needed is an error. So every line is checked. The code is never run.
"""

from __future__ import annotations

from array import array
from contextlib import AsyncExitStack
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import assert_type
from zoneinfo import ZoneInfo

from tickwheel import Context, Pending, Periodic, ShardedWheel, Timer, TimerWheel, aio, background
from tickwheel.calendar import Misfire


def greet(name: str, times: int = 1) -> None:
    """
    Take a string, and an optional number.
    """


async def fetch(url: str) -> bytes:
    """
    Take a string, in a coroutine.
    """
    return url.encode()


def setting(wheel: TimerWheel) -> None:
    """
    At every method that sets a timer, the type checkers compare the arguments with the parameters of the callback.
    """
    assert_type(wheel.call_later(1, greet, "ada"), Timer)
    wheel.call_later(1.5, greet, "ada", 2)
    wheel.call_later(timedelta(seconds=1), fetch, "url", slack=timedelta(milliseconds=5))
    wheel.call_at(wheel.time() + 1, print, "any", 1, None)
    wheel.call_later(0, lambda: greet("ada"))
    wheel.call_later(0, partial(greet, "ada", times=3))
    wheel.call_later(0, [].clear, slack=1)
    assert_type(wheel.call_every(1, greet, "ada", first=0, times=3, missed="burst"), Periodic)

    assert_type(wheel.call_cron("0 9 * * *", greet, "ada", tz="Europe/Berlin", misfire="skip", times=3), Periodic)
    wheel.call_cron("@daily", fetch, "url", misfire=Misfire.ALL, jitter=timedelta(minutes=5))
    assert_type(wheel.call_at_wall(datetime.now(UTC), greet, "ada", 2), Periodic)
    wheel.call_at_wall(1_800_000_000, fetch, "url")
    wheel.call_at_wall(1_800_000_000.5, lambda: greet("ada"))

    wheel.call_later(1.0, greet, 7)  # type: ignore[arg-type]
    wheel.call_later(1.0, greet)  # type: ignore[arg-type]
    wheel.call_later(1.0, greet, "ada", 1, 2)  # type: ignore[arg-type]
    wheel.call_later("1", greet, "ada")  # type: ignore[arg-type]
    wheel.call_later(1.0, "greet")  # type: ignore[arg-type]
    wheel.call_at(1.0, fetch, b"url")  # type: ignore[arg-type]
    wheel.call_every(1.0, greet, 7)  # type: ignore[arg-type]
    wheel.call_every(1.0, greet, "ada", missed="never")  # type: ignore[arg-type]
    wheel.call_cron("@daily", greet, 7)  # type: ignore[arg-type]
    wheel.call_cron("@daily", greet)  # type: ignore[arg-type]
    wheel.call_cron(9, greet, "ada")  # type: ignore[arg-type]
    wheel.call_cron("@daily", greet, "ada", misfire="never")  # type: ignore[arg-type]
    wheel.call_cron("@daily", greet, "ada", tz=UTC)  # type: ignore[arg-type]
    wheel.call_at_wall(b"09:00", greet, "ada")  # type: ignore[arg-type]
    wheel.call_at_wall(timedelta(hours=1), greet, "ada")  # type: ignore[arg-type]
    wheel.call_at_wall(0, greet, 7)  # type: ignore[arg-type]
    wheel.call_at_wall(0, greet, "ada", times=2)  # type: ignore[call-arg]
    wheel.call_later(1.0, greet, "ada", colour="red")  # type: ignore[call-arg]


def in_bulk(wheel: TimerWheel) -> None:
    """
    A callback of many timers that were set together takes an array of their ids.
    """

    def expire(ids: array[int]) -> None: ...

    ids = wheel.call_later_many([1, 1.5, timedelta(seconds=1)], expire)
    assert_type(ids, array[int])
    wheel.move_many(ids, timedelta(hours=1))
    assert_type(wheel.call_later_many([1], expire, slack=timedelta(seconds=5)), array[int])

    wheel.call_later_many([1], greet)  # type: ignore[arg-type]
    wheel.call_later_many(["1"], expire)  # type: ignore[list-item]
    wheel.call_later_many(1, expire)  # type: ignore[arg-type]
    wheel.call_later_many([1], expire, slack="5")  # type: ignore[arg-type]


def of_contexts(context: Context) -> None:
    """
    Timers of a context are checked like the timers of a wheel.
    """
    assert_type(context.call_later(1, greet, "ada"), Timer)
    context.call_at(timedelta(hours=1), fetch, "url")

    context.call_later(1, greet, 7)  # type: ignore[arg-type]
    context.call_at(1.0, fetch)  # type: ignore[arg-type]


async def timeouts(stack: AsyncExitStack) -> None:
    """
    A timeout is an asynchronous context manager, which an exit stack accepts.

    Its class cannot be instantiated directly: only functions such as `timeout` create it.
    """
    assert_type(await stack.enter_async_context(aio.timeout(1)), aio.Timeout)

    aio.Timeout()  # type: ignore[call-arg]


def handles(wheel: TimerWheel) -> None:
    """
    The methods of handles and wheels have typed results.
    """
    timer = wheel.call_later(1, print)
    assert_type(timer.when(), float)
    assert_type(timer.restart(timedelta(seconds=1)), bool)
    assert_type(wheel.close(), list[Pending])
    assert_type(wheel.call_at_wall(0, print).next_at(), datetime | None)
    background(wheel)

    timer.restart("1")  # type: ignore[arg-type]


def note(key: str, value: int) -> None:
    """
    Take the key and the value of a keyed timer.
    """


class Own(TimerWheel):
    """
    A user's subclass, with keys of any type.
    """


def keyed(bare: TimerWheel) -> TimerWheel:
    """
    The keys and values of a wheel have the types that its `on_expire` takes.

    Without `on_expire`, the wheel accepts any types.
    """
    wheel = TimerWheel(on_expire=note)
    assert_type(wheel, TimerWheel[str, int])
    assert_type(TimerWheel.asyncio(on_expire=note), TimerWheel[str, int])
    assert_type(TimerWheel.trio(on_expire=note), TimerWheel[str, int])
    assert_type(ShardedWheel(2, on_expire=note, max_pending=5), ShardedWheel[str, int])
    assert_type(wheel.get("a"), int | None)
    assert_type(wheel.get("a", "none"), int | str)
    assert_type(wheel.find("a"), tuple[int, float] | None)
    assert_type(wheel.keys(), list[str])
    assert_type(wheel.items(), list[tuple[str, int]])
    wheel.set("a", 1, timedelta(seconds=1), context=copy_context())
    wheel.drain(note)
    named: TimerWheel[str, bytes] = TimerWheel()
    named.call_cron("@daily", greet, "ada", tz=ZoneInfo("Europe/Berlin"), context=copy_context())
    named.cancel_many([named.call_later(1, greet, "ada"), 7])
    named.cancel_many(named.call_later_many([1.0], print))
    named.move_many(array("q"), 1)
    bare.set(1, None, 2)
    Own().set(("any",), b"", 2)

    wheel.set(1, 2, 3.0)  # type: ignore[arg-type]
    wheel.set("a", "b", 3.0)  # type: ignore[arg-type]
    wheel.move(1, 3.0)  # type: ignore[arg-type]
    wheel.drain(fetch)  # type: ignore[arg-type]
    wheel.cancel_many([1.5])  # type: ignore[list-item]
    wheel.move_many(["a"], 1)  # type: ignore[list-item]
    number: int = wheel.get("a")  # type: ignore[assignment]
    TimerWheel.asyncio(on_expir=note)  # type: ignore[call-arg]
    TimerWheel.asyncio(max_pending="3")  # type: ignore[arg-type]
    ShardedWheel(2, on_expire=note, max_pendin=3)  # type: ignore[call-arg]
    del number
    return bare


async def awaited(wheel: TimerWheel) -> None:
    """
    The awaitable methods are typed.
    """
    assert_type(await wheel.sleep(timedelta(seconds=1)), bool)
    async for tick in wheel.every(1.0, until=5, times=3, missed="delay"):
        assert_type(tick, float)
    assert_type(await wheel.aclose(timeout=1), list[Pending])
    await aio.sleep(timedelta(seconds=1))
    async with aio.timeout(timedelta(seconds=1)):
        await aio.wait_for(aio.sleep(1), timedelta(seconds=2))

    wheel.every("1")  # type: ignore[arg-type]
    wheel.every(1, missed="never")  # type: ignore[arg-type]
    aio.timeout("1")  # type: ignore[arg-type]
