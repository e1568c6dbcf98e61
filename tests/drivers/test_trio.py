"""
The trio driver passes the contract suite, and `TimerWheel.anyio()` works with asyncio and with trio.
"""

from __future__ import annotations

import contextvars
import gc
import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
import trio.testing

from tickwheel import ClosedError, TimerWheel
from tickwheel.testing.driver_suite import PATIENCE_S, DriverSuite
from tickwheel.wheels.heap import HeapWheel

BACKENDS = ["asyncio", "trio"]


class TestTrio(DriverSuite):
    pytestmark = pytest.mark.realtime

    runs_here = True

    async def clean_up(self) -> None:
        with trio.CancelScope(shield=True):
            for _ in range(10):
                await trio.lowlevel.checkpoint()

    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel.trio(**options)

    def play(self, scenario: Any) -> None:
        async def main() -> None:
            await scenario

        trio.run(main)

    async def until(self, signal: threading.Event) -> None:
        assert await trio.to_thread.run_sync(signal.wait, PATIENCE_S)


class TestTrioOverHeap(TestTrio):
    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel.trio(wheel=HeapWheel(), **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_anyio(backend):
    """
    With asyncio and with trio, callbacks and coroutines run in the context in which they were set.
    """
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

    async def main() -> None:
        seen: list[object] = []
        done = anyio.Event()

        async def work(word: str) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append((word, name.get()))
            done.set()

        async with TimerWheel.anyio() as wheel:
            name.set("ada")
            wheel.call_later(0, seen.append, "plain")
            wheel.call_later(0.001, work, "awaited")
            name.set("bob")
            with anyio.fail_after(PATIENCE_S):
                await done.wait()
                assert seen == ["plain", ("awaited", "ada")]
                done = anyio.Event()
                await anyio.to_thread.run_sync(wheel.call_later, 0.001, done.set)
                await done.wait()
                done = anyio.Event()
                wheel.call_every(0.001, work, "again", times=2)
                while len(seen) < 4:  # noqa: ASYNC110 - of either back end
                    await anyio.sleep(0.001)

    anyio.run(main, backend=backend)


def test_neither_is_running():
    for make in (TimerWheel.trio, TimerWheel.anyio):
        with pytest.raises(RuntimeError):
            make()


def test_errors_and_the_end():
    """
    An error in a coroutine goes to `on_error`, and closing the wheel cancels running coroutines.
    """
    errors: list[type] = []
    ended: list[str] = []
    kept: list[TimerWheel] = []

    async def fail() -> None:
        raise LookupError

    async def main() -> None:
        begun = trio.Event()

        async def wait() -> None:
            begun.set()
            try:
                await trio.sleep_forever()
            finally:
                ended.append("cancelled")

        wheel = TimerWheel.trio(on_error=lambda error, _: errors.append(type(error)))
        wheel.call_later(0, fail)
        wheel.call_later(0.001, wait)
        await begun.wait()
        assert wheel.stats()["tasks"] == 1
        wheel.close()
        await trio.testing.wait_all_tasks_blocked()
        assert wheel.stats()["tasks"] == 0
        kept.append(TimerWheel.trio())

    trio.run(main)
    assert (errors, ended) == ([LookupError], ["cancelled"])
    with pytest.raises(ClosedError, match="event loop"):
        kept[0].call_later(1, print)


def test_an_unreferenced_wheel():
    """
    An unreferenced wheel warns and fires its timers, and then its task ends.
    """

    async def main() -> None:
        fired = trio.Event()
        held = [TimerWheel.trio()]
        held[0].call_later(0.001, fired.set)
        held[0].call_every(3600, print)
        with pytest.warns(ResourceWarning, match="unclosed"):
            held.clear()
        with trio.fail_after(PATIENCE_S):
            await fired.wait()
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()

    trio.run(main)
