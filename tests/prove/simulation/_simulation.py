"""
One simulated day of a few nodes, from a seed.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from simulation._cluster import Cluster
from simulation._day import (
    FROM_AFAR,
    LOSS,
    Ask,
    Break,
    asks,
    breaks,
    crowd,
    equipped,
    from_afar,
    full_lanes,
    hangs,
    overlaps,
    pauses,
    pulls,
    races,
    scopes,
    series,
    server_steps,
    steers,
    storms,
    versions,
)
from simulation._equipment import equipment
from simulation._interleaver import Interleaver, TaskKilledError
from simulation._machine import SimulatedMachine
from simulation._node import Node, Surroundings
from simulation._one_file import OneFile
from simulation._store import How
from simulation._threads import Event, forget_threads
from simulation._timers import forget_timers
from simulation._workers import PullWorkers
from simulation._worlds import World
from simulation.history import Fault, Finished, History

__all__ = ["Plan", "simulate"]

_S: Final = 10**9
_RACES: Final = 3
_AFAR: Final = 12
_SCOPE: Final = "scope "
"""Prefix of the names of the faults that pause a scope."""
_EMPTIED_EACH: Final = 16
"""Period in days. On one day of each period the tables are emptied."""
_SERVER_STEPS: Final = (8, 4)
"""Period in days, and the day of each period on which the clock of a cluster's server is set."""
_PULLED: Final = (16, (8, 9))
"""Period in days, and the days of each period on which workers pull and callers change recurring jobs."""
_RATES: Final = (32, (20, 22, 24, 26))
"""Period in days, and the days of each period on which statements hang and clocks run too fast or too slow."""
_LACKS: Final = (32, (22, 26, 30))
"""Period in days, and the days of each period on which nodes lack a target, a zone or a kind of rule."""
_FULL_LANES: Final = (32, (18, 19))
"""
Period in days, and the days of each period on which lanes have far more jobs than a node has room for.
"""
_HANGING: Final = 0.05
"""Share of the calls on a bad line that hang, on days with hanging statements."""
_LONGEST_S: Final = 120.0
"""Timeout in seconds for stopping a node. It is longer than any job takes."""
_CALM_WEATHER: Final = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
_FOUL_WEATHER: Final = (0.0, 0.3, 0.0, 0.0, 0.0, 0.9)
_UNWINDING: Final = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The size of a simulation.

    Attributes:
        seed: Everything else is drawn from it; an even seed uses a cluster with leases, an odd seed a file.
        hours: Length of the day.
        asks: Number of requests.
        breaks: Number of faults.
        nodes: Number of nodes of a cluster.
        last_s: Seconds without faults at the end, in which the nodes can fire the remaining jobs.
        failing: The number of the store call that fails, from 1 on, and how it fails; None if none fails.
    """

    seed: int
    hours: float = 24.0
    asks: int = 400
    breaks: int = 40
    nodes: int = 3
    last_s: int = 7200
    failing: tuple[int, How] | None = None

    @property
    def is_cluster(self) -> bool:
        """
        True if the plan uses a database with leases, and False for a file.
        """
        return self.seed % 2 == 0

    @property
    def is_emptied(self) -> bool:
        """
        True if the tables are emptied in the middle of the day.
        """
        return self.seed % _EMPTIED_EACH == _EMPTIED_EACH - 2

    @property
    def steps_server(self) -> bool:
        """
        True if the clock of the cluster's server is set.
        """
        each, first = _SERVER_STEPS
        return self.seed % each == first

    @property
    def has_workers(self) -> bool:
        """
        True if workers pull, and callers change recurring jobs.
        """
        each, which = _PULLED
        return self.seed % each in which

    @property
    def has_rates(self) -> bool:
        """
        True if clocks run at different rates, and statements hang.
        """
        each, which = _RATES
        return self.seed % each in which

    @property
    def has_equipment(self) -> bool:
        """
        True if some jobs need equipment that some nodes lack.
        """
        each, which = _LACKS
        return self.seed % each in which

    @property
    def has_full_lanes(self) -> bool:
        each, which = _FULL_LANES
        return self.seed % each in which

    @property
    def shards(self) -> int:
        return self.nodes + 1 if self.is_cluster else 1


def simulate(plan: Plan) -> History:
    """
    Simulate the day, end all faults, let the remaining jobs fire, and return the history of events.
    """
    history = History()
    dice = random.Random(plan.seed)
    run = Interleaver(dice.getrandbits(64))
    chance = random.Random(dice.getrandbits(64))
    with (
        _on_one_core(),
        _silence(),
        _no_collection(),
        _folder() as folder,
        equipment() if plan.has_equipment else nullcontext(),
    ):
        day = _Day(plan, run, history, dice, chance=chance, folder=folder)
        try:
            day.pass_by()
        except TaskKilledError:
            pass
        finally:
            day.end()
            forget_timers()
            forget_threads()
    history.calls_made = day.calls_made
    for failure in run.failures:
        history.add(Fault(run.now_ns, f"the simulation failed: {failure}"))
    return history


@contextmanager
def _on_one_core() -> Iterator[None]:
    """
    Keep the threads on the current core, if the system allows it. This saves CPU time.
    """
    try:
        fields = Path("/proc/thread-self/stat").read_text("ascii").rpartition(")")[2].split()
        before = os.sched_getaffinity(0)
    except (OSError, AttributeError):  # not Linux
        yield
        return
    os.sched_setaffinity(0, {int(fields[36])})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """
    Collect no cyclic garbage until the day is over.
    """
    # Otherwise real threads would decide when garbage is collected, and a finalizer might switch tasks.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _silence() -> Iterator[None]:
    log = logging.getLogger("tickwheel")
    level = log.level
    log.setLevel(logging.CRITICAL)  # a store fails often here
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108 - nothing here has to survive
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


class _Day:
    def __init__(
        self,
        plan: Plan,
        run: Interleaver,
        history: History,
        dice: random.Random,
        *,
        chance: random.Random,
        folder: Path,
    ) -> None:
        self.plan, self.run, self.history, self.dice = plan, run, history, dice
        self.server = SimulatedMachine("server", run)
        inner = random.Random(dice.getrandbits(64))
        self.world: World = (
            Cluster(self.server, history, inner, shards=plan.shards, lease_s=60.0)
            if plan.is_cluster
            else OneFile(self.server, history, inner, folder / "jobs.db")
        )
        self._operator = self.world.connect(self.server, Event())
        fate = random.Random(dice.getrandbits(64))
        around = Surroundings(
            run,
            self.world,
            history,
            fate,
            chance=chance,
            failing=plan.failing,
            rates=random.Random(plan.seed) if plan.has_rates else None,
            lacking=random.Random(plan.seed) if plan.has_equipment else None,
        )
        self._around, self.calls_made = around, around.calls_made
        self.nodes = [self._node(number, around) for number in range(plan.nodes if plan.is_cluster else 2)]
        # A process that only sets jobs, far from the database and with a slow clock; it has no faults.
        self._afar = Node(plan.nodes, around, drift_ppm=-100, start_ns=10**12, skew_ns=-(10**11), is_client=True)

    def _node(self, number: int, around: Surroundings) -> Node:
        if not self.plan.is_cluster:  # a file has one machine with one clock
            return Node(number, around, drift_ppm=0, start_ns=0, skew_ns=0)
        dice = self.dice
        skew_ns = int(dice.choice((0.0, 0.05, 2.0, 300.0)) * dice.uniform(-1, 1) * _S)
        return Node(number, around, drift_ppm=dice.randint(-100, 100), start_ns=dice.randrange(10**15), skew_ns=skew_ns)

    def pass_by(self) -> None:
        """
        Let the day pass.
        """
        everybody = [*self.nodes, self._afar] if self.plan.is_cluster else self.nodes
        for node in everybody:
            node.start()
        length = self.plan.hours * 3600
        broken = list(breaks(self.dice, length, self.plan.breaks, is_cluster=self.plan.is_cluster))
        racing = races(self.dice, length, _RACES, broken)
        asked = [
            *series(self.dice),
            *asks(self.dice, length, self.plan.asks),
            *storms(self.dice, broken),
            *versions(self.dice, length, self.plan.asks // 6),
        ]
        paused, hanging = pauses(self.dice, asked), hangs(self.dice, length, racing, broken)
        events: list[Ask | Break] = [
            *asked,
            *paused,
            *racing,
            *hanging,
            *broken,
            *scopes(self.dice, length, self.plan.breaks // 2),
            *(from_afar(self.dice, length, _AFAR) if self.plan.is_cluster else ()),
            *([Break(length * 0.6, "emptied", 0.0)] if self.plan.is_emptied else ()),
            *overlaps(self.dice),
            *crowd(self.plan.seed, length),
            *([*pulls(self.plan.seed, broken), *steers(self.plan.seed, length)] if self.plan.has_workers else ()),
            *(equipped(self.plan.seed, length, self.plan.asks // 4) if self.plan.has_equipment else ()),
            *(server_steps(self.plan.seed, broken) if self.plan.steps_server else ()),
            *(self._full_lanes(length, [*racing, *hanging], broken) if self.plan.has_full_lanes else ()),
        ]
        workers = (
            PullWorkers(self._around, self.nodes, random.Random(self.plan.seed)) if self.plan.has_workers else None
        )
        for event in sorted(events, key=lambda each: each.at):
            self.run.sleep(int(event.at * _S) - self.run.now_ns)
            if isinstance(event, Break):
                self._break(event)
            else:
                self._ask(event)
        self.run.sleep(max(0, int(length * _S) - self.run.now_ns))
        self._around.is_over = True
        self._mend()
        self._wait()
        if workers is not None:
            workers.stop()
        self.history.add(Finished(self.run.now_ns, self.world.now_ms()))
        for node in everybody:
            node.stop(_LONGEST_S)
        running, _ = self._waiting()
        if running:
            self._note(f"after an orderly stop {running} jobs run", is_over=False)

    def _full_lanes(self, length: float, others: list[Ask], broken: list[Break]) -> list[Ask | Break]:
        owners = self.plan.nodes if self.plan.is_cluster else 1
        return full_lanes(self.plan.seed, length, others, broken, nodes=owners)

    def end(self) -> None:
        for node in (*self.nodes, self._afar):
            if node.machine is not None:
                node.machine.kill()
        for _ in range(_UNWINDING):  # so that the remaining tasks unwind, and requests in transit arrive
            if not self.run.alive():
                break
            self.run.revive()
            with suppress(TaskKilledError):
                self.run.sleep(60 * _S)
        else:
            self._note(f"the simulation failed: {self.run.alive()} tasks do not end")
        self.world.close()

    def _ask(self, ask: Ask) -> None:
        among = [self._afar] if ask.key.startswith(FROM_AFAR) else self.nodes
        up = [node for node in among if node.is_up and node.has(ask.key)]
        if up:
            self.dice.choice(up).ask(ask.verb, ask.key, ask.call)

    def _break(self, what: Break) -> None:
        if what.what.startswith(_SCOPE):
            self.run.spawn(what.what, partial(self._pause_scope, what.what.removeprefix(_SCOPE), what.length), None)
            return
        if what.what.startswith(LOSS):
            lose = partial(self.dice.choice(self.nodes).lose, what.what.removeprefix(LOSS), int(what.length * _S))
            self.run.spawn(what.what, lose, None)
            return
        others: dict[str, Callable[[], None]] = {
            "failover": partial(self._befall, "failover", self.world.fail_over),
            "emptied": partial(self._befall, "emptied", self.world.lose_all),
            "deploy": partial(self._roll, what),
            "server step": partial(self._step_server, int(what.amount * _S)),
        }
        for node in self.nodes if what.what == "foul" else [self.dice.choice(self.nodes)]:
            let_break = others.get(what.what, partial(self._let_break, what, node))
            self.run.spawn(f"{what.what} {node.name}", let_break, None)

    def _pause_scope(self, scope: str, length: float) -> None:
        """
        Let a node pause *scope*, and let a caller outside of all nodes resume it later.
        """
        up = [node for node in self.nodes if node.is_up]
        if up:
            self.dice.choice(up).pause_scope(scope)
        self.run.sleep(int(length * _S))
        self._resume(scope)

    def _resume(self, *scopes: str) -> None:
        self.run.atomic += 1
        for scope in scopes or [pause.scope for pause in self.world.read(self._operator, "scopes")]:
            self.world.set_scope(self._operator, scope, None, None)
        self.run.atomic -= 1

    def _befall(self, what: str, let_happen: Callable[[], None]) -> None:
        """
        Apply a fault that affects all nodes.
        """
        self._note(what)
        self.run.atomic += 1
        let_happen()
        self.run.atomic -= 1
        self._note(what, is_over=True)

    def _roll(self, what: Break) -> None:
        """
        Replace the version of all nodes, one node after the other, as a rolling deployment does.
        """
        for node in self.nodes:
            self._let_break(Break(what.at, "stop", 0.0), node)
            self.run.sleep(int(what.length * _S))

    def _let_break(self, what: Break, node: Node) -> None:
        if what.what == "step":
            self._step(node, int(what.amount * _S))
            return
        machine = node.machine
        if machine is None or machine.is_paused or node.line.is_cut or node.line.is_bad:
            return
        name = f"{what.what} {node.name}"
        self._note(name)
        match what.what:
            case "kill":
                node.kill()
                self.run.sleep(int(what.length * _S))
                if node.machine is None:
                    node.start()
            case "stop":
                node.stop()
                self.run.sleep(int(what.length * _S))
                if node.machine is None:
                    node.start()
            case "pause":
                machine.pause()
                self.run.sleep(int(what.length * _S))
                machine.resume()
            case "cut":
                node.line.is_cut = True
                self.run.sleep(int(what.length * _S))
                node.line.is_cut = False
            case "weather" | "foul":
                self._weather(node, is_foul=what.what == "foul")
                self.run.sleep(int(what.length * _S))
                self._clear(node)
        self._note(name, is_over=True)

    def _step(self, node: Node, step_ns: int) -> None:
        self._note(f"step {node.name} {step_ns}")
        if self.plan.is_cluster:
            node.step_wall(step_ns)
        else:
            self.server.skew_ns += step_ns
            for each in self.nodes:
                each.step_wall(step_ns)
        self._note(f"step {node.name} {step_ns}", is_over=True)

    def _step_server(self, step_ns: int) -> None:
        self._note(f"step server {step_ns}")
        self.server.skew_ns += step_ns
        self._note(f"step server {step_ns}", is_over=True)

    def _weather(self, node: Node, *, is_foul: bool) -> None:
        line, dice = node.line, self.dice
        line.slow, line.failing, line.failing_after = (dice.choice((0.0, 0.05, 0.3)) for _ in range(3))
        line.late = dice.choice((0.0, 0.1)) if self.plan.is_cluster else 0.0
        line.repeated, line.tripping = 0.2, 0.3
        if is_foul:
            line.slow, line.failing, line.failing_after, line.late, line.repeated, line.tripping = _FOUL_WEATHER
        line.hanging = _HANGING if self.plan.has_rates else 0.0
        line.is_bad = True

    def _clear(self, node: Node) -> None:
        line = node.line
        line.slow, line.failing, line.failing_after, line.late, line.repeated, line.tripping = _CALM_WEATHER
        line.hanging = 0.0
        line.is_bad = False

    def _mend(self) -> None:
        self._note("the end")
        for node in self.nodes:
            if node.machine is not None:
                node.machine.resume()
            node.line.is_cut = False
            self._clear(node)
            if node.machine is None:
                node.start()
        lacking = [node for node in self.nodes if node.machine is not None and node.machine.lacks]
        if not lacking and len({node.version for node in self.nodes}) == 1:
            lacking = self.nodes[:1]
        for node in lacking:
            self._let_break(Break(0.0, "stop", 0.0), node)
        if lacking and len({node.version for node in self.nodes}) == 1:
            self._let_break(Break(0.0, "stop", 0.0), self.nodes[0])
        self._note("the end", is_over=True)

    def _wait(self) -> None:
        """
        Wait until no job is overdue, or until the time is up.
        """
        for _ in range(self.plan.last_s // 60):
            self._resume()  # a pause may have been in transit before
            self.run.sleep(60 * _S)
            if not any(self._waiting()):
                return

    def _waiting(self) -> tuple[int, int]:
        self.run.atomic += 1
        try:
            return self.world.waiting()
        finally:
            self.run.atomic -= 1

    def _note(self, what: str, *, is_over: bool = False) -> None:
        self.history.add(Fault(self.run.now_ns, what, is_over))
