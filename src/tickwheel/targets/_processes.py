"""
Handlers in separate processes, where a crash or a hang ends only one attempt.

Each process runs one call at a time, and is reused for later calls. Processes are spawned, not forked, because a fork
would inherit locks that threads hold. A process imports the function from its module. The main module is imported under
another name, so it needs `if __name__ == "__main__":`.

    parent                                       process
                                                 ready: it has started, or its last call has ended
    a call, pickled
                                                 begun: it has found the function, and calls it
                                                 beat, as often as the handler likes
                                                 done or failed, and ready again

Nothing is sent to a process that is not ready, because a call larger than the pipe's buffer would block.
"""

from __future__ import annotations

import inspect
import math
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from tickwheel.jobs.checks import SOCKET_S_MAX
from tickwheel.jobs.errors import HandlerFailedError, InvalidJobError, error_text
from tickwheel.jobs.model import Progress
from tickwheel.jobs.tracebacks import place_of, traceback_text
from tickwheel.targets.contract import Abandoned, DeadLetter, FinalError, Firing, Retry, Snooze
from tickwheel.threads import Lock, Timer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["ProcessPool", "check_importable", "check_sendable"]

_UP_S: Final = 60.0
"""Seconds allowed for each of three steps: starting a process, sending a call, importing the handler's modules."""
_PIPE_BYTES: Final = 4_096
"""Number of bytes that a pipe without a reader buffers on every system."""
_LEAVE_S: Final = 1.0
"""Seconds allowed for an idle process to end."""

_READY, _BEGUN, _BEAT, _DONE, _FAILED = "ready", "begun", "beat", "done", "failed"
_REMEDY: Final = (
    "executor='process' needs a plain function at the top level of a module, registered above all other decorators"
)


class ProcessPool:
    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._is_closed = False

    def run(
        self, function: Callable[..., Any], timeout_s: float | None, arguments: tuple[Any, ...], firing: Firing
    ) -> object:
        """
        Call *function* in a process. Return its result if it is a `DeadLetter`, `Snooze` or `Retry`.

        The process is killed after *timeout_s* (a heartbeat restarts it), or if the job is cancelled. Raises a
        TimeoutError, Abandoned if the pool was closed, or a HandlerFailedError for any other failure.
        """
        request = _request(function, arguments)
        while True:
            process = self._take()
            is_whole = False
            try:
                with _killed_by(firing, process):
                    process.ask(request)
                    result = process.answer(timeout_s, arguments[-1])
                is_whole = not firing.cancelled
            except FinalError:
                is_whole = True
                raise
            except HandlerFailedError as error:
                is_whole = error.is_whole
                if self._is_closed and not is_whole:
                    raise Abandoned from None
                if process.was_idle and not (is_whole or firing.cancelled):  # the call has not started
                    continue
                raise
            finally:
                if is_whole:
                    self._give_back(process)
                else:
                    self._drop(process)
            return result

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            busy = self._all - set(idle)
            self._all = set()
        for process in busy:
            process.kill()
        for process in idle:
            process.leave()

    def _take(self) -> _Process:
        with self._lock:
            if self._is_closed:
                raise Abandoned
            if self._idle:
                process = self._idle.pop()
                process.was_idle = True
                return process
            process = _Process()
            self._all.add(process)
            return process

    def _give_back(self, process: _Process) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(process)

    def _drop(self, process: _Process) -> None:
        with self._lock:
            self._all.discard(process)
        process.kill()


class _Process:
    """
    The parent's side of a process. The process leads a session, so that its children can be killed with it.

    *was_idle* is True if the process has run earlier calls, and has not started the current one.
    """

    def __init__(self) -> None:
        import multiprocessing  # noqa: PLC0415  imported on use: most schedulers need no processes

        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far,), name="tickwheel-handler", daemon=True)
        self._process.start()
        self._leads_group = False
        self.was_idle = False
        far.close()

    def ask(self, request: bytes) -> None:
        while self._hear(_UP_S, _not_begun())[0] != _READY:
            pass  # drop messages of a thread that an earlier call has left
        try:
            with nullcontext() if len(request) <= _PIPE_BYTES else self._killed_after(_UP_S):
                self._pipe.send_bytes(request)
        except OSError:
            raise self._ended() from None

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        # Use this rarely: its thread costs more than most calls.
        limit = Timer(seconds, self.kill)
        limit.start()
        try:
            yield
        finally:
            limit.cancel()

    def answer(self, timeout_s: float | None, last: object) -> object:
        too_long = TimeoutError(f"it did not end within {timeout_s or math.inf:g} s, and its process was killed")
        kind, what = self._hear(_UP_S, _not_begun())
        while True:
            if kind == _BEGUN:
                self.was_idle = False
            elif kind == _DONE:
                return what
            elif kind == _FAILED:
                text, trace, place, is_final = what
                error = HandlerFailedError(text, is_whole=True, remote_traceback=trace, remote_place=place)
                if is_final:
                    raise FinalError from error
                raise error
            elif isinstance(last, Firing):  # a heartbeat
                last.progress(*what) if what else last.heartbeat()
            kind, what = self._hear(timeout_s, too_long)

    def _hear(self, wait_s: float | None, too_late: Exception) -> tuple[str, Any]:
        try:
            while not self._pipe.poll(None if wait_s is None else min(wait_s, SOCKET_S_MAX)):
                wait_s = (wait_s or 0.0) - SOCKET_S_MAX
                if wait_s <= 0:
                    raise too_late
            kind, what = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        self._leads_group = True  # before its first message
        return kind, what

    def leave(self) -> None:
        # processes that its calls have started may continue
        self._pipe.close()
        self._process.join(_LEAVE_S)
        if self._process.exitcode is None:
            self.kill()

    def kill(self) -> None:
        """
        Kill the process and its children, except children in sessions of their own. On Windows, children survive.
        """
        leads, self._leads_group = self._leads_group, False  # only once: the system may give its id to another process
        with suppress(ValueError):  # another thread has closed it
            if leads and hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(self._process.ident or 0, signal.SIGKILL)
            self._process.kill()
            self._process.join()

    def _ended(self) -> HandlerFailedError:
        self.kill()  # kills the children; the process itself already has its exit code
        code = self._process.exitcode
        how = f"was ended by {_signal(-code)}" if code is not None and code < 0 else f"ended with exit code {code}"
        return HandlerFailedError(f"its process {how}", is_whole=False)


@contextmanager
def _killed_by(firing: Firing, process: _Process) -> Iterator[None]:
    # Read here, because after the block the process may run another call.
    stopping = firing.stopping
    if stopping is None:
        yield
        return
    lock, is_over = Lock(), False

    def end() -> None:
        with lock:
            if not is_over:
                process.kill()

    stopping.expire = end
    try:
        if stopping.is_stopped:
            end()
        yield
    finally:
        with lock:
            is_over = True
            stopping.expire = None


def check_importable(name: str, function: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(function):
        raise InvalidJobError("handler", name, f"it is async: {_REMEDY}")
    if not inspect.isfunction(function):
        check_sendable(name, function)
        return
    if "<" in function.__qualname__:
        raise InvalidJobError("handler", name, f"{function.__qualname__} is defined inside another: {_REMEDY}")
    if function.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise InvalidJobError("handler", name, f"it was typed in, and is in no file: {_REMEDY}")


def check_sendable(name: str, function: Callable[..., Any]) -> None:
    # another process could not import such a handler by name
    try:
        pickle.dumps(function)
    except Exception as error:  # noqa: BLE001  pickling may raise anything
        raise InvalidJobError("handler", name, f"it cannot be sent to a process ({error}): {_REMEDY}") from None


def _request(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    return pickle.dumps((function, [_pack(each) if isinstance(each, Firing) else each for each in arguments]))


def _not_begun() -> HandlerFailedError:
    what = f"its process did not begin within {_UP_S:g} s, and was killed: let its modules do nothing long on import"
    return HandlerFailedError(what, is_whole=False)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _pack(firing: Firing) -> tuple[Any, ...]:
    return ("firing", firing.job, firing.attempt, firing.fired_at, firing.trace)


def _serve(pipe: Connection) -> None:
    if hasattr(os, "setsid"):
        os.setsid()
        # A process that a handler forks must not hold the pipe: the parent would not notice the end of this process.
        os.register_at_fork(after_in_child=pipe.close)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the scheduler, which then stops this process
    while True:
        try:
            pipe.send((_READY, None))
            function, packed = pipe.recv()
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # noqa: BLE001  the function may not be where it was
            pipe.send((_FAILED, (f"its process cannot load it: {error_text(error)}", None, None, False)))
            continue
        pipe.send((_BEGUN, None))
        try:
            result = function(*(_unpack(each, pipe) for each in packed))
        except BaseException as error:  # noqa: BLE001  even SystemExit ends only this attempt
            is_final = isinstance(error, FinalError)
            cause = (error.__cause__ if is_final else None) or error
            pipe.send((_FAILED, (error_text(cause), traceback_text(cause), place_of(cause), is_final)))
        else:
            pipe.send(_packed(result))


def _unpack(each: Any, pipe: Connection) -> Any:
    if not (isinstance(each, tuple) and each[0] == "firing"):  # a payload is JSON, which has no tuples
        return each
    _, job, attempt, fired_at, trace = each

    def beat(progress: Progress | None) -> bool:
        pipe.send((_BEAT, progress))
        return True  # when the attempt no longer counts, the parent kills this process

    return Firing(job, attempt, fired_at, beat, trace)


def _packed(result: object) -> tuple[str, object]:
    if not issubclass(type(result), DeadLetter | Snooze | Retry):
        return _DONE, None
    try:
        pickle.dumps(result)
    except Exception as error:  # noqa: BLE001  the reason may be anything
        return _FAILED, (f"its answer cannot be sent: {error_text(error)}", None, None, False)
    return _DONE, result
