"""
Taking values: those that are there, those that are loaded, and those loaded in the background.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeAlias

from tickwheel.cache._flight import Flight, Load
from tickwheel.cache._flights import Flights, Loading, LoadsAll
from tickwheel.cache._refresh import Refresh
from tickwheel.drivers.executors import PoolExecutor
from tickwheel.drivers.fork import call_after_fork
from tickwheel.timers.engine import log_error

__all__ = ["Loads"]

_Start: TypeAlias = "Callable[[Taking, Flight, dict[Any, Load], LoadsAll], None]"


class Taking(Loading, Protocol):
    """
    The part of a cache that `take` and its variants use.
    """

    def get_many(self, keys: Iterable[Any], /) -> dict[Any, Any]:
        """
        Return what is there.
        """

    def grade(self, key: Any, /) -> tuple[Any, int] | None: ...


class Loads:
    """
    The loads of one cache, by its rules of refreshing.

    Args:
        refresh: The rules, or None to load what is missing and nothing else.
    """

    def __init__(self, refresh: Refresh | None) -> None:
        self._flights = Flights()
        self.tally = self._flights.tally
        self.has_rules = refresh is not None
        rules = refresh or Refresh()
        self._ahead_ns, self._revalidate_ns, self._error_ns = rules.ahead_ns, rules.revalidate_ns, rules.error_ns
        self.grace_ns = max(self._revalidate_ns, self._error_ns)
        self._loads_max = rules.loads_max
        self._background: set[Flight] = set()
        self._pool: PoolExecutor | None = None
        call_after_fork(self)

    def after_fork(self) -> None:
        """
        Forget the loads of threads that are not in this process.
        """
        self._background.clear()

    def take_one(self, cache: Taking, key: Any, loader: Callable[[Any], Any]) -> Any:
        """
        Return the value of a *key*, whose lookup, where there are no rules, has missed it.
        """
        take = self.take if self.has_rules else self._flights.take
        return take(cache, (key,), _One(loader))[key]

    async def take_one_async(self, cache: Taking, key: Any, loader: Callable[[Any], Any]) -> Any:
        """
        Do the same with a loader that is awaited.
        """
        take = self.take_async if self.has_rules else self._flights.take_async
        return (await take(cache, (key,), _OneAwaited(loader)))[key]

    def take(self, cache: Taking, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Return the values of *keys*, each once, without those that `load_all` has not found.
        """
        wanted = dict.fromkeys(keys)
        values, missing = self._look(cache, wanted, lambda due: self._refresh(cache, due, load_all))
        if missing:
            try:
                values.update(self._flights.take(cache, missing, load_all))
            except Exception:
                if not self._fall_back(cache, values, missing):
                    raise
        return {key: values[key] for key in wanted if key in values}

    async def take_async(self, cache: Taking, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Do the same with a loader that is awaited.
        """
        wanted = dict.fromkeys(keys)
        values, missing = self._look(cache, wanted, lambda due: self._refresh_async(cache, due, load_all))
        if missing:
            try:
                values.update(await self._flights.take_async(cache, missing, load_all))
            except Exception:
                if not self._fall_back(cache, values, missing):
                    raise
        return {key: values[key] for key in wanted if key in values}

    def _look(
        self, cache: Taking, keys: Iterable[Any], refresh: Callable[[list[Any]], None]
    ) -> tuple[dict[Any, Any], list[Any]]:
        """
        Return what can be answered at once, and what has to be loaded.
        """
        if not self.has_rules:
            values = cache.get_many(keys)
            return values, [key for key in keys if key not in values]
        values, missing, due = {}, [], []
        for key in keys:
            value, left_ns = cache.grade(key) or (None, -self.grace_ns - 1)
            if left_ns > 0 or -left_ns < self._revalidate_ns:
                values[key] = value
                if left_ns <= 0:
                    self._flights.count("stale")
                if left_ns <= self._ahead_ns:
                    due.append(key)
            else:
                missing.append(key)
        if due:
            refresh(due)
        return values, missing

    def _fall_back(self, cache: Taking, values: dict[Any, Any], missing: list[Any]) -> bool:
        """
        Answer what is there now, once loading it has failed; return whether that is all.
        """
        if not self._error_ns:
            return False
        stale = 0
        for key in missing:
            value, left_ns = cache.grade(key) or (None, -self.grace_ns - 1)
            if -left_ns >= self._error_ns:
                return False
            values[key] = value
            stale += left_ns <= 0
        self._flights.count("stale", stale)
        return True

    def _board(self, cache: Taking, keys: list[Any], flight: Flight) -> dict[Any, Load]:
        with self._flights.lock:
            self._background = {each for each in self._background if not each.is_lost()}
            if len(self._background) >= self._loads_max:
                self._flights.count("refused", len(keys))
                return {}
            loads = self._flights.board(cache, keys, flight)
            if loads:
                self._background.add(flight)
        return loads

    def _refresh(self, cache: Taking, keys: list[Any], load_all: LoadsAll) -> None:
        flight = Flight(is_background=True)
        flight.thread = None  # that of the worker, once there is one
        self._begin(cache, keys, load_all, flight, self._submit)

    def _refresh_async(self, cache: Taking, keys: list[Any], load_all: LoadsAll) -> None:
        flight = Flight(asyncio.get_running_loop(), is_background=True)
        self._begin(cache, keys, load_all, flight, self._start)

    def _begin(self, cache: Taking, keys: list[Any], load_all: LoadsAll, flight: Flight, start: _Start) -> None:
        loads = self._board(cache, keys, flight)
        number = len(loads)
        if not number:
            return
        try:
            start(cache, flight, loads, load_all)
        except Exception as error:  # noqa: BLE001 - such as for want of threads: the value that is there will do
            self._flights.end(cache, loads)
            self._leave(flight)
            self._flights.count("refused", number)
            log_error(error, load_all)
        else:
            self._flights.count("refreshes", number)

    def _submit(self, cache: Taking, flight: Flight, loads: dict[Any, Load], load_all: LoadsAll) -> None:
        with self._flights.lock:
            if self._pool is None:
                self._pool = PoolExecutor(self._loads_max, queue_max=self._loads_max, name="tickwheel-refresh")
        self._pool.submit(_Job(lambda: self._run(cache, flight, loads, load_all)))  # type: ignore[arg-type]

    def _start(self, cache: Taking, flight: Flight, loads: dict[Any, Load], load_all: LoadsAll) -> None:
        task = self._flights.start(cache, loads, load_all)
        task.add_done_callback(lambda _: self._end(flight, loads, load_all))

    def _leave(self, flight: Flight) -> None:
        with self._flights.lock:
            self._background.discard(flight)

    def _run(self, cache: Taking, flight: Flight, loads: dict[Any, Load], load_all: LoadsAll) -> None:
        flight.thread = threading.get_ident()
        try:
            self._flights.run(cache, loads, load_all)
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            log_error(error, load_all)
        finally:
            self._leave(flight)

    def _end(self, flight: Flight, loads: dict[Any, Load], load_all: LoadsAll) -> None:
        self._leave(flight)
        for load in loads.values():
            error = load.future.result(0)  # all have ended
            if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
                log_error(error, load_all)
                break


class _One:
    """
    The loader of a single key as one of many.
    """

    def __init__(self, loader: Callable[[Any], Any]) -> None:
        self._loader = loader

    def __repr__(self) -> str:
        return repr(self._loader)

    def __call__(self, keys: list[Any]) -> Any:
        return {key: self._loader(key) for key in keys}


class _OneAwaited(_One):
    """
    The same for a loader that is awaited.
    """

    async def __call__(self, keys: list[Any]) -> Any:
        return {key: await self._loader(key) for key in keys}


class _Job:
    """
    A background load as an executor takes it.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run
