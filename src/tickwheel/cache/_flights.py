"""
One load for each missing key: who asks while it runs waits for it, thread or task.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from concurrent.futures import wait
from typing import Any, Final, Protocol, TypeAlias

from tickwheel.cache._flight import Flight, Load, Ticket
from tickwheel.drivers.fork import call_after_fork
from tickwheel.errors import ReentrantError, ValueTooLargeError
from tickwheel.timers.locks import OUTER, new_lock

__all__ = ["Flights", "Loading", "LoadsAll"]

_LOOK_AGAIN_S: Final = 1.0
"""After so many seconds who waits for a task of another loop looks whether that still runs."""

LoadsAll: TypeAlias = Callable[[list[Any]], Any]
"""Gets keys, returns a mapping of those that it has found, or something to await that does."""


class Loading(Protocol):
    """
    The part of a cache that its loads use.
    """

    def find_loaded(self, key: Any) -> tuple[Any] | None:
        """
        Return `(value,)` if the key has got a value by now, else None, which counts as no miss.
        """

    def begin_load(self, key: Any, /) -> Ticket: ...
    def end_load(self, ticket: Ticket, /) -> None: ...
    def is_overtaken(self, ticket: Ticket, /) -> bool: ...
    def keep_loaded(self, ticket: Ticket, key: Any, value: Any, /) -> bool: ...


class Flights:
    """
    The loads that are under way for one cache, by key.

    The cache is handed in with each call: to hold it here would make a cycle of it.
    An error that is raised holds the frames that it has come through, and a load holds the error; so these frames let
    go of their loads, or both would stay until the collector comes.
    """

    def __init__(self) -> None:
        self.tally: Counter[str] = Counter()
        self.lock = new_lock(OUTER)
        self._loads: dict[Hashable, Load] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._orphans: list[Ticket] = []
        call_after_fork(self)

    def after_fork(self) -> None:
        """
        Forget the loads of threads that are not in this process, and of tasks, whose loop does not run on in it.
        """
        here = threading.get_ident()
        flights = {key: load.flight for key, load in self._loads.items()}
        lost = [key for key, flight in flights.items() if flight.thread != here or flight.loop is not None]
        self._orphans += [self._loads.pop(key).ticket for key in lost]

    def count(self, name: str, number: int = 1) -> None:
        """
        Add to a count of `LoadStats`.
        """
        with self.lock:
            self.tally[name] += number

    def take(self, cache: Loading, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Return the values of *keys*; of those that nobody loads yet by `load_all`, called in this thread.
        """
        todo, values = list(keys), {}
        while todo:
            found, ours, theirs = self._board(cache, todo, Flight())
            values.update(found)
            if ours:
                values.update(self.run(cache, ours, load_all))
            todo = []
            self._join(theirs)
            try:
                for key in theirs:
                    outcome = _outcome(theirs[key])
                    if outcome is None:
                        todo.append(key)
                    else:
                        values[key] = outcome[0]
            finally:
                self._leave(theirs)
                del theirs
        return values

    async def take_async(self, cache: Loading, keys: Iterable[Hashable], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Do the same by `await load_all`, run in a task of its own, which ends early only if nobody waits any more.
        """
        todo, values = list(keys), {}
        while todo:
            found, ours, theirs = self._board(cache, todo, Flight(asyncio.get_running_loop()))
            values.update(found)
            if ours:
                self.start(cache, ours, load_all)
            todo = []
            self._join(awaited := {**ours, **theirs})
            try:
                for key, waiting in zip(awaited, map(_awaited, awaited.values()), strict=True):
                    outcome = await waiting
                    if outcome is not None:
                        values[key] = outcome[0]
                    elif key in theirs:
                        todo.append(key)
            finally:
                self._leave(awaited)
                for known in (ours, theirs, awaited):
                    known.clear()
        return values

    def board(self, cache: Loading, keys: Iterable[Hashable], flight: Flight) -> dict[Any, Load]:
        """
        Return a load of *flight* for each of the *keys* that nobody loads yet: for the background.
        """
        ours: dict[Any, Load] = {}
        with self.lock:
            for key in keys:
                load = self._loads.get(key)
                if load is None or load.flight.is_lost() or cache.is_overtaken(load.ticket):
                    ours[key] = self._loads[key] = Load(flight, cache.begin_load(key))
        return ours

    def _board(
        self, cache: Loading, keys: list[Any], flight: Flight
    ) -> tuple[dict[Any, Any], dict[Any, Load], dict[Any, Load]]:
        found: dict[Any, Any] = {}
        ours: dict[Any, Load] = {}
        theirs: dict[Any, Load] = {}
        try:
            with self.lock:
                while self._orphans:
                    cache.end_load(self._orphans.pop())
                for key in keys:
                    value = cache.find_loaded(key)
                    if value is not None:
                        found[key] = value[0]
                        continue
                    load = self._loads.get(key)
                    if load is not None:
                        _refuse_a_circle(key, load.flight, flight)
                    # What was written or removed since a load began is not its answer to who asks now.
                    if (
                        load is not None
                        and load.flight.can_be_waited_for(flight.loop)
                        and not cache.is_overtaken(load.ticket)
                    ):
                        theirs[key] = load
                    else:
                        ours[key] = self._loads[key] = Load(flight, cache.begin_load(key))
        except BaseException:
            self.end(cache, ours)
            raise
        return found, ours, theirs

    def run(self, cache: Loading, loads: dict[Any, Load], load_all: LoadsAll) -> dict[Any, Any]:
        """
        Load in this thread, wake all that wait, and return the values.
        """
        error: BaseException | None = None
        try:
            return self._keep(cache, loads, load_all(list(loads)))
        except Exception as failure:
            error = failure
            self.count("failed")
            raise
        finally:  # what is not an Exception ends this thread's work, not that of others: one of them loads instead
            self.end(cache, loads, error)
            error = None

    def start(self, cache: Loading, loads: dict[Any, Load], load_all: LoadsAll) -> asyncio.Task[Any]:
        """
        Load in a task of the running loop; return it.
        """
        ours = dict(loads)

        def land(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            self.end(cache, ours, asyncio.CancelledError())  # for a task that was cancelled before its first step
            if not task.cancelled():
                task.exception()  # those that wait have it, so that asyncio need not log it

        running = self._run_async(cache, ours, load_all)
        try:
            task = asyncio.ensure_future(running)
        except BaseException:  # of the loop's task factory, or of an eager task's first step, which has ended them
            running.close()
            self.end(cache, ours)
            loads.clear()
            raise
        for flight in {load.flight for load in loads.values()}:
            flight.task = task
        self._tasks.add(task)
        task.add_done_callback(land)
        return task

    async def _run_async(self, cache: Loading, loads: dict[Any, Load], load_all: LoadsAll) -> None:
        for flight in {load.flight for load in loads.values()}:
            flight.task = asyncio.current_task()  # an eager task begins before `start` knows it
        error: BaseException | None = None
        try:
            self._keep(cache, loads, await load_all(list(loads)))
        except Exception as failure:  # noqa: BLE001 - it is raised in every caller that waits
            error = failure
            self.count("failed")
        except BaseException as end:  # such as a cancellation: by who gave up last, by the loop's end, or from inside
            error = end
            raise
        finally:
            self.end(cache, loads, error)
            error = None

    def _keep(self, cache: Loading, loads: dict[Any, Load], loaded: Any) -> dict[Any, Any]:
        if not isinstance(loaded, Mapping):
            message = f"the loader returned {loaded!r}: return a mapping of keys to values"
            raise TypeError(message)
        self.count("loaded", len(loads))
        values = {}
        try:
            for key, load in loads.items():
                if key in loaded:
                    values[key] = self._settle(cache, key, load.ticket, loaded[key])
                    load.future.set_result((values[key],))
        finally:
            del load
        return values

    def _settle(self, cache: Loading, key: Any, ticket: Ticket, value: Any) -> Any:
        if isinstance(value, Coroutine):
            value.close()
            message = (
                f"the loader of {key!r} returned {value!r}, which can be awaited only once: "
                "use a coroutine function, and take_async"
            )
            raise TypeError(message)
        try:
            if cache.keep_loaded(ticket, key, value):
                return value
        except ValueTooLargeError:
            self.count("uncached")
            return value
        self.count("overtaken")
        found = cache.find_loaded(key)
        return value if found is None else found[0]

    def end(self, cache: Loading, loads: dict[Any, Load], error: BaseException | None = None) -> None:
        """
        Let *loads* end with an *error*, or so that who waits for one of them loads instead, as far as they are open.
        """
        with self.lock:
            for key, load in loads.items():
                if self._loads.get(key) is load:
                    del self._loads[key]
                cache.end_load(load.ticket)
        for load in loads.values():
            if not load.future.done():
                load.future.set_result(error)
        loads.clear()

    def _join(self, loads: dict[Any, Load]) -> None:
        with self.lock:
            for flight in {load.flight for load in loads.values()}:
                flight.waiting += 1

    def _leave(self, loads: dict[Any, Load]) -> None:
        with self.lock:
            for flight in {load.flight for load in loads.values()}:
                flight.leave()


def _refuse_a_circle(key: Any, theirs: Flight, ours: Flight) -> None:
    is_own_thread = theirs.loop is None and theirs.thread == ours.thread
    is_own_task = theirs.task is not None and theirs.loop is ours.loop and theirs.task is asyncio.current_task()
    if is_own_thread or is_own_task:
        call = f"{'take' if ours.loop is None else 'take_async'}({key!r})"
        raise ReentrantError(call)


def _outcome(load: Load) -> tuple[Any] | None:
    try:
        pause_s = None if load.flight.loop is None else _LOOK_AGAIN_S
        while not wait((load.future,), pause_s).done:
            if not load.flight.can_be_waited_for(None):
                return None
        return _opened(load, None)
    finally:
        del load


async def _awaited(load: Load) -> tuple[Any] | None:
    loop = asyncio.get_running_loop()
    ended = asyncio.wrap_future(load.future)
    try:
        if load.flight.loop in {None, loop}:
            await ended
        while not ended.done():
            await asyncio.wait((ended,), timeout=_LOOK_AGAIN_S)
            if not (ended.done() or load.flight.can_be_waited_for(loop)):
                return None
        return _opened(load, loop)
    finally:
        del load, ended


def _opened(load: Load, loop: asyncio.AbstractEventLoop | None) -> tuple[Any] | None:
    """
    Return or raise the outcome of a load that has ended, as a thread or a task of *loop* sees it.

    What ended another loop's task without being an Exception, such as its cancellation, is None: load here instead.
    """
    outcome = load.future.result()
    try:
        if not isinstance(outcome, BaseException):
            return outcome
        if isinstance(outcome, Exception) or load.flight.loop is loop:
            raise outcome
        return None
    finally:
        del load, outcome
