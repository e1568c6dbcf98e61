"""
Internal: system threads and their locks, even if gevent has replaced threads by greenlets.

gevent may replace parts of `threading` and `time` at any moment. Our threads wait in native code; a greenlet that
waited there would stop all greenlets of its thread. So our threads, and the locks between them and their callers, are
the system's originals, which gevent keeps. A caller waits for one of our threads at a `Gate`, which lets other
greenlets run. eventlet does not keep the originals, so it is refused.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

__all__ = [
    "CallLock",
    "Condition",
    "Event",
    "Gate",
    "Lock",
    "Semaphore",
    "Thread",
    "Timer",
    "current_thread",
    "get_ident",
    "is_patched",
    "original",
    "ran_undisturbed",
    "refuse_eventlet",
    "sleep",
]


def original(module: Any, name: str) -> Any:
    gevent = sys.modules.get("gevent.monkey")
    return getattr(module, name) if gevent is None else gevent.get_original(module.__name__, name)


def is_patched() -> bool:
    return "gevent.monkey" in sys.modules and original(_thread, "start_new_thread") is not _thread.start_new_thread


def refuse_eventlet() -> None:
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        message = (
            "eventlet has replaced the threads of this process, and tickwheel needs those of the system: "
            "call eventlet.monkey_patch(thread=False), or run under gevent, threads or asyncio"
        )
        raise RuntimeError(message)


get_ident: Final = original(_thread, "get_ident")
sleep: Final = original(time, "sleep")

if TYPE_CHECKING:
    from threading import Condition, Event, Lock, Semaphore
    from threading import RLock as RLock  # noqa: PLC0414 - modules import it; not public, as it has no docstring
else:
    Lock: Final = original(_thread, "allocate_lock")
    RLock: Final = _thread.RLock
    _names: Final = {**vars(threading), "_allocate_lock": Lock, "Lock": Lock, "RLock": RLock}

    def _with_own_locks(name: str) -> type:
        base = original(threading, name)
        own = {}
        for verb, each in vars(base).items():
            if isinstance(each, FunctionType):
                own[verb] = FunctionType(each.__code__, _names, verb, each.__defaults__, each.__closure__)
                own[verb].__kwdefaults__ = each.__kwdefaults__
        made = _names[name] = type(name, (base,), own)
        return made

    Condition: Final = _with_own_locks("Condition")
    Event: Final = _with_own_locks("Event")
    Semaphore: Final = _with_own_locks("Semaphore")


class Gate:
    """
    An event that is set once, for threads and greenlets. gevent's locks are not used: they may miss releases.
    """

    __slots__ = ("_calls", "_is_open", "_lock")

    def __init__(self) -> None:
        self._is_open = False
        self._calls: list[Callable[[], object]] = []
        self._lock = Lock()
        self._lock.acquire()

    def is_open(self) -> bool:
        return self._is_open

    def open(self) -> None:
        self._is_open = True
        with suppress(RuntimeError):  # the lock was released before
            self._lock.release()
        self._call()

    def wait(self, timeout: float | None = None) -> bool:
        if is_patched() and getattr(_here, "thread", None) is None:
            return self._wait_in_hub(timeout)
        if not self._is_open and self._lock.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
            self._lock.release()  # for the next waiter
        return self._is_open

    def _wait_in_hub(self, timeout: float | None) -> bool:
        gevent = import_module("gevent")
        event, watcher = import_module("gevent.event").Event(), gevent.get_hub().loop.async_()
        watcher.start(event.set)
        try:
            self._calls.append(watcher.send)
            if self._is_open:
                self._call()
            event.wait(timeout)
        finally:
            with suppress(ValueError):
                self._calls.remove(watcher.send)
            watcher.close()
        return self._is_open

    def _call(self) -> None:
        for call in list(self._calls):
            call()


class CallLock:
    """
    A lock for callers that may block while they hold the lock.

    A greenlet that waits for this lock lets other greenlets run, even if gevent patched the process after the lock was
    made.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        if not is_patched() or getattr(_here, "thread", None) is not None:
            self._lock.acquire()
            return
        while not self._lock.acquire(blocking=False):
            # Poll: the holder may be another greenlet of this thread, and a system lock does not wake a greenlet.
            import_module("gevent").sleep(_TURN_S)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_BaseThread: Final[type[threading.Thread]] = original(threading, "Thread")
_TURN_S: Final = 0.001
"""Seconds for which a greenlet lets other greenlets run before it tries to take a lock again."""
_here: Final = original(_thread, "_local")()
"""Thread-local storage. In a `Thread` of this module, the attribute `thread` is that `Thread`."""


if TYPE_CHECKING:
    _Base = threading.Thread
else:
    _Base = _BaseThread


class Thread(_Base):
    """
    A system thread with the interface of `threading.Thread`.

    If gevent has replaced `threading`, the original functions start the thread, and `threading` does not list the
    thread.
    """

    _gate: Gate | None = None
    """A gate that opens at the end of the thread, if `threading` does not list the thread."""

    def start(self) -> None:
        refuse_eventlet()
        if not is_patched():
            super().start()
            return
        self._gate = Gate()
        try:
            original(_thread, "start_new_thread")(self._run_unknown, ())
        except BaseException:
            self._gate = None
            raise

    def run(self) -> None:
        _here.thread = self
        super().run()

    def _run_unknown(self) -> None:
        try:
            self.run()
        except SystemExit:
            pass
        except BaseException:  # noqa: BLE001 - as in any thread
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self)))
        finally:
            assert self._gate is not None
            self._gate.open()

    def is_alive(self) -> bool:
        return super().is_alive() if self._gate is None else not self._gate.is_open()

    def join(self, timeout: float | None = None) -> None:
        if self._gate is None:
            super().join(timeout)
        elif self is current_thread():
            raise RuntimeError("cannot join current thread")
        else:
            self._gate.wait(timeout)


class Timer(Thread):
    """
    A daemon system thread that calls a function after *seconds*, unless it is cancelled earlier.
    """

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        super().__init__(target=self._wait, name="tickwheel-timer", daemon=True)
        self._seconds, self._call = seconds, call
        self._is_cancelled = Event()

    def cancel(self) -> None:
        self._is_cancelled.set()

    def _wait(self) -> None:
        if not self._is_cancelled.wait(self._seconds):
            self._call()


def current_thread() -> threading.Thread:
    thread: threading.Thread | None = getattr(_here, "thread", None)
    return threading.current_thread() if thread is None else thread


# Python runs signal handlers in the main thread, between any two instructions, but never in our threads. Some steps
# must not be interrupted or re-entered by a handler: `ran_undisturbed` runs them in a caller's thread if that is safe.
_signal: Final[Any] = import_module("_signal")
"""
The C module behind `signal`. It does not convert numbers to enums, which would cost twenty times as much.
"""
_handler_of: Final[Callable[[int], Any]] = _signal.getsignal
_handle: Final[Callable[[int, Any], Any]] = _signal.signal
_frame_at: Final = getattr(sys, "_getframe")  # noqa: B009 - the one cheap way to see the depth of the stack
_OTHERS: Final = sorted(map(int, signal.valid_signals() - {signal.SIGINT}))
_SIGINT: Final = int(signal.SIGINT)
_FRAMES: Final = 400
"""Number of stack frames that must be free, so that a call cannot exceed the recursion limit."""


def ran_undisturbed(call: Callable[[], object]) -> bool:
    """
    Run *call* in this thread and return True. If a signal might interrupt *call*, return False without running it.
    """
    if is_patched() or not _has_stack():
        return False
    if _handler_of(_SIGINT) is not signal.default_int_handler:
        if get_ident() == threading.main_thread().ident and _has_handlers(_SIGINT, *_OTHERS):
            return False
        call()
        return True
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        came.append(number)

    try:
        _handle(_SIGINT, note)
    except ValueError:  # this is not the main thread
        is_main = False
    else:
        is_main = True
    if not is_main:
        call()
        return True
    try:
        if _has_handlers(*_OTHERS):
            return False
        call()
    finally:
        _handle(_SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
    return True


def _has_handlers(*numbers: int) -> bool:
    return any(map(callable, map(_handler_of, numbers)))


def _has_stack() -> bool:
    try:
        _frame_at(max(0, sys.getrecursionlimit() - _FRAMES))
    except ValueError:  # the stack has fewer frames
        return True
    return False
