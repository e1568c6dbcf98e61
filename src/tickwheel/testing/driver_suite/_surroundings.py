"""
The caller's environment: thread, clock, context, errors, and the end of an `async with` block.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from tickwheel.drivers import TimerWheel
from tickwheel.testing.driver_suite._base import DriverTests
from tickwheel.threads import get_ident

__all__ = ["SurroundingsTests"]

_name: ContextVar[str] = ContextVar("name", default="none")


class _NotedError(Exception):
    pass


def _fail(*_: object) -> None:
    raise _NotedError


def _named(name: str) -> Context:
    context = copy_context()
    context.run(_name.set, name)
    return context


class SurroundingsTests(DriverTests):
    def test_thread(self) -> None:
        async def scenario() -> None:
            here, threads = get_ident(), set()
            wheel = self.make_wheel(on_expire=lambda *_: threads.add(get_ident()))
            wheel.call_later(0, lambda: threads.add(get_ident()))
            wheel.set("key", 1, 0)
            wheel.call_later_many([0.0, 0.0], lambda _: threads.add(get_ident()))
            wheel.call_every(1e-6, lambda: threads.add(get_ident()), times=2)
            await self.settle(wheel)
            await self.settle(wheel)
            assert len(threads) == 1
            assert self.runs_here is None or (threads == {here}) is self.runs_here
            wheel.close()

        self.play(scenario())

    def test_clock(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            readings: list[tuple[float | None, float, float | None]] = []

            def read() -> None:
                readings.append((self.now(), wheel.time(), self.now()))

            read()
            wheel.call_later(0.001, read)
            await self.settle(wheel)
            wheel.call_later(0.002, read)
            signal = threading.Event()
            wheel.call_later(0.003, signal.set)
            await self.until(signal)
            other = threading.Thread(target=read)
            other.start()
            other.join()
            assert len(readings) == 4
            for before, now, after in readings:
                assert before is None or after is None or before - 1e-6 <= now <= after + 1e-6
            wheel.close()

        self.play(scenario())

    def test_context(self) -> None:
        async def scenario() -> None:
            seen: list[tuple[str, str]] = []

            def see(verb: str, *_: object) -> None:
                seen.append((verb, _name.get()))

            wheel = self.make_wheel(on_expire=see)
            wheel.call_later(0, see, "call_later", context=_named("call_later"))
            wheel.call_at(0, see, "call_at", context=_named("call_at"))
            wheel.call_at_wall(0, see, "call_at_wall", context=_named("call_at_wall"))
            series = wheel.call_every(1e-3, see, "call_every", first=0, times=2, context=_named("call_every"))
            wheel.set("set", 1, 3_600)
            wheel.set("set", 1, 0, context=_named("set"))
            wheel.set("moved", 1, 3_600, context=_named("moved"))
            assert wheel.move("moved", 0)
            signal = threading.Event()
            wheel.call_later(0.002, signal.set)
            await self.until(signal)
            await self.settle(wheel)
            paused = wheel.call_every(1e-3, see, "paused", times=1, context=_named("paused"))
            assert paused.pause()
            assert paused.resume()
            signal = threading.Event()
            wheel.call_later(0.003, signal.set)
            await self.until(signal)
            await self.settle(wheel)
            assert series.fired == 2
            assert all(verb == name for verb, name in seen), seen
            assert len(seen) == 8
            wheel.close()

        self.play(scenario())

    def test_a_context_is_of_one_set(self) -> None:
        async def scenario() -> None:
            seen: dict[str, str] = {}
            wheel = self.make_wheel(on_expire=lambda key, _: seen.update({key: _name.get()}))
            for key, contexts in (("none", [_named("a"), None]), ("b", [None, _named("a"), _named("b")])):
                for context in contexts:
                    wheel.set(key, 1, 3_600, context=context)
                assert wheel.get(key) == 1
                assert wheel.move(key, 0)
            await self.settle(wheel)
            await self.settle(wheel)
            assert seen == {"none": "none", "b": "b"}
            wheel.check()
            wheel.close()

        self.play(scenario())

    def test_an_error_is_let_go(self) -> None:
        """
        After a callback's error has been reported, nothing refers to the error.
        """

        async def scenario() -> None:
            reported: list[tuple[str, weakref.ref[BaseException]]] = []

            def report(error: BaseException, _: object) -> None:
                trace = error.__traceback__
                while trace is not None and trace.tb_next is not None:
                    trace = trace.tb_next
                reported.append(("" if trace is None else trace.tb_frame.f_code.co_name, weakref.ref(error)))

            wheel = self.make_wheel(on_error=report, on_expire=_fail)
            wheel.call_later(0, _fail)
            wheel.set("key", 1, 0)
            wheel.call_every(1e-6, _fail, times=2)
            signal = threading.Event()
            wheel.call_later(0.002, signal.set)
            await self.until(signal)
            await self.settle(wheel)
            gc.collect()
            assert [name for name, _ in reported] == ["_fail"] * 4
            assert all(error() is None for _, error in reported)
            wheel.close()

        self.play(scenario())

    def test_the_end_of_a_block(self) -> None:
        """
        At the end of an `async with` block, the wheel's coroutines have ended and its timers are cancelled.
        """

        async def scenario() -> None:
            for is_block in (True, False):
                log: list[str] = []
                wheel = self.make_wheel()
                far = wheel.call_later(3_600, print)
                if wheel.awaits_coroutines:
                    has_begun = threading.Event()
                    wheel.call_later(0, self._work(log, has_begun))
                    await self.until(has_begun)
                if is_block:
                    is_through = False
                    try:
                        async with wheel:
                            _fail()
                    except _NotedError:
                        is_through = True
                    assert is_through
                else:
                    assert [each.callback for each in await wheel.aclose()] == [print]
                    assert await wheel.aclose(1) == []
                assert log == (["begins", "has cleaned up"] if wheel.awaits_coroutines else [])
                assert far.cancelled()
                assert wheel.closed()
                assert wheel.join(1)

        self.play(scenario())

    def test_closed_by_its_own_coroutine(self) -> None:
        async def scenario() -> None:
            wheel = self.make_wheel()
            if not wheel.awaits_coroutines:
                await wheel.aclose()
                return
            log: list[str] = []
            signal, has_begun = threading.Event(), threading.Event()
            wheel.call_later(0, self._work(log, has_begun))
            await self.until(has_begun)

            async def close() -> None:
                await wheel.aclose()
                log.append("closed")
                signal.set()

            wheel.call_later(0, close)
            await self.until(signal)
            assert log == ["begins", "has cleaned up", "closed"]
            await wheel.aclose()
            assert wheel.join(1)

        self.play(scenario())

    def _work(self, log: list[str], has_begun: threading.Event) -> Callable[[], Any]:
        async def work() -> None:
            other: TimerWheel = self.make_wheel()
            try:
                log.append("begins")
                has_begun.set()
                await other.sleep(3_600)
            finally:
                other.close()
                await self.clean_up()
                log.append("has cleaned up")

        return work
