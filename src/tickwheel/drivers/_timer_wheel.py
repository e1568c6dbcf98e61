from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from tickwheel import _core
from tickwheel.clock import Clock, seconds, to_timeout
from tickwheel.drivers._keyed_verbs import HOT_KEYED_VERBS, KeyedVerbs
from tickwheel.drivers._manual import ManualDriver
from tickwheel.drivers._thread import ThreadDriver
from tickwheel.drivers._verbs import HOT_VERBS, TimerVerbs
from tickwheel.drivers.contract import Driver, is_stepped
from tickwheel.drivers.executors import Executor
from tickwheel.drivers.fork import call_after_fork
from tickwheel.timers.contract import Engine
from tickwheel.timers.engine import WheelEngine
from tickwheel.timers.keyed import Keyed
from tickwheel.timers.log import log_error
from tickwheel.timers.periodic import Periodic
from tickwheel.timers.proxy import listed
from tickwheel.typing import ErrorHandler, K, KeyT, NonCopyable, Pending, Seconds, V, ValueT
from tickwheel.wheels.contract import Wheel, checked_count, checked_limit

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["TimerWheel", "hand_out"]
_engines: Final[weakref.WeakValueDictionary[int, WheelEngine]] = weakref.WeakValueDictionary()
"""The engines of wheels written in Python, by the id of the wheel. An engine holds its wheel, so no id is reused."""


class TimerWheel(TimerVerbs, KeyedVerbs[K, V], NonCopyable):
    """
    Timers: any number of them, from any thread, never early.

        wheel = TimerWheel()
        timer = wheel.call_later(2.5, print, "tea is ready")
        timer.restart(3.5)
        timer.cancel()

    By default, a daemon thread fires the timers. The thread starts with the first timer, and sleeps between deadlines.
    `TimerWheel.asyncio()` fires on an event loop. With a `ManualClock`, timers fire in the call that moves the clock.

    Callbacks may call any method of the wheel and its timers, and may raise. They run one after the other, in the order
    of their deadlines; callbacks with equal deadlines run in the order in which they were set. If a wheel is no longer
    referenced, a ResourceWarning reports it. The wheel then cancels series without an end, fires the other pending
    timers, and ends. Timers on a manual clock stay pending.

    Args:
        wheel: An empty wheel of any design that no other TimerWheel uses; None for the native one.
        clock: Source of time. None: the event loop's clock if the loop has its own, otherwise the system's monotonic
            clock, which stops during suspend. `BootClock` also counts the time of a suspend.
        driver: The driver, which waits and fires; None for a thread, or for the manual driver with a manual clock.
        on_expire: Called with key and value when a keyed timer expires; needed for `set`.
        on_error: Receives every `Exception` that a callback raises, and the timer. With None, errors go to the
            logger `tickwheel`, or, on an event loop, to the loop's exception handler.
        max_pending: Maximum number of pending timers; None for no limit. A series that cannot set its next firing ends,
            and `on_error` receives a TooManyTimersError.
        executor: Runs the callbacks; None for the driver's thread. The wheel does not own the executor, so `close`
            leaves it open. A callback that the executor has accepted runs even if its timer is then cancelled, or the
            wheel is drained or closed.
    """

    def __init__(
        self,
        *,
        wheel: Wheel | None = None,
        clock: Clock | None = None,
        driver: Driver | None = None,
        on_expire: Callable[[K, V], object] | None = None,
        on_error: ErrorHandler | None = None,
        max_pending: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        for name, part, verb in (
            ("wheel", wheel, "insert"),
            ("clock", clock, "monotonic_ns"),
            ("driver", driver, "start"),
            ("executor", executor, "serve"),
            ("on_error", on_error, "__call__"),
        ):
            if part is not None and (isinstance(part, type) or not hasattr(part, verb)):
                message = f"{name} is {part!r}: pass an object with {verb}(), or None"
                raise TypeError(message)
        if driver is None:
            driver = ManualDriver() if is_stepped(clock) else ThreadDriver()
        if clock is None:
            clock = getattr(driver, "clock", None)  # the driver of a loop has the loop's clock
        self._engine = engine = _new_engine(wheel, clock, max_pending)
        self._driver = driver
        engine.on_error = log_error
        driver.start(engine)
        self._on_error = on_error
        if on_error is not None:
            engine.on_error = _held_weakly(on_error)
        self._endless: weakref.WeakSet[Periodic] = weakref.WeakSet()
        self._by_wall: weakref.WeakSet[Periodic] = weakref.WeakSet()
        self._executor = executor
        if executor is not None:
            executor.serve(engine)
        try:
            self._keyed = Keyed(engine, on_expire)
        except TypeError:
            driver.stop()
            raise
        call_after_fork(self._keyed)
        self._take_over(HOT_VERBS, TimerVerbs, engine)
        self._take_over(HOT_KEYED_VERBS, KeyedVerbs, self._keyed)

    def _take_over(self, verbs: tuple[str, ...], base: type, owner: object) -> None:
        for verb in verbs:
            if getattr(type(self), verb) is getattr(base, verb):  # no subclass overrides it
                self.__dict__[verb] = getattr(owner, verb)

    @classmethod
    def asyncio(
        cls,
        *,
        loop: AbstractEventLoop | None = None,
        wheel: Wheel | None = None,
        clock: Clock | None = None,
        on_expire: Callable[[KeyT, ValueT], object] | None = None,
        on_error: ErrorHandler | None = None,
        max_pending: int | None = None,
        executor: Executor | None = None,
    ) -> TimerWheel[KeyT, ValueT]:
        """
        Return a wheel that fires on an event loop.

        *loop* is the event loop; None for the running one. The other arguments are those of the class, except that
        *clock* is by default the loop's.

        Raises:
            RuntimeError: If no loop is given and none is running.
        """
        from tickwheel.drivers._asyncio import AsyncioDriver  # noqa: PLC0415 - asyncio is imported where it is used

        return cast("type[TimerWheel[KeyT, ValueT]]", cls)(
            driver=AsyncioDriver(loop),
            wheel=wheel,
            clock=clock,
            on_expire=on_expire,
            on_error=on_error,
            max_pending=max_pending,
            executor=executor,
        )

    @classmethod
    def trio(
        cls,
        *,
        wheel: Wheel | None = None,
        clock: Clock | None = None,
        on_expire: Callable[[KeyT, ValueT], object] | None = None,
        on_error: ErrorHandler | None = None,
        max_pending: int | None = None,
        executor: Executor | None = None,
    ) -> TimerWheel[KeyT, ValueT]:
        """
        Return a wheel that fires in the current trio run. The arguments are those of `asyncio`, without *loop*.

        Raises:
            RuntimeError: Outside of a trio run.
        """
        from tickwheel.drivers._trio import TrioDriver  # noqa: PLC0415 - few programs use trio

        return cast("type[TimerWheel[KeyT, ValueT]]", cls)(
            driver=TrioDriver(),
            wheel=wheel,
            clock=clock,
            on_expire=on_expire,
            on_error=on_error,
            max_pending=max_pending,
            executor=executor,
        )

    @classmethod
    def anyio(
        cls,
        *,
        wheel: Wheel | None = None,
        clock: Clock | None = None,
        on_expire: Callable[[KeyT, ValueT], object] | None = None,
        on_error: ErrorHandler | None = None,
        max_pending: int | None = None,
        executor: Executor | None = None,
    ) -> TimerWheel[KeyT, ValueT]:
        """
        Return a wheel for the running back end of anyio: `trio()` in a task of trio, `asyncio()` in a task of asyncio.

        The arguments are those of `trio`.

        Raises:
            RuntimeError: If neither trio nor an asyncio loop is running.
        """
        from tickwheel.drivers._trio import is_in_trio  # noqa: PLC0415 - few programs use trio

        make = cls.trio if is_in_trio() else cls.asyncio
        return make(
            wheel=wheel,
            clock=clock,
            on_expire=on_expire,
            on_error=on_error,
            max_pending=max_pending,
            executor=executor,
        )

    def __del__(self) -> None:
        if not hasattr(self, "_keyed"):  # otherwise `__init__` has failed
            return
        is_unclosed = len(self._engine) > 0 and self._driver.fires_itself and not is_stepped(self.clock)
        message = f"unclosed {self!r}: close it, or hold it for as long as its timers are to fire"
        if is_unclosed:
            for series in self._endless:
                series.cancel()
        self._driver.abandon()
        if is_unclosed:
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self.closed() else f"{len(self)} pending"
        return f"<{type(self).__name__} {state}>"

    @property
    def clock(self) -> Clock:
        """
        Return the wheel's source of time.
        """
        return self._engine.clock

    @property
    def awaits_coroutines(self) -> bool:
        """
        Return True if a callback may be a coroutine function, because an event loop awaits its result.
        """
        return self._engine.on_coroutine is not None

    def __len__(self) -> int:
        return len(self._engine)

    def __bool__(self) -> bool:
        return True

    def pending(self, limit: int | None = 100) -> list[Pending]:
        """
        Return at most *limit* pending timers (None: all), sorted by deadline. The call costs O(n), whatever *limit* is.

        An item has a callback with its arguments and the timer's handle, or, for a keyed timer, key and value.
        """
        # The timer of a wall-clock series is due when the series next reads that clock, often long before the series
        # fires. So for each such series, one timer may precede the timers that `listed` returns.
        count = checked_limit(limit)
        if count is not None:
            count += len(self._by_wall)
        return listed(self._engine.pending(count))[:limit]

    def next_expiration(self) -> float | None:
        """
        Return the next time at which a timer is due, in seconds of `time()`, or None.

        A series that follows the wall clock counts as due whenever it must read that clock, at least once a minute.
        """
        deadline = self._engine.arm()
        return None if deadline is None else seconds(deadline)

    def fire_due(self, limit: int | None = None) -> int:
        """
        Fire at most *limit* due timers, and return their number. Only for the manual driver.

        Timers that a callback sets are not fired by this call.

        Raises:
            RuntimeError: If the wheel's driver fires automatically.
            ReentrantError: From inside a callback.
        """
        if self._driver.fires_itself:
            message = f"{self!r} fires automatically: pass driver=ManualDriver() to do it yourself"
            raise RuntimeError(message)
        return self._engine.fire_due(limit)

    def drain(self, fn: Callable[[K, V], object] | None = None) -> list[Pending]:
        """
        Cancel all pending timers, and return them, sorted by deadline.

        Then *fn*, which may set timers, is called with key and value of each keyed timer, in order. A series that is
        firing has no pending timer, so it is not returned, and continues. `close` ends such a series, too.

        Raises:
            ExceptionGroup: The errors of *fn*, after it was called with each key.
        """
        drained = self._keyed.end(self._engine.drain)
        if fn is not None:
            hand_out(drained, fn)
        return drained

    def close(self) -> list[Pending]:
        """
        Cancel all pending timers, return them, and refuse further timers.

        A running callback completes, and `join()` waits for it. A series that is firing ends with that firing, and is
        not returned. A second call returns [].
        """
        try:
            return self._keyed.end(self._engine.close)
        finally:
            self._engine.close()  # repeated, in case a signal handler has interrupted it
            self._driver.stop()

    def closed(self) -> bool:
        """
        Return True if the wheel was closed.
        """
        return self._engine.closed()

    def join(self, timeout: Seconds | None = None) -> bool:
        """
        Wait until no callback of the closed wheel runs, at most *timeout* seconds. Return True if none is running then.

        The result is also False while a coroutine of the wheel is running; callbacks in an executor do not count. On an
        event loop, and inside a callback in the driver's thread, `join` returns immediately. A callback that runs in a
        pool should pass a *timeout*: `join` waits for the driver, and the driver may be waiting for room in that pool.
        In a coroutine, use `await aclose()`.
        """
        return self._driver.join(to_timeout(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self.join()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        await self._wait_closed(None, is_shielded=True)

    async def aclose(self, timeout: Seconds | None = None) -> list[Pending]:  # noqa: ASYNC109 - its end cancels nothing
        """
        Cancel timers and coroutines, wait until the coroutines have ended, and return the timers that were pending.

        The wait lasts at most *timeout* seconds (None: no limit). Afterwards the wheel refuses timers. If a coroutine
        of the wheel calls `aclose`, that coroutine is neither cancelled nor waited for. A cancellation of the caller
        takes effect at once. A second call is allowed. On a wheel with a thread, `aclose` waits for the running
        callback.

        The end of an `async with` block acts like `aclose()` without a timeout. There, a cancellation takes effect
        after the coroutines have ended, as in a TaskGroup.

        Raises:
            TimeoutError: If a callback or a coroutine still runs after *timeout*. The wheel is closed nevertheless.
        """
        wait_s = to_timeout(timeout)
        pending = self.close()
        if not await self._wait_closed(wait_s, is_shielded=False):
            message = f"{self!r} is closed, and something of it still runs after {wait_s:g} s"
            raise TimeoutError(message)
        return pending

    async def _wait_closed(self, timeout: float | None, *, is_shielded: bool) -> bool:  # noqa: ASYNC109 - its end cancels nothing
        wait_closed = getattr(self._driver, "wait_closed", None)
        if wait_closed is not None:
            return bool(await wait_closed(timeout, is_shielded=is_shielded))
        if self._driver.join(0):
            return True
        from tickwheel.drivers._tasks import result_in_thread  # noqa: PLC0415 - asyncio is imported where it is used

        return await result_in_thread(lambda: self._driver.join(timeout))

    def stats(self) -> dict[str, Any]:
        """
        Return the counters of engine, wheel and driver, without stopping any of them.
        """
        executor = {} if self._executor is None else self._executor.stats()
        return {**self._engine.stats(), **self._driver.stats(), **executor}

    def check(self) -> None:
        """
        Verify every invariant, in O(n), and raise AssertionError if an invariant is broken.
        """
        self._engine.check()


def _new_engine(wheel: Wheel | None, clock: Clock | None, max_pending: int | None) -> Engine:
    if max_pending is not None:
        checked_count(max_pending, "max_pending", 0, ", or None for any number")
    if wheel is None:
        return _core.Engine(clock, max_pending=max_pending)
    if id(wheel) in _engines:
        message = f"wheel is {wheel!r}, which another TimerWheel has already: make a new one for each"
        raise RuntimeError(message)
    if len(wheel):
        message = f"wheel is {wheel!r}: pass an empty one, as nobody would call its entries"
        raise ValueError(message)
    engine = _engines[id(wheel)] = WheelEngine(wheel, clock, max_pending=max_pending)
    return engine


def _held_weakly(on_error: ErrorHandler) -> ErrorHandler:
    # hold the object of *on_error* weakly: it may hold the wheel, which the driver's thread would then keep alive
    if not isinstance(on_error, MethodType):
        return on_error
    method = weakref.WeakMethod(on_error)

    def report(error: BaseException, source: Any) -> None:
        (method() or log_error)(error, source)

    return report


def hand_out(drained: list[Pending], fn: Callable[[Any, Any], object]) -> None:
    """
    Call *fn* with key and value of each drained keyed timer. Raise the errors of *fn* as a group at the end.
    """
    failures = []
    for pending in drained:
        if pending.callback is None:
            try:
                fn(*pending.args)
            except Exception as failure:  # noqa: BLE001  the other keys get their calls
                failures.append(failure)
    if failures:
        message = "a function that was given what a wheel drained"
        raise ExceptionGroup(message, failures)
