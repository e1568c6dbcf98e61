"""
The context in which the expiry of a key runs.
"""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from tickwheel import TimerWheel
from tickwheel.wheels.heap import HeapWheel

PATIENCE_S = 20.0


@pytest.mark.parametrize("make_wheel", [lambda: None, HeapWheel], ids=["native", "heap"])
@pytest.mark.parametrize("is_firing", [False, True])
def test_a_key_expires_in_the_context_of_its_last_set(make_wheel, is_firing):
    """
    `on_expire` runs in the context of the last call of `set` for the key, even if the key was expiring then.
    """
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    async def scenario() -> None:
        seen: list[tuple[str, str]] = []
        over = asyncio.Event()

        def on_expire(_key: str, value: str) -> None:
            seen.append((value, variable.get()))
            if value == "last":
                over.set()
            elif is_firing:
                set_as("last")

        def set_as(value: str) -> None:
            variable.set(value)
            wheel.set("key", value, 0.001)

        wheel = TimerWheel.asyncio(wheel=make_wheel(), on_expire=on_expire)
        set_as("first")
        if not is_firing:
            set_as("last")
        variable.set("of nobody")
        assert wheel.move("key", 0.0)
        await asyncio.wait_for(over.wait(), PATIENCE_S)
        assert seen == [("first", "first")] * is_firing + [("last", "last")]

    asyncio.run(scenario())
