"""
The pull target: firings wait in a named queue for workers in any language.

    state      event                                      result
    pending    the job is due, and a worker asks          ready, and the attempt is counted
    ready      a worker takes the firing                  leased
               no worker asks during a second             pending, and the attempt does not count
               the job is moved, cancelled or replaced    dropped
    leased     the worker acknowledges the firing         done
               the worker reports a failure               retried, or dead
               the job is cancelled                       ended, and the worker is refused
               another node gets the shard                fired again there, and the worker is refused
               the lease ends                             failed: retried, or dead

A queue takes only as many firings as its waiting workers ask for. Other firings stay pending: they can be moved and
cancelled, and use no attempt. A lease exists only in the memory of the process that granted it; in the store the job is
running until it is settled. If that process ends, its leases end, and the jobs are fired again with the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from tickwheel.futures import Future
from tickwheel.jobs.errors import InvalidJobError, LeaseEndedError, TooManyWaitingError
from tickwheel.jobs.model import Answer, Outcome, Progress
from tickwheel.targets._endings import Endings
from tickwheel.targets._pull_queue import CallLater, JobLease, LeasedFiring, PullQueue, Served, Worker
from tickwheel.targets.contract import GIVE_BACK, Call, End, Firing, Limits, Snooze

__all__ = ["JobLease", "PullTarget"]

_GRACE_S: Final = 1.0
"""Seconds that a claimed job waits for a worker to ask for it. A worker that polls asks again within this time."""
_LEASED_MAX: Final = 5_000
"""Maximum number of leases: half of the maximum number of running jobs, so that other targets can also run jobs."""
_WAITING_MAX: Final = 1_000
"""Maximum number of waiting workers."""

_SUPERSEDED: Final = "the job was set again or cancelled meanwhile, and what it is now counts"
_TAKEN_OVER: Final = "another process has taken its shard over, and fires it again"
_CANCELLED: Final = "its job was cancelled while it was leased"
_OVERTAKEN: Final = "the next run of its job was due while it was leased"


class PullTarget:
    """
    The queues and their leases. All methods may be called from any thread; none blocks.
    """

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._queues: dict[str, PullQueue] = {}
        self._leases: dict[str, LeasedFiring] = {}
        self._endings = Endings()
        self._waiting = 0
        self._open: tuple[CallLater, CallLater, Callable[[], int], Callable[[str], object]] | None = None

    def __repr__(self) -> str:
        return f"<PullTarget, {len(self._leases)} leased>"

    def open(
        self,
        lease_timer: CallLater,
        wait_timer: CallLater,
        now_ms: Callable[[], int],
        on_demand: Callable[[str], object],
    ) -> None:
        """
        Start serving workers.

        *lease_timer* times leases by the scheduler's clock. *wait_timer* times the waits of workers in real time.
        *now_ms* returns the store's time. *on_demand* is called with a queue's name when a worker begins to wait for
        that queue.
        """
        self._open = lease_timer, wait_timer, now_ms, on_demand

    def shut(self) -> None:
        """
        End the wait of every worker, and forget all leases. The next owner recovers the leased jobs, which are running.
        """
        with self._lock:
            self._open = None
            workers = [worker for queue in self._queues.values() for worker in queue.workers]
            for fire_id in self._leases:
                self._endings.end(fire_id, "the scheduler stopped while it was leased, and it is fired again")
            self._leases.clear()
            self._queues.clear()
            self._waiting = 0
            served: Served = [(worker, [], []) for worker in workers if worker.found.set_running_or_notify_cancel()]
        _announce(served)

    # ---- the scheduler's side --------------------------------------------------------------------------------------

    def check(self, handler: str) -> None:
        if not handler:
            raise InvalidJobError("handler", handler, "name the queue that workers are to pull it from")

    def resolve(self, handler: str) -> Call:
        return Call(partial(self._hold, handler), is_held=True)

    def limits(self, handler: str) -> Limits:
        # the current leases, and the firings that waiting workers ask for
        return Limits(None, places=partial(self._places, handler))

    async def close(self) -> None: ...

    def _places(self, name: str) -> int:
        with self._lock:
            queue = self._queues.get(name)
            if queue is None:
                return 0
            room = max(0, _LEASED_MAX - len(self._leases))
            return queue.leased + min(room, sum(worker.limit for worker in queue.workers))

    def _hold(self, name: str, batch: Sequence[tuple[Firing, End]]) -> None:
        with self._lock:
            is_open = self._open
            if is_open is not None:
                queue = self._queues.setdefault(name, PullQueue())
                for firing, end in batch:
                    held = LeasedFiring(name, firing, end)
                    if firing.stopping is not None:
                        firing.stopping.expire = partial(self._stop, held)
                    held.timer = is_open[1](_GRACE_S, self._give_back, held)
                    queue.ready.append(held)
                served = self._serve(queue)
        if is_open is not None:
            _announce(served)

    def _give_back(self, held: LeasedFiring) -> None:
        with self._lock:
            was_ready = self._take_out(held)
        if was_ready:
            held.end(GIVE_BACK)

    def _stop(self, held: LeasedFiring) -> None:
        with self._lock:
            if self._leases.get(held.firing.fire_id) is held:
                self._drop(held)
                self._endings.end(held.firing.fire_id, _stopped(held) or _TAKEN_OVER)
            else:  # the firing was started for a worker that has left
                self._take_out(held)

    # ---- the workers' side -----------------------------------------------------------------------------------------

    def lease(self, name: str, limit: int, wait_s: float, seconds: float) -> Future[list[JobLease]]:
        """
        Return up to *limit* firings of queue *name*, each leased for *seconds*.

        Waits up to *wait_s* for the first firing. If the future is cancelled before it is done, other workers get the
        firings.

        Raises:
            LeaseEndedError: If this scheduler is not started.
            TooManyWaitingError: If too many workers wait already.
        """
        found: Future[list[JobLease]] = Future()
        worker = Worker(limit, seconds, found)
        with self._lock:
            if self._open is None:
                raise LeaseEndedError("", "this scheduler fires nothing: lease from the one that is started")
            if self._waiting >= _WAITING_MAX:
                raise TooManyWaitingError(_WAITING_MAX)
            _, wait_timer, _, on_demand = self._open
            queue = self._queues.setdefault(name, PullQueue())
            queue.workers.append(worker)
            self._waiting += 1
            served = self._serve(queue)
            if not served:
                worker.timer = wait_timer(max(0.0, wait_s), self._stop_waiting, name, worker)
        _announce(served)
        found.add_done_callback(lambda done: self._stop_waiting(name, worker) if done.cancelled() else None)
        if not served:
            on_demand(name)
        return found

    def settle(self, fire_id: str, result: object, error: BaseException | None = None) -> Future[None]:
        """
        End the lease of *fire_id* with the *result* or the *error* of a handler.

        The future is done when the result is written. A repeated call gets the answer of the first call. The future
        fails with `LeaseEndedError` if the lease has ended, or the job was set again.
        """
        what = "acknowledged"
        if error is not None or result is not None:
            what = "released" if isinstance(result, Snooze) else "refused"
        with self._lock:
            held = self._leases.get(fire_id)
            if held is None:
                return self._endings.repeated(fire_id, what)
            self._drop(held)
            done = self._endings.settle(fire_id, what)

        def written(answer: Answer | Exception) -> None:
            if isinstance(answer, Exception):
                end(None, answer)
            elif answer.outcome is Outcome.SETTLED:
                end(what)
            else:
                refuse(_TAKEN_OVER if answer.outcome is Outcome.NOT_OWNER else _SUPERSEDED)

        def refuse(became: str | None) -> None:
            end(became, LeaseEndedError(fire_id, became))

        def end(became: str | None, failed: Exception | None = None) -> None:
            with self._lock:
                self._endings.end(fire_id, became)
            if failed is None:
                done.set_result(None)
            else:
                done.set_exception(failed)

        if not held.end(result, error, written):  # the firing was asked to stop just before
            refuse(_stopped(held))
        return done

    def extend(self, fire_id: str, seconds: float, progress: Progress | None = None) -> int:
        """
        Extend the lease of *fire_id* to *seconds* from now, store *progress*, and return the new end in ms.

        Raises:
            LeaseEndedError: If the lease has ended.
        """
        with self._lock:
            held = self._leases.get(fire_id)
            if held is None or self._open is None:
                raise LeaseEndedError(fire_id, self._endings.became(fire_id))
            if progress is not None:
                held.end.note(progress)
            return self._lease(held, seconds)

    def _expire(self, held: LeasedFiring, seconds: float) -> None:
        with self._lock:
            if self._leases.get(held.firing.fire_id) is not held:
                return
            self._drop(held)
            self._endings.end(held.firing.fire_id, f"its time of {seconds:g} s was over, and it is fired again")
        held.end(None, TimeoutError(f"the lease of {seconds:g} s ended without an acknowledgement"))

    def _stop_waiting(self, name: str, worker: Worker) -> None:
        with self._lock:
            queue = self._queues.get(name)
            if queue is None or worker not in queue.workers:
                return
            queue.workers.remove(worker)
            self._waiting -= 1
            self._tidy(name, queue)
            served: Served = [(worker, [], [])] if worker.found.set_running_or_notify_cancel() else []
        _announce(served)

    def figures(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {
                name: {"ready": len(queue.ready), "leased": queue.leased, "workers": len(queue.workers)}
                for name, queue in self._queues.items()
            }

    # ---- under the lock --------------------------------------------------------------------------------------------

    def _serve(self, queue: PullQueue) -> Served:
        # reports of the returned leases must be called without the lock
        served: Served = []
        while queue.workers and self._start_first(queue):
            worker = queue.workers.popleft()
            self._waiting -= 1
            if worker.timer is not None:
                worker.timer.cancel()
            if worker.found.set_running_or_notify_cancel():
                granted: list[LeasedFiring] = []
                while len(granted) < worker.limit and self._start_first(queue):
                    granted.append(queue.ready.popleft())
                leases = [self._grant(queue, held, worker.seconds) for held in granted]
                served.append((worker, leases, [held.announce for held in granted if held.announce is not None]))
        return served

    def _start_first(self, queue: PullQueue) -> bool:
        """
        Start the first ready firing that may start, and drop the firings before it. Return False if none may start.
        """
        while queue.ready:
            held = queue.ready[0]
            held.announce = held.announce or held.end.start()
            if held.announce is not None:
                return True
            queue.ready.popleft()
            if held.timer is not None:
                held.timer.cancel()
        return False

    def _grant(self, queue: PullQueue, held: LeasedFiring, seconds: float) -> JobLease:
        queue.leased += 1
        self._leases[held.firing.fire_id] = held
        return JobLease(held.firing.job, held.firing.attempt, self._lease(held, seconds))

    def _lease(self, held: LeasedFiring, seconds: float) -> int:
        assert self._open is not None
        if held.timer is not None:
            held.timer.cancel()
        lease_timer, _, now_ms, _ = self._open
        held.timer = lease_timer(seconds, self._expire, held, seconds)
        return now_ms() + int(seconds * 1000)

    def _drop(self, held: LeasedFiring) -> None:
        del self._leases[held.firing.fire_id]
        if held.timer is not None:
            held.timer.cancel()
        queue = self._queues[held.queue]
        queue.leased -= 1
        self._tidy(held.queue, queue)

    def _take_out(self, held: LeasedFiring) -> bool:
        queue = self._queues.get(held.queue)
        if queue is None or held not in queue.ready:
            return False
        queue.ready.remove(held)
        if held.timer is not None:
            held.timer.cancel()
        self._tidy(held.queue, queue)
        return True

    def _tidy(self, name: str, queue: PullQueue) -> None:
        if queue.is_empty:
            self._queues.pop(name, None)


def _stopped(held: LeasedFiring) -> str | None:
    stopping = held.firing.stopping
    if stopping is None or not stopping.is_stopped:
        return None
    return _OVERTAKEN if stopping.overlap_cancelled else _CANCELLED


def _announce(served: Served) -> None:
    for worker, leases, reports in served:
        for announce in reports:
            announce()
        worker.found.set_result(leases)
