from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from math import inf
from typing import Any, TypeVar

from tickwheel.drivers._in_loop import DELAY_MAX_S, DriverInLoop
from tickwheel.drivers._loop_clock import LoopClock
from tickwheel.drivers.contract import is_stepped
from tickwheel.errors import ClosedError, MissingExtraError
from tickwheel.timers.contexts import Context
from tickwheel.timers.contract import Engine

__all__ = ["TrioDriver", "ended", "is_in_trio", "within"]

T = TypeVar("T")


class TrioDriver(DriverInLoop):
    """
    Fires in a system task of the running trio. The task ends with the main task.

    Timers may be set from any thread. Callbacks run in trio's thread, in a copy of the context in which they were set;
    callbacks of `call_later_many` run in the context in which the wheel was made. If a callback returns a coroutine,
    the coroutine runs in its own system task. Closing the wheel cancels that task. The end of an `async with` block,
    and `aclose`, also wait until the task has ended. The clock is the clock of the trio run, such as a `MockClock`. If
    a callback raises an `Exception`, the wheel's `on_error` receives it (by default, the logger `tickwheel`); any other
    exception ends the trio run.

    Raises:
        RuntimeError: Outside of a trio run.
    """

    def __init__(self) -> None:
        try:
            trio = self._trio = import_module("trio")
        except ImportError:
            raise MissingExtraError("trio", "trio") from None
        if not trio.lowlevel.in_trio_run():
            raise RuntimeError("no trio is running: make the wheel inside of what trio.run() runs")
        self._token = trio.lowlevel.current_trio_token()
        clock = trio.lowlevel.current_clock()
        is_system = type(clock).__module__.startswith("trio.") and type(clock).__name__ == "SystemClock"
        super().__init__(None if is_system else LoopClock(clock.current_time))
        self._signal = trio.Event()
        self._has_ended = trio.Event()
        self._scopes: dict[Any, Any] = {}
        self._waiting: set[Any] = set()
        self._is_running = False

    def __repr__(self) -> str:
        return f"<TrioDriver {'stopped' if self._is_stopped else 'idle' if self._engine is None else 'started'}>"

    def start(self, engine: Engine) -> None:
        super().start(engine)
        if not is_stepped(engine.clock):
            self._spawn()

    def stop(self) -> None:
        self._is_stopped = True
        if self._engine is not None and is_stepped(self._engine.clock):
            self._engine.clock.detach(self._engine)
        self._soon(self._end, self._task())

    def abandon(self) -> None:
        self._is_abandoned = True
        if self._is_running:
            self._soon(self._look)

    def stats(self) -> dict[str, Any]:
        return {"wakeups": self._wakeups, "tasks": len(self._scopes)}

    async def _run(self, engine: Engine) -> None:
        try:
            await self._fire_all(engine)
        except BaseException:  # trio's run is over
            engine.disarm()
            raise

    async def _fire_all(self, engine: Engine) -> None:
        while not self._is_stopped:
            self._signal = self._trio.Event()
            deadline = engine.arm()
            if deadline is None and self._is_abandoned:
                self._is_running = False
                engine.drain()
                return
            delay_ns = None if deadline is None else deadline - engine.clock.monotonic_ns()
            if delay_ns is None:
                await self._signal.wait()
            elif delay_ns > 0:
                with self._trio.move_on_after(min(delay_ns / 1e9, DELAY_MAX_S)):
                    await self._signal.wait()
            else:
                self._fire(engine)
                await self._trio.lowlevel.checkpoint()
                continue
            self._wakeups += 1

    def _soon(self, step: Callable[..., object], *args: Any) -> bool:
        try:
            self._token.run_sync_soon(step, *args, idempotent=not args)
        except self._trio.RunFinishedError:
            return False
        return True

    def _spawn(self) -> None:
        self._is_running = True
        self._trio.lowlevel.spawn_system_task(self._run, self._engine, name="tickwheel", context=self._context)

    def _look(self) -> None:
        if self._is_running:
            self._signal.set()
        elif not self._is_stopped:  # a bound method that outlived the wheel has set a timer
            self._spawn()

    def _end(self, caller: object) -> None:
        self._signal.set()
        for scope, task in list(self._scopes.items()):
            if task is None or task is not caller:
                scope.cancel()

    async def wait_closed(self, timeout: float | None, *, is_shielded: bool) -> bool:  # noqa: ASYNC109 - its end cancels nothing
        trio = self._trio
        if self._task() is None:
            raise RuntimeError("the wheel belongs to another run of trio: close it there")
        with trio.CancelScope(shield=is_shielded, deadline=trio.current_time() + (inf if timeout is None else timeout)):
            me = self._task()
            self._waiting.add(me)
            try:
                while any(task is None or task not in self._waiting for task in self._scopes.values()):
                    self._has_ended = trio.Event()
                    await self._has_ended.wait()
            finally:
                self._waiting.discard(me)
        await trio.lowlevel.checkpoint_if_cancelled()
        return not self._has_tasks()

    def _has_tasks(self) -> bool:
        me = self._task()
        return any(task is None or (task is not me and task not in self._waiting) for task in self._scopes.values())

    def _task(self) -> Any:
        low = self._trio.lowlevel
        return low.current_task() if low.in_trio_task() and low.current_trio_token() is self._token else None

    def _await(self, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        if not self._soon(self._start_task, coroutine, timer, copy_context()):
            coroutine.close()
            raise ClosedError("event loop")

    def _start_task(self, coroutine: Coroutine[Any, Any, Any], timer: object, context: Any) -> None:
        if self._is_stopped:
            coroutine.close()
        else:
            scope = self._trio.CancelScope()
            self._scopes[scope] = None
            self._trio.lowlevel.spawn_system_task(self._run_one, coroutine, timer, scope, context=context)

    async def _run_one(self, coroutine: Coroutine[Any, Any, Any], timer: object, scope: Any) -> None:
        assert self._engine is not None
        try:
            if scope.cancel_called:  # cancelled before it began
                coroutine.close()
                return
            self._scopes[scope] = self._trio.lowlevel.current_task()
            with scope:
                try:
                    await coroutine
                except Exception as error:  # noqa: BLE001  reported like errors of callbacks
                    if self._engine.on_error is not None:
                        self._engine.on_error(error, timer)
        finally:
            self._scopes.pop(scope, None)
            self._has_ended.set()


def is_in_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


async def ended(context: Context) -> None:
    trio = import_module("trio")
    signal = trio.Event()
    forget = context.on_end(_in_this_run(trio, signal.set))
    try:
        await signal.wait()
    finally:
        forget()


async def within(context: Context, awaitable: Awaitable[T]) -> T:
    trio = import_module("trio")
    with trio.CancelScope() as scope:
        forget = context.on_end(_in_this_run(trio, scope.cancel))
        try:
            return await awaitable
        finally:
            forget()
    context.raise_if_ended()
    raise AssertionError("only the end of the context cancels its scope")


def signal() -> tuple[Callable[[], object], Callable[[], Any]]:
    trio = import_module("trio")
    event = trio.Event()
    return _in_this_run(trio, event.set), event.wait


def _in_this_run(trio: Any, call: Callable[[], object]) -> Callable[[], None]:
    """
    Return a function that schedules *call* from any thread during this run of trio, and later does nothing.
    """
    token = trio.lowlevel.current_trio_token()

    def notify() -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(call)

    return notify
