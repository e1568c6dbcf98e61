"""
`take` and its variants: cached values, foreground loads and background loads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from tickwheel.cache._flight import FailedLoadError, Failure, Flight, Load, held
from tickwheel.cache._flights import Flights, Loading, LoadsAll
from tickwheel.cache._refresh import Refresh
from tickwheel.drivers.executors import PoolExecutor
from tickwheel.drivers.fork import call_after_fork
from tickwheel.timers.engine import log_error

__all__ = ["Loads"]

_Start: TypeAlias = "Callable[[Taking, Flight, LoadsAll], None]"

_RESTS_KEPT: Final = 64
"""Length of `_resting` above which keys whose `retry_after` has passed are removed from it."""


class Taking(Loading, Protocol):
    def get_many(self, keys: Iterable[Any], /) -> dict[Any, Any]: ...

    def _grade(self, key: Any, /) -> tuple[Any, int, int] | None: ...

    def _now_ns(self) -> int: ...


class Loads:
    def __init__(self, refresh: Refresh | None, timeout_s: float | None = None) -> None:
        self._flights = Flights(timeout_s)
        self.tally = self._flights.tally
        self.has_rules = refresh is not None
        rules = refresh or Refresh()
        self._ahead_ns, self._revalidate_ns, self._error_ns = rules.ahead_ns, rules.revalidate_ns, rules.error_ns
        self.grace_ns = max(self._revalidate_ns, self._error_ns)
        self._loads_max = rules.loads_max
        self._retry_ns = rules.retry_ns
        self._resting: dict[Any, int] = {}
        """The keys whose load has failed, each with the earliest time of its next load."""
        self._rests_kept = _RESTS_KEPT
        self._background: set[Flight] = set()
        self._pool: PoolExecutor | None = None
        call_after_fork(self)

    def after_fork(self) -> None:
        self._background.clear()

    def take_one(self, cache: Taking, key: Any, loader: Callable[[Any], Any]) -> Any:
        if self.has_rules:
            return self.take(cache, (key,), _One(loader))[key]
        try:  # without rules, the caller has already looked up the key
            return self._flights.take(cache, (key,), _One(loader))[key]
        except FailedLoadError as failed:
            error = failed.error
        try:
            raise error
        finally:
            del error  # the error's traceback holds this frame

    async def take_one_async(self, cache: Taking, key: Any, loader: Callable[[Any], Any]) -> Any:
        if self.has_rules:
            return (await self.take_async(cache, (key,), _OneAwaited(loader)))[key]
        try:
            return (await self._flights.take_async(cache, (key,), _OneAwaited(loader)))[key]
        except FailedLoadError as failed:
            error = failed.error
        try:
            raise error
        finally:
            del error  # the error's traceback holds this frame

    def take(self, cache: Taking, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        wanted = dict.fromkeys(keys)
        values, missing = self._look(cache, wanted, lambda due: self._refresh(cache, due, load_all))
        error = None
        if missing:
            try:
                values.update(self._flights.take(cache, missing, load_all))
            except FailedLoadError as failed:
                error = failed.error
        try:
            if error is not None and not self._fall_back(cache, values, missing, error):
                raise error
        finally:
            del error  # the error's traceback holds this frame
        return {key: values[key] for key in wanted if key in values}

    async def take_async(self, cache: Taking, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        wanted = dict.fromkeys(keys)
        values, missing = self._look(cache, wanted, lambda due: self._refresh_async(cache, due, load_all))
        error = None
        if missing:
            try:
                values.update(await self._flights.take_async(cache, missing, load_all))
            except FailedLoadError as failed:
                error = failed.error
        try:
            if error is not None and not self._fall_back(cache, values, missing, error):
                raise error
        finally:
            del error  # the error's traceback holds this frame
        return {key: values[key] for key in wanted if key in values}

    def _look(
        self, cache: Taking, keys: Iterable[Any], refresh: Callable[[list[Any]], None]
    ) -> tuple[dict[Any, Any], list[Any]]:
        if not self.has_rules:
            values = cache.get_many(keys)
            return values, [key for key in keys if key not in values]
        values, missing, due = {}, [], []
        for key in keys:
            value, left_ns, life_ns = cache._grade(key) or (None, -self.grace_ns - 1, 0)
            is_resting = bool(self._resting) and self._is_resting(cache, key)
            if left_ns > 0 or -left_ns < (self._error_ns if is_resting else self._revalidate_ns):
                values[key] = value
                if left_ns <= 0:
                    self._flights.count("stale")
                if left_ns <= self._ahead_of(life_ns) and not is_resting:
                    due.append(key)
            else:
                missing.append(key)
        if due:
            refresh(due)
        return values, missing

    def _ahead_of(self, life_ns: int) -> int:
        """
        Return `ahead` in nanoseconds, or half of *life_ns* if `ahead` is at least as long as the lifetime.
        """
        return self._ahead_ns if self._ahead_ns < life_ns else life_ns // 2

    def _is_resting(self, cache: Taking, key: Any) -> bool:
        until_ns = self._resting.get(key)
        return until_ns is not None and cache._now_ns() < until_ns

    def _rest(self, cache: Taking, keys: Iterable[Any]) -> None:
        if not self._retry_ns:
            return
        now_ns = cache._now_ns()
        self._resting.update(dict.fromkeys(keys, now_ns + self._retry_ns))
        if len(self._resting) > self._rests_kept:
            for key, until_ns in list(self._resting.items()):
                if until_ns <= now_ns:
                    self._resting.pop(key, None)
            self._rests_kept = max(2 * len(self._resting), _RESTS_KEPT)

    def _fall_back(self, cache: Taking, values: dict[Any, Any], missing: list[Any], error: BaseException) -> bool:
        if not self._error_ns or not isinstance(error, Exception):
            return False
        stale = 0
        for key in missing:
            value, left_ns, _ = cache._grade(key) or (None, -self.grace_ns - 1, 0)
            if -left_ns >= self._error_ns:
                return False
            values[key] = value
            stale += left_ns <= 0
        self._flights.count("stale", stale)
        self._rest(cache, missing)
        return True

    def _refresh(self, cache: Taking, keys: list[Any], load_all: LoadsAll) -> None:
        flight = Flight(is_background=True, timeout_s=self._flights.timeout_s)
        flight.thread = None  # the worker sets its thread when it starts
        held(flight.gate, self._begin, cache, keys, load_all, flight, self._submit)

    def _refresh_async(self, cache: Taking, keys: list[Any], load_all: LoadsAll) -> None:
        flight = Flight(asyncio.get_running_loop(), is_background=True, timeout_s=self._flights.timeout_s)
        held(flight.gate, self._begin, cache, keys, load_all, flight, self._start)

    def _begin(self, cache: Taking, keys: list[Any], load_all: LoadsAll, flight: Flight, start: _Start) -> None:
        try:
            number = held(self._flights.lock, self._board, cache, keys, flight)
            if not number:
                return
            try:
                start(cache, flight, load_all)
            except (RuntimeError, MemoryError) as error:  # no thread is available: return the present value
                self._flights.give_up(cache, flight)
                self._flights.count("refused", number)
                log_error(error, load_all)
            else:
                self._flights.count("refreshes", number)
        except BaseException:
            self._flights.give_up(cache, flight)
            raise

    def _board(self, cache: Taking, keys: list[Any], flight: Flight) -> int:
        self._background = {each for each in self._background if not each.is_over()}
        if len(self._background) >= self._loads_max:
            self._flights.tally["refused"] += len(keys)
            return 0
        flight.on_failure = self._rest
        number = self._flights.board(cache, keys, flight)
        if number:
            self._background.add(flight)
        return number

    def _submit(self, cache: Taking, flight: Flight, load_all: LoadsAll) -> None:
        if self._pool is None:
            held(self._flights.lock, self._open_pool)
        run = partial(copy_context().run, held, flight.gate, self._run, cache, flight, load_all)
        self._pool.submit(_Job(run))  # type: ignore[union-attr, arg-type]
        flight.is_queued = True  # the worker waits for the gate, which this thread holds

    def _open_pool(self) -> None:
        if self._pool is None:
            self._pool = PoolExecutor(self._loads_max, queue_max=self._loads_max, name="tickwheel-refresh")

    def _start(self, cache: Taking, flight: Flight, load_all: LoadsAll) -> None:
        loads = dict(flight.loads)
        task = self._flights.start(cache, flight, load_all)
        task.add_done_callback(lambda _: _log_failure(loads, load_all))

    def _run(self, cache: Taking, flight: Flight, load_all: LoadsAll) -> None:
        if flight.is_ended:  # an exception has interrupted its start
            return
        flight.thread = threading.get_ident()
        try:
            try:
                self._flights.run(cache, flight, load_all)
            finally:
                self._flights.end(cache, flight)
        except FailedLoadError as failed:  # no caller waits for it
            log_error(failed.error, load_all)
        finally:
            self._flights.end(cache, flight)


def _log_failure(loads: dict[Any, Load], load_all: LoadsAll) -> None:
    failure = next((load.outcome for load in loads.values() if isinstance(load.outcome, Failure)), None)
    loads.clear()
    if failure is not None and failure.is_exception:
        log_error(failure.error(), load_all)


class _One:
    def __init__(self, loader: Callable[[Any], Any]) -> None:
        self._loader = loader

    def __repr__(self) -> str:
        return repr(self._loader)

    def __call__(self, keys: list[Any]) -> Any:
        (key,) = keys
        return {key: self._loader(key)}  # not a comprehension, which adds a frame before Python 3.12


class _OneAwaited(_One):
    async def __call__(self, keys: list[Any]) -> Any:
        return {key: await self._loader(key) for key in keys}


class _Job:
    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run
