"""
A node: a process that runs a real scheduler on a simulated machine. It is killed and started again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final

from simulation._day import LIMITED, LONG_EACH_S, QUEUE, RUNNING_MAX, WORKERS, needed_by
from simulation._equipment import EQUIPMENT, RULES, TARGET
from simulation._interleaver import Interleaver
from simulation._machine import SimulatedMachine
from simulation._scheduler import SimulatedScheduler
from simulation._store import How, Line, SimulatedStore, TripError
from simulation._worlds import World
from simulation.history import Answered, Called, Deployed, Ended, Fault, Fired, History, Returned
from tickwheel.errors import ClosedError
from tickwheel.jobs.checks import decode_payload
from tickwheel.jobs.errors import JobStoppedError, StoreError
from tickwheel.jobs.model import Answer, Job, State
from tickwheel.observe.events import FiringEvent, JobFired
from tickwheel.scheduler import DeadLetter, Firing, Retry, RetryPolicy, Schedule, Scheduler, SchedulerOptions, Snooze
from tickwheel.targets.log import LogTarget

__all__ = ["Node", "Surroundings", "planned"]

_S: Final = 10**9
STAGED_MAX: Final = 40
"""Maximum number of jobs that a node stages. The number is small, so that the jobs of one lane can use it up."""
_HUNG_S: Final = 1_000
RATE_PPM: Final = 100_000
"""Maximum rate error of a node's clock in millionths, compared with the server's clock: a tenth."""
_NOTICED_NS: Final = 90 * _S
"""Maximum time in ns until a node notices that its missing equipment is back."""
_LACKING: Final = 0.3
"""Probability that a node lacks a part of the equipment after a start."""
_SLICE_S: Final = 5
"""Interval in seconds at which a long handler checks whether it must stop."""
_EVERYWHERE: Final = ("work", "impatient", *LIMITED, "long", QUEUE)
_VERSIONS: Final = ("first", "second")
RETRY: Final = RetryPolicy(attempts=4, base_ms=5_000)


class HandlerFailedError(Exception):
    """
    The error of a handler that is planned to fail.
    """


class Surroundings:
    """
    The environment of all nodes of a run.

    `dice` draws the faults of the nodes, and `chance` is the nodes' own random source. `rates` draws the speed of a
    node's
    clock at each start. `lacking` draws the equipment that a node lacks.
    """

    def __init__(
        self,
        run: Interleaver,
        world: World,
        history: History,
        dice: random.Random,
        *,
        chance: random.Random,
        failing: tuple[int, How] | None,
        rates: random.Random | None = None,
        lacking: random.Random | None = None,
    ) -> None:
        self.run, self.world, self.history, self.dice, self.chance = run, world, history, dice, chance
        self.failing, self.rates, self.lacking = failing, rates, lacking
        self.calls_made: list[str] = []
        self.calls = 0
        self.snoozed: set[tuple[str, int]] = set()
        self.is_over = False
        """True once long runs are over."""


class Node:
    """
    One node, through all its restarts.

    A node that is a client has no handlers, and fires nothing.
    """

    def __init__(
        self, number: int, around: Surroundings, *, drift_ppm: int, start_ns: int, skew_ns: int, is_client: bool = False
    ) -> None:
        self._number = number
        self._is_client = is_client
        self.name = f"n{number}"
        self.line = Line()
        self._around = around
        self._clocks = (drift_ppm, start_ns)
        self.skew_ns = skew_ns
        self._lives = 0
        self._slow_ppm = 0
        self.machine: SimulatedMachine | None = None
        self.scheduler: Scheduler | None = None
        self._store: SimulatedStore | None = None

    @property
    def is_up(self) -> bool:
        """
        True if the node accepts requests.
        """
        return self.scheduler is not None and self.machine is not None and not self.machine.is_paused

    @property
    def version(self) -> str:
        """
        The handler of the node's version. At each start the node switches between two versions.
        """
        return _VERSIONS[(self._number + self._lives) % 2]

    def start(self) -> None:
        """
        Start the node.

        Its host name and process id are those of the previous process, as in a container restarted in place.
        """
        around = self._around
        self._lives += 1
        drift, start = self._clocks
        if around.rates is not None:
            drift = around.rates.randint(-RATE_PPM, RATE_PPM)
        self._slow_ppm = max(0, -drift)
        name = f"{self.name}.{self._lives}"
        self.machine = machine = SimulatedMachine(
            name, around.run, drift_ppm=drift, start_ns=start, skew_ns=self.skew_ns
        )
        self._store = SimulatedStore(
            around.world, machine, self.line, random.Random(around.dice.random()), (around.calls_made, around.failing)
        )
        if around.lacking is not None and not around.is_over and not self._is_client:
            machine.lacks = frozenset(each for each in EQUIPMENT if around.lacking.random() < _LACKING)
        self._deploy()
        options = SchedulerOptions(
            owner=f"{self.name}:1",
            horizon_s=10.0,
            workers=WORKERS,
            retry=RETRY,
            running_max=RUNNING_MAX,
            staged_max=STAGED_MAX,
        )
        around.run.spawn(f"{name} main", lambda: self._run(machine, options), machine)

    def _deploy(self) -> None:
        machine, around = self.machine, self._around
        assert machine is not None
        fading = tuple(sorted(machine.lost))
        around.history.add(Deployed(around.run.now_ns, machine.name, self._handlers(), fading, self._slow_ppm))

    def _handlers(self) -> tuple[str, ...]:
        if self._is_client or self.machine is None:
            return ()
        return (*_EVERYWHERE, self.version, *(each for each in EQUIPMENT if each not in self.machine.lacks))

    def has(self, key: str) -> bool:
        """
        Return True if the node has had the equipment for the job *key* since its last start.
        """
        return self.machine is not None and needed_by(key) not in self.machine.lacks

    def lose(self, name: str, length_ns: int) -> None:
        """
        Remove the equipment *name* from the node for *length_ns*.
        """
        machine, around = self.machine, self._around
        if machine is None or name in machine.lacks:
            return
        machine.lacks |= {name}
        machine.lost |= {name}
        self._deploy()
        around.run.sleep(length_ns)
        if self.machine is machine:
            machine.lacks -= {name}
            around.run.sleep(_NOTICED_NS)  # the node checks from time to time whether the part is back
        if self.machine is machine:
            self._deploy()

    def kill(self) -> None:
        """
        Kill the node. A killed node releases nothing.
        """
        machine, store = self.machine, self._store
        self.machine = self.scheduler = self._store = None
        if machine is not None and store is not None:
            machine.kill()
            store.crash()

    def stop(self, timeout_s: float = 30.0) -> None:
        """
        Stop the node cleanly.

        Return when the node has stopped, or after *timeout_s*.
        """
        machine, scheduler = self.machine, self.scheduler
        if machine is None or scheduler is None:
            self.kill()
            return
        self.scheduler = None
        task = self._around.run.spawn(f"{machine.name} stop", lambda: scheduler.stop(timeout_s), machine)
        while not task.is_done:
            self._around.run.sleep(_S)
        machine.kill()  # the process ends with all jobs that still run at the timeout
        if self.machine is machine:
            self.machine = self._store = None

    def step_wall(self, step_ns: int) -> None:
        """
        Step the time of day of the machine.
        """
        self.skew_ns += step_ns
        if self.machine is not None:
            self.machine.skew_ns = self.skew_ns

    def ask(self, verb: str, key: str, call: Callable[[Scheduler, int], Answer]) -> None:
        """
        Let a caller on this node make *call* in a separate task.
        """
        machine, scheduler, around = self.machine, self.scheduler, self._around
        assert machine is not None
        assert scheduler is not None
        around.calls += 1
        number = around.calls

        def ask() -> None:
            run, history = around.run, around.history
            history.add(Called(run.now_ns, number, machine.name, verb, key))
            try:
                answer = call(scheduler, number)
            except StoreError as error:
                outcome = "unknown" if error.is_unknown else "refused"
                history.add(Answered(run.now_ns, number, outcome, 0, 0))
            except (ClosedError, TripError):
                history.add(Answered(run.now_ns, number, "unknown", 0, 0))
            else:
                job = answer.job
                facts = (0, 0) if job is None else (job.generation, job.due_at)
                history.add(Answered(run.now_ns, number, answer.outcome.value, *facts))

        around.run.spawn(f"{machine.name} call {number}", ask, machine)

    def pause_scope(self, scope: str) -> None:
        """
        Let a caller on this node pause *scope* in a separate task.
        """
        machine, scheduler = self.machine, self.scheduler
        assert machine is not None
        assert scheduler is not None

        def pause() -> None:
            with suppress(StoreError, ClosedError, TripError):
                scheduler.pause_scope(scope)

        self._around.run.spawn(f"{machine.name} pauses {scope}", pause, machine)

    def _run(self, machine: SimulatedMachine, options: SchedulerOptions) -> None:
        run = self._around.run
        assert self._store is not None
        chance, sent = self._around.chance, LogTarget(lambda firing: self._sent(machine, firing))
        targets = {} if TARGET in machine.lacks else {TARGET: sent}
        scheduler = SimulatedScheduler(self._store, options, machine, chance, targets)
        self._register(scheduler, machine)
        scheduler.subscribe(lambda event: self._told(machine, event))
        while True:
            try:
                scheduler.get("nobody")  # a client first, which works even while another node owns everything
            except (StoreError, TripError):
                run.sleep(_S)
            else:
                break
        self.scheduler = scheduler
        self._declare(scheduler)
        if self._is_client or not _fails_to_start(scheduler):
            return
        store, is_lines = self._store, True  # later failures are the engine's, unless the line has lost the leases
        while True:
            store.has_lost_leases = False
            with self._starting_again() if is_lines else nullcontext():
                run.sleep(10 * _S)
            if self.scheduler is not scheduler or not _fails_to_start(scheduler):
                return
            is_lines = store.has_lost_leases

    @contextmanager
    def _starting_again(self) -> Iterator[None]:
        run, history, fault = self._around.run, self._around.history, f"start {self.name}"
        history.add(Fault(run.now_ns, fault))
        try:
            yield
        finally:
            history.add(Fault(run.now_ns, fault, is_over=True))

    def _declare(self, scheduler: Scheduler) -> None:
        """
        Set all recurring jobs again on this node, as a program does at its start.
        """
        try:
            jobs = scheduler.list(recurring=True, limit=1_000).jobs
        except (StoreError, ClosedError, TripError):
            return
        # Each job is declared in its own manifest, so that no declaration cancels another job.
        state = _set_again if self._lives % 2 else _declare_again
        for job in jobs:
            if not self.has(job.key):
                continue
            if state is _set_again or job.state is not State.DEAD:
                self.ask("set", job.key, partial(state, job))

    def _register(self, scheduler: Scheduler, machine: SimulatedMachine) -> None:
        run, history, world = self._around.run, self._around.history, self._around.world
        snoozed = self._around.snoozed

        def begin(payload: Any, firing: Firing) -> tuple[str, str, int, int]:
            name = (machine.name, firing.job.key, firing.job.generation, firing.attempt)
            history.add(Fired(run.now_ns, *name, firing.job.due_at, world.now_ms(), payload))
            return name

        def long(payload: Any, firing: Firing) -> None:
            name = begin(payload, firing)
            is_long = firing.job.due_at // (LONG_EACH_S * 1000) % 3 == 0
            end = run.now_ns + int(payload["takes"] * _S) * is_long
            while run.now_ns < end and not firing.cancelled and not self._around.is_over:
                run.sleep(_SLICE_S * _S)
            history.add(Returned(run.now_ns, *name, world.now_ms()))
            if firing.cancelled:
                raise JobStoppedError(firing.fire_id)

        def work(payload: Any, firing: Firing) -> object:
            begin(payload, firing)
            if takes := payload.get("takes"):
                run.sleep(int(takes * _S))
            if firing.cancelled:
                raise JobStoppedError(firing.fire_id)
            what = planned(payload, firing.attempt)
            if what == "hang":
                run.sleep(_HUNG_S * _S)
            if what == "snooze":  # a snooze does not count, so the next attempt has the same number
                life = (firing.job.key, firing.job.generation)
                what = "ok" if life in snoozed else "snooze"
                snoozed.add(life)
            return _act(what, firing)

        scheduler.handler("work")(work)
        scheduler.handler("impatient", timeout=20.0)(work)
        scheduler.handler("single", concurrency=1)(work)
        scheduler.handler("hung", timeout=60.0)(work)
        scheduler.handler("slow", concurrency=4)(work)
        scheduler.handler("wide", concurrency=2 * RUNNING_MAX, timeout=60.0)(work)
        scheduler.handler("long")(long)
        _register_as(scheduler, (self.version, *RULES), work)

    def _sent(self, machine: SimulatedMachine, firing: Firing) -> None:
        job, around = firing.job, self._around
        facts = (job.due_at, around.world.now_ms(), decode_payload(job.payload))
        around.history.add(Fired(around.run.now_ns, machine.name, job.key, job.generation, firing.attempt, *facts))

    def _told(self, machine: SimulatedMachine, event: object) -> None:
        if isinstance(event, FiringEvent) and not isinstance(event, JobFired):
            now, kind = self._around.run.now_ns, type(event).__name__
            self._around.history.add(Ended(now, machine.name, event.key, event.generation, event.attempt, kind))


def _register_as(scheduler: Scheduler, names: Sequence[str], handler: Callable[..., object]) -> None:
    for name in names:
        scheduler.handler(name)(handler)


def _set_again(job: Job, scheduler: Scheduler, _number: int) -> Answer:
    return scheduler.set(job.key, if_generation=job.generation, **_fields_of(job))


def _declare_again(job: Job, scheduler: Scheduler, _number: int) -> Answer:
    (found,) = scheduler.declare([Schedule(job.key, **_fields_of(job))], manifest=job.key).jobs
    return Answer(found.outcome, found.job)


def _fields_of(job: Job) -> dict[str, Any]:
    rule = json.loads(job.recurrence or "{}")
    fields: dict[str, Any] = {
        name: rule[name] for name in ("cron", "tz", "misfire", "overlap", "exclude") if name in rule
    }
    if "every_ms" in rule:
        fields["every"] = rule["every_ms"] / 1_000
    payload = decode_payload(job.payload)
    return fields | {"handler": job.handler, "target": job.target, "payload": payload, "retry": job.retry}


def planned(payload: Any, attempt: int) -> str:
    """
    Return the planned outcome of attempt number *attempt*.
    """
    plan: list[str] = payload.get("plan", [])
    return plan[attempt - 1] if attempt <= len(plan) else "ok"


def _act(what: str, firing: Firing) -> object:
    match what:
        case "fail":
            raise HandlerFailedError(firing.job.key)
        case "snooze":
            return Snooze(30.0)
        case "retry":
            return Retry(7.0, "once more")
        case "cancel":
            return DeadLetter("no more")
        case _:
            return None


def _fails_to_start(scheduler: Scheduler) -> bool:
    try:
        scheduler.start()
    except (StoreError, TripError):
        return True
    except ClosedError:  # the node was stopped during the call
        return False
    return False
