"""
Runs handlers of this process for jobs that a service fires. Each handler pulls from the queue of its name.

Leases are short and renewed while a firing runs, so a lease ends soon after the process dies. In such a handler, a
snooze counts as an attempt. After an attempt's timeout, its thread occupies a worker until the thread ends.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tickwheel.errors import ClosedError, InvalidDelayError
from tickwheel.host.options import SchedulerOptions, share_of
from tickwheel.jobs.errors import InvalidJobError, LeaseEndedError, MisfitError, StoreError, error_text, kept_text
from tickwheel.jobs.model import Progress
from tickwheel.loops import new_pool
from tickwheel.remote._loop import HandlerLoop
from tickwheel.remote._pulls import RemotePulls
from tickwheel.targets import DEFAULT, Abandoned, Call, DeadLetter, FinalError, Firing, Limits, Retry, Snooze
from tickwheel.targets.handler import HandlerTarget
from tickwheel.targets.misuse import misuse_of
from tickwheel.targets.pull import JobLease
from tickwheel.threads import Event, Lock, Semaphore, Thread

__all__ = ["Puller"]

_log = logging.getLogger("tickwheel.scheduler")

_WAIT_S: Final = 20.0
_LEASE_S: Final = 30.0
_BEAT_S: Final = _LEASE_S / 3
_PAUSE_S: Final = 1.0
"""Seconds between two requests to a service that does not answer."""
_MISFIT_S: Final = 30.0
"""Delay until a job is leased again after its payload did not fit the handler here."""
_AHEAD_S: Final = 0.1
"""Maximum time that a leased firing waits for its handler's rate limit."""

_INSIDE: ContextVar[Puller | None] = ContextVar("tickwheel_puller", default=None)
"""The puller whose handler is running in the current context: a thread, or a task of an event loop."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """
    A leased firing. It must stop when its lease ends, or when it has been started and its timeout is over (`late_at`).
    """

    lease: JobLease
    timeout_s: float
    late_at: float = math.inf
    is_late: bool = False
    progress: Progress | None = None
    is_stopped: bool = False
    overlap_cancelled: bool = False
    expire: Callable[[], object] | None = None

    @property
    def counts(self) -> bool:
        return not (self.is_late or self.is_stopped)

    def stop(self) -> None:
        self.is_stopped = True
        if self.expire is not None:
            with suppress(RuntimeError):  # the loop and the handler have ended
                self.expire()

    def begin(self, progress: Progress | None = None) -> bool:
        """
        Start or restart the timeout. The next renewal sends *progress*. Return True if the attempt is still valid.
        """
        self.progress = progress or self.progress
        self.late_at = time.monotonic() + self.timeout_s
        return self.counts


class _Pace:
    def __init__(self, rate: float | None) -> None:
        self._step_s = 0.0 if rate is None else 1 / rate
        self._next_at = -math.inf

    def most(self, places: int) -> int:
        return places if not self._step_s else min(places, 1 + int(_AHEAD_S / self._step_s))

    def wait_s(self) -> float:
        return max(0.0, self._next_at - time.monotonic())

    def begin(self) -> None:
        if wait_s := self.wait_s():
            time.sleep(wait_s)
        self._next_at = max(self._next_at, time.monotonic()) + self._step_s


class Puller:
    def __init__(
        self,
        pulls: RemotePulls,
        handlers: HandlerTarget,
        options: SchedulerOptions,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.pid = os.getpid()
        self._pulls = pulls
        self._handlers = handlers
        self._loop = HandlerLoop(loop)
        self._stopped = Event()
        self._ended = Event()
        self._lock = Lock()
        self._polls: dict[str, Future[list[JobLease]]] = {}
        self._running: dict[str, _Attempt] = {}
        self._leaked = 0
        self._hurry = Event()
        self._pool = new_pool(options.workers, "tickwheel-puller")
        self._beats = Thread(target=self._beat, name="tickwheel-beats", daemon=True)
        self._threads = []
        for name in handlers.names():
            call = handlers.resolve(name)
            limits = handlers.limits(name) or Limits()
            most = limits.concurrency
            width = share_of(options.workers) if most is DEFAULT else min(options.workers, most or options.workers)
            work = partial(self._pull, name, call, width, _Pace(limits.rate))
            self._threads.append(Thread(target=work, name=f"tickwheel-pull-{name}", daemon=True))
        try:
            for thread in (self._beats, *self._threads):
                thread.start()
        except BaseException:
            self._stopped.set()
            self._end_beats()
            raise

    def is_inside(self) -> bool:
        return _INSIDE.get() is self

    def stop(self, deadline: float | None) -> list[Firing]:
        self._stopped.set()
        self._hurry.set()
        with self._lock:
            polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        self._join(self._threads, deadline)
        while self._running and (deadline is None or time.monotonic() < deadline):
            time.sleep(0.005)
        self._end_beats()
        self._join([self._beats], deadline)  # the thread may be reporting a timeout
        left = [Firing(each.lease.job, each.lease.attempt, 0.0) for each in list(self._running.values())]
        self._handlers.end_processes()
        self._loop.close()
        self._pool.shutdown(wait=not (left or self._leaked), cancel_futures=True)
        return left

    @staticmethod
    def _join(threads: Iterable[Thread], deadline: float | None) -> None:
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _end_beats(self) -> None:
        self._ended.set()
        self._hurry.set()

    def _pull(self, name: str, call: Call, width: int, pace: _Pace) -> None:
        assert call.timeout_s is not DEFAULT  # each handler has a timeout
        timeout_s = math.inf if call.timeout_s is None else call.timeout_s
        places = Semaphore(width)
        while not self._stopped.is_set():
            places.acquire()
            limit = 1
            while places.acquire(blocking=False):
                limit += 1
            self._stopped.wait(pace.wait_s())
            leases = self._poll(name, pace.most(limit))
            for lease in leases:
                attempt = _Attempt(lease, timeout_s)
                with self._lock:
                    self._running[lease.fire_id] = attempt
                pace.begin()
                self._start(partial(self._run, call, attempt, places.release))
            if limit > len(leases):
                places.release(limit - len(leases))

    def _start(self, run: Callable[[], object]) -> None:
        while not self._ended.is_set():
            try:
                self._pool.submit(run)
            except RuntimeError as error:
                _log.warning("a worker could not be started, and is tried again: %s", error)
                run = int  # the call is in the queue: only start a thread for it
                self._ended.wait(_PAUSE_S)
            else:
                return

    def _poll(self, name: str, limit: int) -> list[JobLease]:
        try:
            with self._lock:
                if self._stopped.is_set():
                    return []
                poll = self._polls[name] = self._pulls.lease(name, limit, _WAIT_S, _LEASE_S)
            return poll.result()
        except (CancelledError, ClosedError):
            return []
        except Exception as error:  # noqa: BLE001  without this thread nothing would be pulled
            _log.warning("pulling for handler %r failed, and is tried again: %s", name, error)
            self._stopped.wait(_PAUSE_S)
            return []

    def _run(self, call: Call, attempt: _Attempt, leave: Callable[[], object]) -> None:
        _INSIDE.set(self)
        lease = attempt.lease
        attempt.begin()
        if attempt.timeout_s < _BEAT_S:
            self._hurry.set()
        try:
            answer = self._answer(call, attempt)
            with self._lock:
                attempt.late_at = math.inf
                is_in_time = attempt.counts
            if is_in_time:
                if attempt.progress is not None:  # the last note is sent with the outcome
                    with suppress(StoreError):  # a lost note is harmless
                        self._pulls.extend(lease.fire_id, _LEASE_S, attempt.progress).result()
                self._settle(lease, answer)
        except LeaseEndedError as error:
            _log.warning("%s", error)
        except Exception as error:  # noqa: BLE001  after any error the lease still ends in time
            _log.warning("the end of %r could not be reported, and it will be fired again: %s", lease.fire_id, error)
        finally:
            with self._lock:
                self._leaked -= attempt.is_late
                self._running.pop(lease.fire_id, None)
            leave()

    def _answer(self, call: Call, attempt: _Attempt) -> object:
        lease = attempt.lease
        firing = Firing(lease.job, lease.attempt, time.time() * 1000, attempt.begin, None, attempt)
        arguments = (lease.payload, firing) if call.wants_firing else (lease.payload,)
        try:
            result = call.function(*arguments)
            if inspect.isawaitable(result):
                result = self._awaited(result, attempt)
        except BaseException as error:  # noqa: BLE001  even SystemExit ends only this attempt
            return error
        return result

    def _awaited(self, result: Any, attempt: _Attempt) -> object:
        async def within() -> object:
            task = asyncio.ensure_future(result)
            attempt.expire = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
            try:
                if attempt.is_stopped:
                    task.cancel()
                while not task.done():
                    left_s = attempt.late_at - time.monotonic()
                    if left_s <= 0:
                        task.cancel()
                        await asyncio.wait({task})
                        message = f"it did not end within {attempt.timeout_s:g} s"
                        raise TimeoutError(message)
                    await asyncio.wait({task}, timeout=None if math.isinf(left_s) else left_s)
            finally:
                task.cancel()
            return task.result()

        return self._loop.result_of(within())

    def _settle(self, lease: JobLease, answer: object) -> None:
        if isinstance(answer, Abandoned):  # a stop has killed its process, and the lease ends
            return
        try:
            done = self._report(lease.fire_id, answer)
        except (InvalidDelayError, InvalidJobError, TypeError) as error:  # such as Snooze(nan)
            done = self._report(lease.fire_id, error)
        done.result()

    def _report(self, fire_id: str, answer: object) -> Future[None]:  # noqa: PLR0911 - one return for each answer
        if (misuse := misuse_of(answer)) is not None and not isinstance(answer, BaseException):
            return self._pulls.nack(fire_id, None, misuse, is_dead=False)
        match answer:
            case MisfitError():  # a node of another version may take it
                _log.warning("%r is given back: %s", fire_id, answer)
                return self._pulls.release(fire_id, _MISFIT_S)
            case FinalError():
                return self._pulls.nack(fire_id, None, error_text(answer.__cause__ or answer), is_dead=True)
            case BaseException():
                return self._pulls.nack(fire_id, None, error_text(answer), is_dead=False)
            case DeadLetter():
                return self._pulls.nack(fire_id, None, kept_text(answer.reason), is_dead=True)
            case Snooze():
                return self._pulls.release(fire_id, answer.delay)
            case Retry():
                return self._pulls.nack(fire_id, answer.after, kept_text(answer.reason), is_dead=False)
            case _:
                return self._pulls.ack(fire_id)

    def _beat(self) -> None:
        beat_at = time.monotonic() + _BEAT_S
        while not self._ended.is_set():  # during a stop it renews leases and checks timeouts
            soonest = min((each.late_at for each in list(self._running.values())), default=math.inf)
            self._hurry.wait(max(0.0, min(beat_at, soonest) - time.monotonic()))
            self._hurry.clear()
            now = time.monotonic()
            is_beat = now >= beat_at
            beat_at = now + _BEAT_S if is_beat else beat_at
            asked = [(each, self._ask(each, now, is_beat=is_beat)) for each in list(self._running.values())]
            for attempt, done in asked:
                try:
                    if done is not None:
                        done.result()
                except LeaseEndedError as error:
                    _log.warning("%s", error)
                    attempt.stop()
                except Exception as error:  # noqa: BLE001  without this thread all leases would end
                    what = "the lease of %r could not be extended or ended: %s"
                    _log.warning(what, attempt.lease.fire_id, error)

    def _ask(self, attempt: _Attempt, now: float, *, is_beat: bool) -> Future[Any] | None:
        fire_id = attempt.lease.fire_id
        try:
            if self._is_late(attempt, now):
                text = f"TimeoutError: it did not end within {attempt.timeout_s:g} s"
                return self._pulls.nack(fire_id, None, text, is_dead=False)
            if is_beat and not attempt.is_stopped:
                return self._pulls.extend(fire_id, _LEASE_S, attempt.progress)
        except Exception as error:  # noqa: BLE001  the future gets the error, as elsewhere
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed
        return None

    def _is_late(self, attempt: _Attempt, now: float) -> bool:
        with self._lock:
            if attempt.late_at > now:
                return False
            attempt.is_late = True
            self._leaked += 1
            self._running.pop(attempt.lease.fire_id, None)
            return True
