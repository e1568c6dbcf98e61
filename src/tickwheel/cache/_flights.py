from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from tickwheel.cache._flight import OPEN, FailedLoadError, Failure, Flight, Load, Ticket, held
from tickwheel.cache._loaded import Loaded
from tickwheel.drivers.fork import call_after_fork
from tickwheel.errors import LoadTimeoutError, ReentrantError, ValueTooLargeError
from tickwheel.timers.locks import OUTER, new_lock

__all__ = ["Flights", "Loading", "LoadsAll"]

_LOOK_AGAIN_S: Final = 1.0
"""Interval in seconds at which a thread, or a task of another loop, checks that the load still runs."""

LoadsAll: TypeAlias = Callable[[list[Any]], Any]
"""Receives keys, and returns a mapping of the keys that it has found, or an awaitable of such a mapping."""


_SWEEP_FROM: Final = 64
"""Minimum number of loads at which interrupted loads are searched for and removed."""


class Loading(Protocol):
    def _find_loaded(self, key: Any) -> tuple[Any] | None:
        """
        Return `(value,)` if the key has a value, or None if not. The call does not count as a miss.
        """

    def _begin_load(self, key: Any, /) -> Ticket: ...
    def _end_loads(self, tickets: list[Ticket], /) -> None: ...
    def _is_overtaken(self, ticket: Ticket, /) -> bool: ...
    def _keep_loaded(self, ticket: Ticket, key: Any, value: Any, ttl: Any = None, /) -> bool: ...


class Flights:
    """
    The running loads of one cache, at most one for each key.

    The cache is an argument of each call, because a stored reference would make a reference cycle.
    """

    def __init__(self, timeout_s: float | None = None) -> None:
        self.tally: Counter[str] = Counter()
        self.lock = new_lock(OUTER)
        self.timeout_s = timeout_s
        self._loads: dict[Hashable, Load] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._orphans: list[Ticket] = []
        self._sweep_at = _SWEEP_FROM
        call_after_fork(self)

    def after_fork(self) -> None:
        here = threading.get_ident()
        flights = {key: load.flight for key, load in self._loads.items()}
        lost = {key: flight for key, flight in flights.items() if flight.thread != here or flight.loop is not None}
        for key in lost:
            del self._loads[key]
        for flight in set(lost.values()):
            self._orphans += flight.tickets

    def count(self, name: str, number: int = 1) -> None:
        held(self.lock, self._count, name, number)

    def _count(self, name: str, number: int) -> None:
        self.tally[name] += number

    def take(self, cache: Loading, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Return the values of *keys*, loaded in this thread or by other callers. Failures are raised as FailedLoadError.
        """
        todo: list[Any] = list(keys)
        values: dict[Any, Any] = {}
        while todo:
            flight = Flight(timeout_s=self.timeout_s)
            theirs = held(flight.gate, self._load_here, cache, flight, todo, values, load_all)
            todo = self._wait(theirs, values)
        return values

    def _load_here(
        self, cache: Loading, flight: Flight, keys: list[Any], values: dict[Any, Any], load_all: LoadsAll
    ) -> dict[Any, Load]:
        theirs: dict[Any, Load] = {}
        try:
            try:
                held(self.lock, self._board, cache, flight, keys, values, theirs)
                if flight.loads:
                    values.update(self.run(cache, flight, load_all))
            finally:
                self.end(cache, flight)
        finally:
            self.end(cache, flight)
        return theirs

    def _wait(self, theirs: dict[Any, Load], values: dict[Any, Any]) -> list[Any]:
        todo: list[Any] = []
        if not theirs:
            return todo
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # looked up here, because gevent may replace the class
        load: Load | None = None
        try:
            self._join(theirs, bell, partial(bell.put, None))
            for load in theirs.values():
                _see_out(load.flight, bell)
            for key, load in theirs.items():
                outcome = _opened(load, None)
                if outcome is None:
                    todo.append(key)
                else:
                    values[key] = outcome[0]
        finally:
            self._leave(theirs, bell)
            theirs.clear()
            del load
        return todo

    async def take_async(self, cache: Loading, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Like `take`, but await `load_all` in a separate task. The task is cancelled only if no waiter is left.
        """
        todo: list[Any] = list(keys)
        values: dict[Any, Any] = {}
        while todo:
            flight = Flight(asyncio.get_running_loop(), timeout_s=self.timeout_s)
            ours, theirs = held(flight.gate, self._launch, cache, flight, todo, values, load_all)
            todo = await self._wait_async(ours, theirs, values)
        return values

    def _launch(
        self, cache: Loading, flight: Flight, keys: list[Any], values: dict[Any, Any], load_all: LoadsAll
    ) -> tuple[dict[Any, Load], dict[Any, Load]]:
        theirs: dict[Any, Load] = {}
        try:
            held(self.lock, self._board, cache, flight, keys, values, theirs)
            ours = dict(flight.loads)
            if ours:
                self.start(cache, flight, load_all)
        except BaseException:
            self.give_up(cache, flight)
            raise
        return ours, theirs

    async def _wait_async(self, ours: dict[Any, Load], theirs: dict[Any, Load], values: dict[Any, Any]) -> list[Any]:
        todo: list[Any] = []
        loads = {**ours, **theirs}
        if not loads:
            return todo
        loop, bell = asyncio.get_running_loop(), asyncio.Event()
        load: Load | None = None
        try:
            self._join(loads, bell, partial(_ring, loop, bell))
            for load in loads.values():
                await _see_out_async(load.flight, loop, bell)
            for key, load in loads.items():
                outcome = _opened(load, loop)
                if outcome is not None:
                    values[key] = outcome[0]
                elif key in theirs:
                    todo.append(key)
        finally:
            self._leave(loads, bell)
            for known in (ours, theirs, loads):
                known.clear()
            del load
        return todo

    def board(self, cache: Loading, keys: Iterable[Hashable], flight: Flight) -> int:
        """
        Register a background load for each of the *keys* that is not being loaded. Return the number of these loads.

        The caller holds the lock of this object and the gate of *flight*.
        """
        self._tidy(cache)
        mine = [key for key in keys if not self._is_loaded(cache, self._loads.get(key))]
        self._begin(cache, flight, mine)
        return len(mine)

    def _board(
        self, cache: Loading, flight: Flight, keys: list[Any], values: dict[Any, Any], theirs: dict[Any, Load]
    ) -> None:
        self._tidy(cache)
        mine = []
        for key in keys:
            value = cache._find_loaded(key)
            if value is not None:
                values[key] = value[0]
                continue
            load = self._loads.get(key)
            is_loaded = self._is_loaded(cache, load)
            if load is not None and not load.flight.is_over():
                _refuse_a_circle(key, load.flight, flight)
            if load is not None and is_loaded and load.flight.can_be_waited_for(flight.loop):
                theirs[key] = load
            else:
                mine.append(key)
        self._begin(cache, flight, mine)
        if theirs:
            self._count("shared", len(theirs))

    def _is_loaded(self, cache: Loading, load: Load | None) -> bool:
        if load is None or load.flight.is_late():
            return False
        if load.flight.is_over():
            self._strike(cache, load.flight)
            return False
        # If the key is written or removed during a load, callers that come later do not use the result of this load.
        return not cache._is_overtaken(load.ticket)

    def _begin(self, cache: Loading, flight: Flight, keys: list[Any]) -> None:
        flight.tickets.extend(map(cache._begin_load, keys))  # one statement: no exception in between loses a ticket
        for key, ticket in zip(keys, flight.tickets, strict=True):
            flight.loads[key] = self._loads[key] = Load(flight, ticket)

    def _tidy(self, cache: Loading) -> None:
        """
        Remove interrupted loads, if the number of loads has doubled since the last such removal.
        """
        if self._orphans:
            cache._end_loads(self._orphans)
        if len(self._loads) >= self._sweep_at:
            for load in list(self._loads.values()):
                if load.flight.is_over():
                    self._strike(cache, load.flight)
            self._sweep_at = max(2 * len(self._loads), _SWEEP_FROM)

    def run(self, cache: Loading, flight: Flight, load_all: LoadsAll) -> dict[Any, Any]:
        """
        Load in this thread and return the values, or raise FailedLoadError. `end` wakes all waiters.
        """
        outer = sys.exception()
        try:
            return self._keep(cache, flight, load_all(list(flight.loads)))
        except Exception as error:  # noqa: BLE001 - after any other exception, another caller loads
            self._fail(cache, flight, Failure(error, outer, is_given=True))
            raise FailedLoadError(error) from None
        finally:
            del outer

    def start(self, cache: Loading, flight: Flight, load_all: LoadsAll) -> asyncio.Task[Any]:
        running: Coroutine[Any, Any, None] | None = None
        try:
            running = self._run_async(cache, flight, load_all)
            task = asyncio.ensure_future(running)
        except BaseException:  # raised by the task factory, or by an eager first step, which has ended the flight
            if running is not None:
                running.close()
            raise
        flight.task = task
        task.add_done_callback(self._tasks.discard)
        self._tasks.add(task)
        task.add_done_callback(partial(self._land, cache, flight))
        return task

    def _land(self, cache: Loading, flight: Flight, task: asyncio.Task[Any]) -> None:
        if not flight.is_ended and task.cancelled():  # cancelled before its first step
            flight.failure = Failure(asyncio.CancelledError())
        self.end(cache, flight)
        if not task.cancelled():
            task.exception()  # the waiters have the error, so asyncio need not log it

    async def _run_async(self, cache: Loading, flight: Flight, load_all: LoadsAll) -> None:
        flight.task = asyncio.current_task()  # an eager task begins before `start` knows it
        try:
            try:
                self._keep(cache, flight, await _in_time(flight, load_all))
            except Exception as error:  # noqa: BLE001 - every caller that waits raises it
                self._fail(cache, flight, Failure(error))
            except BaseException as error:  # such as a cancellation, by the last waiter or from inside the loader
                flight.failure = Failure(error)
                raise
            finally:
                self.end(cache, flight)
        finally:
            self.end(cache, flight)

    def _fail(self, cache: Loading, flight: Flight, failure: Failure) -> None:
        flight.failure = failure
        if flight.on_failure is not None:
            flight.on_failure(cache, list(flight.loads))
        self.count("failed")

    def _keep(self, cache: Loading, flight: Flight, loaded: Any) -> dict[Any, Any]:
        if not isinstance(loaded, Mapping):
            message = f"the loader returned {loaded!r}: return a mapping of keys to values"
            raise TypeError(message)
        self.count("loaded", len(flight.loads))
        values = {}
        load: Load | None = None
        try:
            for key, load in list(flight.loads.items()):
                if key in loaded:
                    values[key] = self._settle(cache, key, load.ticket, loaded[key])
                    load.outcome = (values[key],)
        finally:
            del load
        return values

    def _settle(self, cache: Loading, key: Any, ticket: Ticket, loaded: Any) -> Any:
        value, ttl = (loaded.value, loaded.ttl) if isinstance(loaded, Loaded) else (loaded, None)
        if isinstance(value, Coroutine):
            value.close()
            message = (
                f"the loader of {key!r} returned {value!r}, which can be awaited only once: "
                "use a coroutine function, and take_async"
            )
            raise TypeError(message)
        try:
            if cache._keep_loaded(ticket, key, value, ttl):
                return value
        except ValueTooLargeError:
            self.count("uncached")
            return value
        self.count("overtaken")
        found = cache._find_loaded(key)
        return value if found is None else found[0]

    def end(self, cache: Loading, flight: Flight) -> None:
        """
        End *flight* and wake its waiters. Callers call this twice, because a signal handler may interrupt one call.
        """
        if not flight.is_ended:
            for load in list(flight.loads.values()):
                if load.outcome is OPEN:
                    load.outcome = flight.failure  # without a failure, None: the waiters load this key
            held(self.lock, self._strike, cache, flight)
            flight.is_ended = True
        flight.wake()
        flight.loads.clear()
        flight.failure = flight.on_failure = None

    def give_up(self, cache: Loading, flight: Flight) -> None:
        if flight.task is not None:
            flight.task.cancel()
        self.end(cache, flight)

    def _strike(self, cache: Loading, flight: Flight) -> None:
        for key, load in list(flight.loads.items()):
            if self._loads.get(key) is load:
                del self._loads[key]
        cache._end_loads(flight.tickets)

    def _join(self, loads: dict[Any, Load], waiter: object, wake: Callable[[], object]) -> None:
        for load in loads.values():
            load.flight.waiters[waiter] = wake

    def _leave(self, loads: dict[Any, Load], waiter: object) -> None:
        for flight in {load.flight for load in loads.values()}:
            flight.leave(waiter)


def _refuse_a_circle(key: Any, theirs: Flight, ours: Flight) -> None:
    is_own_thread = theirs.loop is None and theirs.thread == ours.thread
    is_own_task = theirs.task is not None and theirs.loop is ours.loop and theirs.task is asyncio.current_task()
    if is_own_thread or is_own_task:
        call = f"{'take' if ours.loop is None else 'take_async'}({key!r})"
        raise ReentrantError(call)


async def _in_time(flight: Flight, load_all: LoadsAll) -> Any:
    keys = list(flight.loads)
    if flight.timeout_s is None:
        return await load_all(keys)
    timeout = asyncio.timeout(flight.timeout_s)
    try:
        async with timeout:
            return await load_all(keys)
    except TimeoutError as error:
        if not timeout.expired():  # raised by the loader itself
            raise
        raise LoadTimeoutError(flight.timeout_s) from error


def _pause_s(flight: Flight) -> float:
    if flight.until is None or flight.timeout_s is None:
        return _LOOK_AGAIN_S
    left_s = flight.until - time.monotonic()
    if left_s <= 0:
        raise FailedLoadError(LoadTimeoutError(flight.timeout_s))
    return min(_LOOK_AGAIN_S, left_s)


def _see_out(flight: Flight, bell: queue.SimpleQueue[None]) -> None:
    while not flight.is_over() and flight.can_be_waited_for(None):
        with suppress(queue.Empty):
            bell.get(timeout=_pause_s(flight))


async def _see_out_async(flight: Flight, loop: asyncio.AbstractEventLoop, bell: asyncio.Event) -> None:
    if flight.loop is loop and flight.task is not None:
        if not flight.task.done():
            await asyncio.wait((flight.task,))
        return
    while not flight.is_over() and flight.can_be_waited_for(loop):
        # The end of a thread's load wakes the waiters, so polling is needed only for a time limit or a task.
        pause_s = None if flight.loop is None and flight.until is None else _pause_s(flight)
        bell.clear()
        if not flight.is_over():
            timer = None if pause_s is None else loop.call_later(pause_s, bell.set)
            try:
                await bell.wait()
            finally:
                if timer is not None:
                    timer.cancel()


def _ring(loop: asyncio.AbstractEventLoop, bell: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop was closed: no task waits there
        loop.call_soon_threadsafe(bell.set)


def _opened(load: Load, loop: asyncio.AbstractEventLoop | None) -> tuple[Any] | None:
    """
    Return the outcome of *load* for a caller on *loop*; None if the caller must load the key itself.

    A failure is raised as FailedLoadError. For a thread, *loop* is None.
    """
    outcome: Any = load.outcome
    try:
        if outcome is OPEN:
            return None
        if not isinstance(outcome, Failure):
            return outcome  # type: ignore[no-any-return]
        if outcome.is_exception or load.flight.loop is loop:
            raise FailedLoadError(outcome.error())
        return None  # a cancellation or the like, in a task of another loop
    finally:  # the error's traceback must not refer to loads, which refer to the error
        del load, outcome
