"""
The timer implementations that are compared. Each has the same few methods, and runs a workload as its users would.

A workload is a generator. It calls `timers.call_later(delay, callback)` and similar methods. To let time pass, it
yields: None for one turn of a loop, a number for that number of seconds, or an Event to wait until the event is set.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from threading import Event, Thread
from typing import Any, TypeAlias

__all__ = ["SUBJECTS", "Contender", "Work", "is_here", "make"]

Work: TypeAlias = Iterator[float | Event | None]


class Contender:
    """
    A timer implementation that is compared with others.

    Attributes:
        timers: An object with `call_later(delay, callback, *args)` and `call_at(when, callback, *args)`, each of which
            returns a handle with `cancel()`.
    """

    timers: Any

    def drive(self, work: Work) -> None:
        """
        Run the workload *work* to its end, and let time pass when it yields.

        This version is for contenders with their own thread.
        """
        for wait in work:
            if isinstance(wait, Event):
                wait.wait()
            elif wait:
                time.sleep(wait)

    def move(self, handles: list[Any], places: Sequence[int], whens: Sequence[float]) -> None:
        """
        Move the timer at each of *places* in *handles* to the time at the same position in *whens*.

        This version cancels the timer and sets a new one, as users of asyncio do.
        """
        timers = self.timers
        for place, when in zip(places, whens, strict=True):
            handles[place].cancel()
            handles[place] = timers.call_at(when, do_nothing)

    def now(self) -> float:
        """
        Return the time of the clock that `call_at` uses.
        """
        return time.monotonic()

    def fill(self, delays: Sequence[float], callback: Callable[[], object]) -> list[Any]:
        """
        Set a timer for each of *delays*, and return the handles.
        """
        timers = self.timers
        return [timers.call_later(delay, callback) for delay in delays]

    def start(self) -> None:
        """
        Begin to wait for timers in the background.
        """

    def set_from_outside(self, delay: float, callback: Callable[[], object]) -> None:
        """
        Set a timer from a thread other than the one that waits for timers.
        """
        self.timers.call_later(delay, callback)

    def close(self) -> None:
        pass


def do_nothing() -> None:
    pass


class LoopContender(Contender):
    """
    An asyncio event loop, on which the workloads run as coroutines.
    """

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self.loop = factory()
        self.timers = self.loop

    def drive(self, work: Work) -> None:
        """
        Run the workload *work* on the loop.
        """
        self.loop.run_until_complete(self._main(work))

    @staticmethod
    async def _main(work: Work) -> None:
        for wait in work:
            if isinstance(wait, Event):
                while not wait.is_set():  # noqa: ASYNC110 - this is a threading.Event, which a loop cannot await
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(wait or 0)

    def start(self) -> None:
        """
        Run the loop in a separate thread.
        """
        Thread(target=self.loop.run_forever, daemon=True).start()

    def set_from_outside(self, delay: float, callback: Callable[[], object]) -> None:
        """
        Pass the timer to the loop's thread.
        """
        self.loop.call_soon_threadsafe(self.timers.call_later, delay, callback)

    def now(self) -> float:
        """
        Return the loop's time, because not every loop uses the clock of `time.monotonic`.

        The clock of rloop starts at 0 with the loop. The clock of uvloop does not advance during a turn of the loop.
        """
        return self.loop.time()

    def close(self) -> None:
        self.loop.close()


class HeapTimer:
    """
    A handle of a timer in a heap of tuples.
    """

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        """
        Mark the timer as cancelled, but leave its tuple in the heap until it is due.
        """
        self.callback = None


class HeapTimers:
    """
    A common home-made solution: a heap of (when, number, timer).

    A cancelled timer stays in the heap until it is due, and is then dropped.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, HeapTimer]] = []
        self._count = 0

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> HeapTimer:
        """
        Call *callback* at *when*.
        """
        timer = HeapTimer(callback, args)
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> HeapTimer:
        """
        Call *callback* in *delay* seconds.
        """
        return self.call_at(time.monotonic() + delay, callback, *args)

    def run_due(self) -> None:
        """
        Call the due timers.
        """
        now = time.monotonic()
        while self._heap and self._heap[0][0] <= now:
            timer = heapq.heappop(self._heap)[2]
            if timer.callback is not None:
                timer.callback(*timer.args)


class HeapContender(Contender):
    """
    A plain heap. The workload's thread calls the due timers whenever the workload yields.
    """

    def __init__(self) -> None:
        self.timers = HeapTimers()

    def drive(self, work: Work) -> None:
        """
        Run the workload *work*, and call the due timers each time it yields.
        """
        for wait in work:
            if isinstance(wait, float | int):
                time.sleep(wait)
            self.timers.run_due()
            while isinstance(wait, Event) and not wait.is_set():
                self.timers.run_due()


class WheelContender(Contender):
    """
    A TimerWheel on its own thread, used from the main thread.
    """

    def __init__(self) -> None:
        self.timers = import_module("tickwheel").TimerWheel()

    def move(self, handles: list[Any], places: Sequence[int], whens: Sequence[float]) -> None:
        """
        Move the timers with `reschedule`, without new handles.
        """
        for place, when in zip(places, whens, strict=True):
            handles[place].reschedule(when)

    def close(self) -> None:
        self.timers.close()


class WheelOnLoopContender(LoopContender):
    """
    A TimerWheel that an asyncio loop drives.
    """

    def __init__(self) -> None:
        """
        Make the loop; the wheel is made later, inside the running loop.
        """
        super().__init__(asyncio.new_event_loop)
        self.timers = None

    def drive(self, work: Work) -> None:
        """
        Run the workload *work* on the loop.

        The wheel is made when the loop runs for the first time.
        """
        self.loop.run_until_complete(self._with_wheel(work))

    async def _with_wheel(self, work: Work) -> None:
        if self.timers is None:
            self.timers = import_module("tickwheel").TimerWheel.asyncio()
        await self._main(work)

    move = WheelContender.move
    now = Contender.now

    def start(self) -> None:
        """
        Make the wheel, and run the loop in a separate thread.
        """
        self.drive(iter([None]))
        super().start()

    def close(self) -> None:
        """
        Close the wheel, and then the loop.
        """
        self.timers.close()
        super().close()


SUBJECTS: dict[str, tuple[str, Callable[[], Contender]]] = {
    "asyncio": ("asyncio", lambda: LoopContender(asyncio.SelectorEventLoop)),
    "uvloop": ("uvloop", lambda: LoopContender(import_module("uvloop").new_event_loop)),
    "rloop": ("rloop", lambda: LoopContender(import_module("rloop").new_event_loop)),
    "heapq": ("heapq", HeapContender),
    "tickwheel": ("tickwheel", WheelContender),
    "tickwheel-asyncio": ("tickwheel", WheelOnLoopContender),
}


def is_here(subject: str) -> bool:
    """
    Return True if the library of a subject is installed.
    """
    library = SUBJECTS[subject][0]
    return find_spec(library) is not None and (library != "tickwheel" or hasattr(import_module(library), "TimerWheel"))


def make(subject: str) -> Contender:
    return SUBJECTS[subject][1]()
