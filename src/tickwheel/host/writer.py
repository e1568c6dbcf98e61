"""
Group commit: one thread writes for all callers.

Writes that arrive during a commit share the next commit, and so one flush to the disk. There are three queues:

* Callers' writes. A limited number may wait.
* The scheduler's own writes (claims, settles). They go first and never wait for room, so that firing does not wait
  behind a bulk import.
* Small batches of the scheduler's own writes, so that one firing does not wait behind a burst.

If a store allows two writers, one thread writes for callers and another for the scheduler.

A write by the writer thread needs two switches of threads, which cost more than a commit. If a caller only waits for
its answer, and the writer is idle, the caller's thread therefore does the write, in an empty `contextvars` context. If
the last commit had several callers, more may follow, so the writer thread does the write.

In the same way, a worker thread with no other job acknowledges its last job, and commits claims together with the
acknowledgement: see `Writer.post_and_write`.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from tickwheel.errors import ClosedError
from tickwheel.host.promise import Promise
from tickwheel.host.referee import Done, UndecidedBatch, WithdrawalArbiter, has_late
from tickwheel.host.runtime import Runtime
from tickwheel.host.tally import WriterMetrics, WriterStats
from tickwheel.host.withdrawal_requests import RETRY_S
from tickwheel.jobs.errors import StoreError, StoreFullError
from tickwheel.jobs.model import Answer, Claim, Write
from tickwheel.stores.contract import Store

if TYPE_CHECKING:
    import threading

__all__ = ["FEW", "Done", "OnCommit", "Reservation", "Writer", "WriterStats"]

_Entry: TypeAlias = tuple[Sequence[Write], Done, bool]
"""The writes, the callback for their answers, and True if the writes are a caller's."""
_Queue: TypeAlias = deque[_Entry]

_LOG: Final = logging.getLogger("tickwheel.scheduler")
FEW: Final = 64
"""Batches of the scheduler's own writes up to this size overtake larger batches."""
_RETRY_FIRST_S: Final = 0.005
_RETRY_MAX_S: Final = 0.5


def _called(callback: Callable[..., object], *arguments: object) -> bool:
    try:
        callback(*arguments)
    except BaseException:  # noqa: BLE001  even SystemExit: without this thread nothing is written
        _LOG.exception("a callback of the store's writer raised")
        return False
    return True


class Reservation(Protocol):
    """
    Memory that is reserved for new jobs, so that one commit can create and claim them.

    *claim* is the write that claims the jobs. It must be the last write of the commit.
    """

    claim: Claim

    def answered(self, answer: Answer) -> None: ...

    def start(self, answers: Sequence[Answer]) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None:
        """
        End the reservation. If neither `start` nor `cancel` was called, the jobs are read from the store later.
        """

    @property
    def begun(self) -> Sequence[int]: ...


OnCommit: TypeAlias = Callable[[Sequence[Write], list[Answer], Reservation | None], object]
"""A callback that gets the callers' writes of a commit, the answers, and the places reserved for new jobs."""


class Writer:
    """
    Writes to a store in batches, from its own thread.

    All methods may be called from any thread. Methods that queue writes raise a `ClosedError` after the close. `submit`
    and `submit_many` wait up to *timeout_s* seconds for room (None: without a limit, 0: not at all). If there is no
    room in time, they raise a transient `StoreError`, and nothing is queued.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        batch_max: int = 1_000,
        waiting_max: int = 100_000,
        retry_s: float = RETRY_S,
        on_commit: OnCommit | None = None,
        on_unknown: Callable[[], None] | None = None,
        reserve: Callable[[Sequence[Write], int], Reservation | None] | None = None,
        referee: WithdrawalArbiter | None = None,
        tally: WriterMetrics | None = None,
    ) -> None:
        """
        Start the thread.

        The callbacks run on the committing thread: *reserve* before each commit of callers' writes, *on_commit* after
        the commit and before the answers, and *on_unknown* after a commit with an unknown outcome, before callers get
        the error. *batch_max* limits the callers' writes per commit, and also the scheduler's own writes. *waiting_max*
        limits the callers' waiting writes. Transient errors are retried for *retry_s* seconds. Writers may share the
        counters of *tally*.
        """
        self._store = store
        self._runtime = runtime
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._retry_s = retry_s
        self._on_commit = on_commit
        self._on_unknown = on_unknown
        self._reserve = reserve if store.abilities.claims_sets else None
        self._referee = referee
        self._lock = runtime.lock()
        self._own_work = runtime.condition(self._lock)
        is_shared = not store.abilities.has_many_writers
        self._callers_work = self._own_work if is_shared else runtime.condition(self._lock)
        self._room = runtime.condition(self._lock)
        self._closing = runtime.event()
        self._few: _Queue = deque()
        self._own: _Queue = deque()
        self._callers: _Queue = deque()
        self._waiting = 0
        self._gathering = 0
        """Number of threads in `post_and_write` that will write, or wake the writer's thread."""
        self._own_turn = runtime.lock()
        self._callers_turn = self._own_turn if is_shared else runtime.lock()
        """Held during a batch of callers' writes, so that they are applied in order."""
        self._is_crowded = False
        """True if several callers met in their last batch."""
        self._inside: set[threading.Thread] = set()
        """The threads of callers and workers that write, or are about to."""
        self._context = Context()
        self._own_context = Context()
        self._tally = tally or WriterMetrics(runtime)
        self.times = self._tally.times
        """Durations of commits, in ms."""
        self.sizes = self._tally.sizes
        """Histogram of writes per commit: up to 1, 2, 4, 8 and so on; each bucket begins above the previous one."""
        self._pid = os.getpid()
        self._own_queues = both = [self._few, self._own]
        self._own_rivals: list[_Queue] = [self._callers] if is_shared else []
        self._callers_queues = [*both, self._callers] if is_shared else [self._callers]
        callers = self._callers_work, self._callers_turn, self._callers_queues
        sources = [("-own", self._own_work, self._own_turn, both), ("-callers", *callers)]
        self._threads: list[threading.Thread] = []
        try:
            for name, *args in [("", *callers)] if is_shared else sources:
                thread = runtime.thread(target=self._run, args=args, name=f"tickwheel-writer{name}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    def submit(self, write: Write, timeout_s: float | None = None, *, waits: bool = False) -> Promise[Answer]:
        """
        Queue a caller's *write*. If *waits* is True, the caller waits for the answer, so its thread may do the write.
        """
        promise: Promise[Answer] = Promise(self._runtime)

        def done(result: list[Answer] | Exception) -> None:
            if isinstance(result, Exception):
                promise.set_exception(result)
            else:
                promise.set_result(result[0])

        self._queue_callers([((write,), done, True)], 1, timeout_s, waits=waits)
        return promise

    def submit_together(self, writes: Sequence[Write]) -> Promise[list[Answer]]:
        promise: Promise[list[Answer]] = Promise(self._runtime)
        self._queue_callers([(writes, partial(_keep, promise), True)], len(writes), None)
        return promise

    def submit_many(
        self, writes: Sequence[Write], timeout_s: float | None = None, *, waits: bool = False
    ) -> Promise[list[Answer]]:
        """
        Queue many *writes*, in order, in as few commits as `batch_max` allows; see `submit` for *waits*.

        Either all or none are queued. More than `waiting_max` writes are accepted when no other write waits. If one
        commit fails, the promise fails, although other commits may have taken effect.
        """
        promise: Promise[list[Answer]] = Promise(self._runtime)
        if not writes:
            promise.set_result([])
            return promise
        if len(writes) <= self._batch_max:
            self._queue_callers([(writes, partial(_keep, promise), True)], len(writes), timeout_s, waits=waits)
            return promise
        parts = [writes[i : i + self._batch_max] for i in range(0, len(writes), self._batch_max)]
        results: dict[int, list[Answer] | Exception] = {}
        answered = itertools.count(1)

        def done(number: int, result: list[Answer] | Exception) -> None:
            results[number] = result
            if next(answered) < len(parts):  # no race: undecided parts are answered later, by one other thread
                return
            in_order = [results[each] for each in range(len(parts))]
            if failures := [each for each in in_order if isinstance(each, Exception)]:
                promise.set_exception(failures[0])
            else:
                promise.set_result([answer for part in in_order if isinstance(part, list) for answer in part])

        entries: list[_Entry] = [(part, partial(done, number), True) for number, part in enumerate(parts)]
        self._queue_callers(entries, len(writes), timeout_s, waits=waits)
        return promise

    def post(self, writes: Sequence[Write], done: Done, *, in_turn: bool = False) -> None:
        """
        Queue *writes* of the scheduler itself, ahead of callers' writes, without waiting for room.

        The *writes* stay together in one commit. One call of *done* receives all answers, without a future, lock or
        wake-up. A small batch overtakes a large one, unless *in_turn* is True.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            (self._few if len(writes) <= FEW and not in_turn else self._own).append((writes, done, False))
            if not self._gathering:
                self._own_work.notify()

    def post_and_write(self, post: Callable[[], object]) -> None:
        """
        Call *post*. The batches that it queues share one commit. If the writer is idle, this thread writes them.

        Only for a thread of the scheduler that has no other work. The answers arrive in that thread.
        """
        with self._lock:
            self._gathering += 1
        try:
            post()
            self._write_own()
        finally:
            with self._lock:
                self._gathering -= 1
                if self._few or self._own:
                    self._own_work.notify()

    def resubmit(self, writes: Sequence[Write], done: Done) -> None:
        self._queue_callers([(writes, done, True)], len(writes), None)

    def stats(self) -> WriterStats:
        return self._tally.stats

    def is_inside(self) -> bool:
        """
        Return True on a thread that writes. Such a thread must not wait for an answer, because it would wait forever.
        """
        thread = self._runtime.current_thread()
        return thread in self._inside or thread in self._threads

    @property
    def waiting(self) -> int:
        return self._waiting

    def close(self, timeout_s: float | None = None) -> bool:
        """
        Refuse further writes, commit the waiting writes, and end the thread. May be called twice.

        Return True if everything was written within *timeout_s*. After that time, each remaining write is tried once.
        """
        with self._lock:
            self._closing.set()
            self._own_work.notify()
            self._callers_work.notify()
            self._room.notify_all()
        if self.is_inside() or self._pid != os.getpid():
            return False
        deadline = None if timeout_s is None else self._runtime.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - self._runtime.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _queue_callers(self, entries: list[_Entry], size: int, timeout_s: float | None, *, waits: bool = False) -> None:
        self._check_process()
        if waits and len(entries) == 1 and self._is_idle() and self._wrote_here(entries):
            return
        with self._lock:
            self._check_open()
            if not self._has_room(size):
                self._wait_for_room(size, timeout_s)
            self._waiting += size
            self._callers.extend(entries)
            self._callers_work.notify()

    def _is_idle(self) -> bool:
        return not (self._is_crowded or self._callers_turn.locked() or any(self._callers_queues))

    def _wrote_here(self, entries: list[_Entry]) -> bool:
        thread, was_written = self._runtime.current_thread(), False

        def write() -> None:
            nonlocal was_written
            try:
                self._inside.add(thread)  # first: a finalizer that runs from here on must not wait for this turn
                with self._callers_turn:
                    # The thread takes entries in its turn: earlier entries are written, or visible here.
                    if not (any(self._callers_queues) or self._closing.is_set() or sys.is_finalizing()):
                        was_written = True
                        self._context.run(self._write, entries, is_patient=False)
            except BaseException:  # for example, Ctrl-C: perhaps a commit was not announced
                if was_written and self._on_unknown is not None:
                    _called(self._on_unknown)
                raise
            finally:
                self._inside.discard(thread)

        self._runtime.ran_undisturbed(write)
        return was_written

    def _write_own(self) -> None:
        """
        Write the waiting batches of the scheduler in this thread, unless another thread is writing or a caller waits.
        """
        thread, entries = self._runtime.current_thread(), list[_Entry]()
        if any(self._own_rivals) or not self._own_turn.acquire(blocking=False):
            return
        try:
            self._inside.add(thread)
            if not (self._closing.is_set() or sys.is_finalizing()) and (entries := self._take(self._own_queues)):
                self._own_context.run(self._write, entries, is_patient=False)
        except BaseException:
            if entries and self._on_unknown is not None:
                _called(self._on_unknown)
            raise
        finally:
            self._own_turn.release()
            self._inside.discard(thread)

    def _has_room(self, size: int) -> bool:
        return not self._waiting or self._waiting + size <= self._waiting_max

    def _wait_for_room(self, size: int, timeout_s: float | None) -> None:
        if not self._room.wait_for(lambda: self._closing.is_set() or self._has_room(size), timeout_s):
            what = f"{self._waiting} writes wait for {self._store.url}, and {self._waiting_max} may"
            raise StoreError(what, "write more slowly, or find out why the store is slow", is_transient=True)
        self._check_open()

    def _check_open(self) -> None:
        if self._closing.is_set() or sys.is_finalizing():  # at exit, the writer's threads are frozen and cannot answer
            raise ClosedError("scheduler")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            what = f"{self._store.url} was opened before a fork"
            raise StoreError(what, "make a new scheduler in the child process")

    def _run(self, work: threading.Condition, turn: threading.Lock, queues: list[_Queue]) -> None:
        while True:
            with self._lock:
                work.wait_for(lambda: any(queues) or self._closing.is_set())
            with turn:
                entries = self._take(queues)  # none if another thread has written them
                if entries:
                    self._write(entries)
                elif self._closing.is_set():
                    return

    def _take(self, queues: list[_Queue]) -> list[_Entry]:
        with self._lock:
            entries: list[_Entry] = []
            for queue in queues:  # each has its own share of a commit, so that a flood of one leaves room for the other
                if not queue:
                    continue
                before = len(entries)
                size = _move_up_to(queue, entries, self._batch_max)
                if queue is self._callers:
                    self._is_crowded = len(entries) > before + 1
                    self._waiting -= size
                    self._room.notify_all()
            return entries

    def _put_back(self, entries: list[_Entry]) -> None:
        """
        Put *entries* back into the queue, ahead of later entries, because another thread could not write them.
        """
        with self._lock:
            for entry in reversed(entries):
                writes, _, is_callers = entry
                (self._callers if is_callers else self._few).appendleft(entry)
                self._waiting += len(writes) if is_callers else 0
            self._tally.retried()
            self._own_work.notify()
            self._callers_work.notify()

    def _write(self, entries: list[_Entry], *, is_patient: bool = True) -> None:
        writes = [write for entry in entries for write in entry[0]] if len(entries) > 1 else entries[0][0]
        first = 0  # the scheduler's own writes come before the callers'
        for part, _, is_callers in entries:
            if is_callers:
                break
            first += len(part)
        callers = writes[first:] if first else writes
        reservation = self._reserved(callers, first) if callers else None
        try:
            give_up = self._runtime.monotonic() + self._retry_s
            claim = None if reservation is None else reservation.claim
            try:
                answers = self._apply(writes, give_up, claim) if is_patient else self._attempt(writes, claim)
            except Exception as error:  # noqa: BLE001  any error belongs to the callers, and the thread continues
                if reservation is not None and isinstance(error, StoreError) and not error.is_unknown:
                    _called(reservation.cancel)
                if not is_patient and self._may_try_again(error, give_up):
                    self._put_back(entries)
                else:
                    self._fail(entries, len(writes), error, is_patient=is_patient)
                return
            if reservation is not None:
                reservation.answered(answers.pop())
            if callers:
                self._committed(callers, answers[first:] if first else answers, reservation)
        finally:
            if reservation is not None:
                _called(reservation.close)
        self._answer(entries, answers)

    def _reserved(self, writes: Sequence[Write], first: int) -> Reservation | None:
        if self._reserve is None:
            return None
        try:
            return self._reserve(writes, first)
        except BaseException:  # noqa: BLE001  as in `_called`
            _LOG.exception("a callback of the store's writer raised")
            return None

    def _answer(self, entries: list[_Entry], answers: list[Answer]) -> None:
        undecided: list[UndecidedBatch] = []
        may_be_undecided = entries[-1][2] and self._referee is not None and has_late(answers)
        start = 0
        for part, done, is_callers in entries:
            end = start + len(part)
            may_wait = may_be_undecided and is_callers
            waiting = UndecidedBatch.of(part, answers[start:end], done) if may_wait else None
            if waiting is None:
                _called(done, answers[start:end])
            else:
                undecided.append(waiting)
            start = end
        if undecided and self._referee is not None:
            _called(self._referee.decide, undecided, self._commit)

    def _committed(
        self, writes: Sequence[Write], answers: list[Answer], reservation: Reservation | None = None
    ) -> None:
        if (
            self._on_commit is not None
            and not _called(self._on_commit, writes, answers, reservation)
            and self._on_unknown is not None
        ):
            _called(self._on_unknown)  # the engine may not know these jobs

    def _commit(self, writes: Sequence[Write]) -> list[Answer]:
        try:
            answers = self._apply(writes, self._runtime.monotonic() + self._retry_s)
        except StoreError as error:
            self._unknown(error)
            raise
        self._committed(writes, answers)
        return answers

    def _unknown(self, error: Exception) -> None:
        if self._on_unknown is not None and isinstance(error, StoreError) and error.is_unknown:
            _called(self._on_unknown)

    def _fail(self, entries: list[_Entry], size: int, error: Exception, *, is_patient: bool) -> None:
        if len(entries) > 1 and not _may_pass_soon(error):
            # One write of this batch cannot be written. Halve the batch until that write is alone, so that all others
            # are written.
            middle = len(entries) // 2
            self._write(entries[:middle], is_patient=is_patient)
            self._write(entries[middle:], is_patient=is_patient)
            return
        self._tally.failed(size)
        self._unknown(error)
        for _, done, _ in entries:
            _called(done, error)

    def _apply(self, writes: Sequence[Write], give_up: float, claim: Claim | None = None) -> list[Answer]:
        wait_s = _RETRY_FIRST_S
        while True:
            try:
                return self._attempt(writes, claim)
            except StoreError as error:
                if not self._may_try_again(error, give_up - wait_s):
                    raise
            if self._closing.wait(wait_s):
                give_up = 0.0
            self._tally.retried()
            wait_s = min(wait_s * 2, _RETRY_MAX_S)

    def _attempt(self, writes: Sequence[Write], claim: Claim | None = None) -> list[Answer]:
        start = self._runtime.monotonic()
        try:
            answers = self._store.apply(writes if claim is None else [*writes, claim])
        except Exception:
            raise
        except BaseException as error:  # SystemExit, or a panic of native code: the thread and its callers continue
            what = f"{self._store.url} raised {error!r} while it wrote"
            raise StoreError(what, "look for that in the store, and ask what became of it", is_unknown=True) from error
        self._tally.committed(len(writes), self._runtime.monotonic() - start)
        return answers

    def _may_try_again(self, error: Exception, give_up: float) -> bool:
        is_undone = isinstance(error, StoreError) and _may_pass_soon(error) and not error.is_unknown
        return is_undone and self._runtime.monotonic() <= give_up


def _keep(promise: Promise[list[Answer]], result: list[Answer] | Exception) -> None:
    if isinstance(result, Exception):
        promise.set_exception(result)
    else:
        promise.set_result(result)


def _may_pass_soon(error: Exception) -> bool:
    if isinstance(error, StoreFullError):  # the store stays full, and cancels, which need no room, must not wait
        return False
    return isinstance(error, StoreError) and (error.is_transient or error.is_unknown)


def _move_up_to(source: _Queue, target: list[_Entry], size_max: int) -> int:
    size = 0
    while source and (size == 0 or size + len(source[0][0]) <= size_max):
        target.append(source.popleft())
        size += len(target[-1][0])
    return size
