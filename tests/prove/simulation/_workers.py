"""
Workers that pull jobs.

They are separate processes, and lease attempts from one node after another. Answers are late or get lost, nodes forget
leases, jobs take longer than a shard's lease, and workers vanish.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from simulation._day import QUEUE
from simulation._interleaver import Interleaver
from simulation._machine import SimulatedMachine
from simulation._node import Node, Surroundings, planned
from simulation._store import TripError
from simulation._threads import Event
from simulation.history import Ended, Extended, Fired
from tickwheel.errors import ClosedError
from tickwheel.jobs.checks import decode_payload
from tickwheel.jobs.errors import LeaseEndedError, StoreError
from tickwheel.scheduler import Scheduler
from tickwheel.targets.pull import JobLease

__all__ = ["PullWorkers"]

_S: Final = 10**9
_COUNT: Final = 4
_LEASE_S: Final = 30.0
_SLICE_S: Final = 10
"""Interval in seconds at which a worker extends its lease."""
_WAIT_S: Final = 60.0
_PATIENCE_S: Final = 20
"""Seconds that a worker allows for an answer, beyond the wait that it has requested."""
_REPEATED: Final = 0.3
"""Share of the acknowledgements that are sent again, as after a lost answer."""


class PullWorkers:
    """
    The workers of one day.
    """

    def __init__(self, around: Surroundings, nodes: list[Node], dice: random.Random) -> None:
        self._around, self._nodes, self._dice = around, nodes, dice
        self._run: Interleaver = around.run
        self._is_over = False
        self._tasks = [self._run.spawn(f"worker {number}", self._work, None) for number in range(_COUNT)]

    def stop(self) -> None:
        """
        Stop requesting jobs. Return when the leased jobs have ended.
        """
        self._is_over = True
        while not all(task.is_done for task in self._tasks):
            self._run.sleep(_S)

    def _work(self) -> None:
        while not self._is_over:
            up = [node for node in self._nodes if node.is_up]
            if not (up and self._visit(self._dice.choice(up))):
                self._run.sleep(_S)

    def _visit(self, node: Node) -> bool:
        """
        Work on the jobs of *node*. Return True if there were any jobs.
        """
        machine, scheduler = node.machine, node.scheduler
        assert machine is not None
        assert scheduler is not None
        leases = self._ask(machine, partial(self._lease, machine, scheduler), _WAIT_S + _PATIENCE_S) or []
        for each in leases:
            self._serve(machine, scheduler, each)
        return bool(leases)

    def _serve(self, machine: SimulatedMachine, scheduler: Scheduler, lease: JobLease) -> None:
        """
        Work on a leased job as its payload says.

        Then acknowledge it, unless the lease is known to be lost.
        """
        payload = decode_payload(lease.job.payload)
        what = planned(payload, lease.attempt)
        if what == "hang":  # the worker never answers
            return
        end = self._run.now_ns + int(payload["takes"] * _S)
        while self._run.now_ns < end and not self._around.is_over:
            self._run.sleep(_SLICE_S * _S)
            if self._ask(machine, partial(self._extend, machine, scheduler, lease), _PATIENCE_S) is False:
                return
        for _ in range(1 + (self._dice.random() < _REPEATED)):
            self._ask(machine, partial(self._end, machine, scheduler, lease, what), _PATIENCE_S)

    def _ask(self, machine: SimulatedMachine, call: Callable[[], Any], patience_s: float) -> Any:
        """
        Return the answer of *machine* to *call*, or None after an error or a timeout.
        """
        if machine.is_dead:
            return None
        answers: list[Any] = []

        def ask() -> None:
            try:
                answers.append(call())
            except LeaseEndedError:
                answers.append(False)
            except (StoreError, ClosedError, TripError):
                answers.append(None)

        task = self._run.spawn(f"{machine.name} is asked", ask, machine)
        me = self._run.current
        if not task.is_done:
            task.joiners.append(me)
            self._run.wait(int(patience_s * _S))
            if me in task.joiners:
                task.joiners.remove(me)
        return answers[0] if answers else None

    # ---- what a node does for them ---------------------------------------------------------------------------------

    def _lease(self, machine: SimulatedMachine, scheduler: Scheduler) -> list[JobLease]:
        leases: list[JobLease] = _result(scheduler._core.pulls.lease(QUEUE, 2, _WAIT_S, _LEASE_S))
        for each in leases:
            name = (machine.name, each.job.key, each.job.generation, each.attempt)
            payload, now_ms = decode_payload(each.job.payload), self._around.world.now_ms()
            self._around.history.add(Fired(self._run.now_ns, *name, each.job.due_at, now_ms, payload))
        return leases

    def _extend(self, machine: SimulatedMachine, scheduler: Scheduler, lease: JobLease) -> bool:
        scheduler.extend(lease.fire_id, _LEASE_S)
        name = (machine.name, lease.job.key, lease.job.generation, lease.attempt)
        self._around.history.add(Extended(self._run.now_ns, *name))
        return True

    def _end(self, machine: SimulatedMachine, scheduler: Scheduler, lease: JobLease, what: str) -> None:
        pulls = scheduler._core.pulls
        if what == "ok":
            _result(pulls.ack(lease.fire_id))
        else:
            _result(pulls.nack(lease.fire_id, 7.0 if what == "retry" else None, what, is_dead=what == "cancel"))
        name = (machine.name, lease.job.key, lease.job.generation, lease.attempt)
        self._around.history.add(Ended(self._run.now_ns, *name, "Acknowledged"))


def _result(found: Future[Any]) -> Any:
    """
    Wait in simulated time for the result of *found*.
    """
    done = Event()
    found.add_done_callback(lambda _: done.set())
    done.wait()
    return found.result()
