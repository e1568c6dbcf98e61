from __future__ import annotations

import logging
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tickwheel.client.client import Client
from tickwheel.drivers import SteppedClock, TimerWheel
from tickwheel.drivers.late import LateDriver
from tickwheel.engine.elapsed import RelativeJobs
from tickwheel.engine.figures import Figures
from tickwheel.host.commits import elapsed_of, events_of, lives_of
from tickwheel.host.hooks import Hooks
from tickwheel.host.lifecycle import Lifecycle, one_life
from tickwheel.host.options import SchedulerOptions, owner_name
from tickwheel.host.pulls import Pulls
from tickwheel.host.registry import Registry
from tickwheel.host.runtime import Runtime
from tickwheel.host.standby import Standby, check_role
from tickwheel.host.store_clock import StoreClock
from tickwheel.host.writer import Reservation
from tickwheel.jobs.errors import StoreError, StoreInUseError, UnsupportedError
from tickwheel.jobs.explanation import Explanation
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.jobs.model import Answer, Job, Outcome, Pause, Write, scope_over
from tickwheel.observe.events import ScopePaused, ScopeResumed
from tickwheel.observe.tracing import Tracer
from tickwheel.scheduler._unstarted import Unstarted
from tickwheel.stores import Node, Store, make_store
from tickwheel.targets import Firing, Target

if TYPE_CHECKING:
    import asyncio

    from tickwheel.engine.engine import Engine
    from tickwheel.engine.resources import Resources

__all__ = ["Core"]

_log = logging.getLogger("tickwheel.scheduler")

MakeEngine: TypeAlias = "Callable[[Resources, Registry, Figures, asyncio.AbstractEventLoop | None], Engine]"

_LAST_COMMIT_S: Final = 0.05
"""Minimum time, in seconds, allowed for the last commit, even if the handlers have used up the timeout of `stop`."""


class Core:
    """
    The core that `Scheduler` and `AsyncScheduler` share. Schedulers for tests override `make_engine`.
    """

    def __init__(
        self,
        store: str | Store,
        options: SchedulerOptions,
        targets: Mapping[str, Target],
        runtime: Runtime,
        tracer: Tracer | None = None,
    ) -> None:
        self.runtime = runtime
        self._options = options
        self._tracer = tracer
        self._lifecycle = Lifecycle(runtime)
        self._standby = Standby(runtime)
        self._left: set[tuple[str, str]] = set()
        self._figures = Figures()
        self._engine: Engine | None = None
        self.make_engine: MakeEngine = _new_engine
        self._life = (0, "")
        self.hooks = Hooks(runtime)
        self.subscribe = self.hooks.subscribe
        self.registry = Registry(targets, options, runtime)
        self.registry.report_to(self.hooks.emit)
        self.handlers = self.registry.handlers
        self.pulls = Pulls(self.registry.pulls)
        made = make_store(store, runtime.clock) if isinstance(store, str) else store
        self.client = Client(
            made,
            StoreClock(runtime),
            self.registry,
            options,
            runtime,
            on_commit=self._committed,
            on_unknown=self._lost_sight,
            reserve=lambda writes, first: None if self._engine is None else self._engine.reserve(writes, first),
            on_scope=self._set_scope,
            knowing=lambda: None if self._engine is None else self._engine.withdrawals,
            tracer=tracer,
        )

        self._unstarted = Unstarted(self.client, runtime) if made.abilities.is_private else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        state = "opened before a fork" if self.client.opening.is_inherited else self._lifecycle
        return f"{self.client.store.url} {state}"

    @property
    def is_firing(self) -> bool:
        return self._lifecycle.is_started and not self.client.opening.is_inherited

    @property
    def engine(self) -> Engine | None:
        return self._engine

    @property
    def is_in_use(self) -> bool:
        opening = self.client.opening
        return opening.writer is not None and not opening.is_inherited

    @property
    def is_ready(self) -> bool:
        engine = self._engine
        return self.is_firing and engine is not None and engine.leases.is_answered()

    def start(self, loop: asyncio.AbstractEventLoop | None, role: str) -> None:
        check_role(role)
        self.client.opening.check_process()
        self.registry.warn_of_missing()
        start = partial(self._lifecycle.start, lambda: self._start(loop))
        try:
            start()
            if self._unstarted is not None:
                self._unstarted.end(is_started=True)
        except StoreInUseError:
            if role == "owner":
                raise
            self._standby.begin(start, self._warn_of_left)

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._engine is not None:  # Ctrl-C came just after the start
            return
        from tickwheel.engine.resources import Resources  # noqa: PLC0415  a client needs no engine

        client, runtime = self.client, self.runtime
        writer = client.opened()
        timers, pacer = self._wheels()
        resources = Resources(
            runtime,
            self._name(),
            client.store,
            writer,
            client.clock,
            RelativeJobs(client.clock, runtime),
            timers,
            pacer,
            self.hooks,
            self._options,
            self._tracer,
        )
        engine = self.make_engine(resources, self.registry, self._figures, loop)
        self._engine = engine  # from here on callers may commit
        try:
            engine.start()
        except BaseException:
            self._engine = None
            timers.close()
            pacer.close()
            raise

    def _warn_of_left(self) -> None:
        scopes = {pause.scope for pause in self.client.store.scopes()}
        for each in self.client.store.aside():
            name = (each.target, each.handler)
            if name in self._left or scope_over(*name, scopes) is not None or self.registry.lack_of(*name) is not None:
                continue
            self._left.add(name)
            _log.warning(
                "%d jobs of handler %r wait in %s: its owner cannot run them, and this process, which can, is on "
                "standby: register the same handlers in all processes on one file, or use a file for each program",
                each.count,
                each.handler,
                self.client.store.url,
            )

    def _wheels(self) -> tuple[TimerWheel, TimerWheel]:
        """
        Return the wheel of the jobs, and a second wheel for internal delays. The second wheel always runs in real time.
        """
        runtime = self.runtime
        if not isinstance(runtime.clock, SteppedClock):
            timers = runtime.timers(clock=runtime.clock)
            return timers, timers
        if self.client.clock.is_sampled:
            what = f"clock is {runtime.clock!r}, and {self.client.store.url} goes by the clock of its server"
            raise UnsupportedError(
                what, "leave clock= out, or test with memory:// or tickwheel.testing.InlineScheduler"
            )
        pacer = runtime.timers()
        return runtime.timers(clock=runtime.clock, driver=LateDriver(pacer.call_every)), pacer

    def _name(self) -> str:
        # All attempts to start use the same name, because an attempt without an answer may have succeeded. After a
        # fork, the child gets another name.
        pid = os.getpid()
        if self._life[0] != pid:
            self._life = (pid, one_life(owner_name(self._options), self.runtime.token))
        return self._life[1]

    def is_inside(self) -> bool:
        return self._engine is not None and self._engine.is_inside()

    def stop(self, timeout: float | None, *, is_inside: bool) -> list[Firing]:
        # In the child of a fork, the parent keeps its threads and leases. An ending interpreter cannot wait for
        # threads.
        if sys.is_finalizing() or self.client.opening.is_inherited:
            return []
        self._standby.end()
        if self._unstarted is not None:
            self._unstarted.end()
        deadline = None if timeout is None else self.runtime.monotonic() + timeout
        return self._lifecycle.stop(lambda: self._stop(deadline), timeout, is_inside=is_inside)

    def _stop(self, deadline: float | None) -> list[Firing]:
        engine = self._engine
        try:
            return [] if engine is None else engine.stop(deadline)
        finally:
            left = None if deadline is None else max(_LAST_COMMIT_S, deadline - self.runtime.monotonic())
            try:
                self.client.close(left, self._release)
            except Exception as error:  # noqa: BLE001 it is closed in any case, and the next owner recovers the jobs
                _log.warning("the store was not given back in order: %s", error)

    def _release(self) -> None:
        if self._engine is not None:
            self._engine.release()

    def _committed(self, writes: Sequence[Write], answers: list[Answer], reservation: Reservation | None) -> None:
        engine = self._engine
        if engine is not None:
            clock = self.client.clock
            elapsed, is_behind = elapsed_of(writes, answers, clock)
            if is_behind:  # a node that trusts its outdated clock would fire these early, or an hour late
                with suppress(StoreError):
                    self.client.sample()
                elapsed, _ = elapsed_of(writes, answers, clock)
            for clock_step, jobs in elapsed.items():
                engine.note_relative(jobs, clock_step)
            begun = () if reservation is None else reservation.begun
            if len(begun) < len(writes):
                engine.on_committed(*lives_of(answers, frozenset(begun)))
        elif self._unstarted is not None:
            self._unstarted.written(answers)
        _warn_of_dead(answers)
        if self.hooks.is_curious:
            for event in events_of(answers):
                self.hooks.emit(event)
        if reservation is not None:
            reservation.start(answers)

    def _lost_sight(self) -> None:
        # the prefetcher was not notified of the commit
        engine = self._engine
        if engine is not None:
            engine.rescan()

    def _set_scope(self, scope: str, by: str, pause: Pause | None) -> None:
        if self.hooks.is_active:
            self.hooks.emit(ScopeResumed(scope, by) if pause is None else ScopePaused(scope, by, pause.note))
        engine = self._engine
        if engine is not None:
            engine.pause_filter.refresh_pauses()

    def recent(self, after: int) -> list[FiringRecord]:
        engine = self._engine
        return self._figures.recent.after(after, lambda: () if engine is None else engine.running(), self._name())

    def advertise(self, url: str, secret: str) -> None:
        self._figures.service = {"url": url, "secret": secret}

    def stats(self, *, with_store: bool = True) -> dict[str, Any]:
        backlog = [] if self._engine is None else self._engine.backlog()
        return (self._store_stats(backlog) if with_store else {}) | self._process_stats(backlog)

    def _store_stats(self, backlog: Collection[Job]) -> dict[str, Any]:
        self.client.opened()
        store = self.client.store
        scopes = {pause.scope: {**asdict(pause), "count": 0} for pause in store.scopes()}
        lacking: list[dict[str, Any]] = []
        for each in store.aside():
            scope = scope_over(each.target, each.handler, scopes)
            if scope is None:
                lacking.append(asdict(each))
            else:
                scopes[scope]["count"] += each.count
        return {
            **store.count(),
            "paused": store.count_paused() + sum(each["count"] for each in scopes.values()),
            "paused_scopes": list(scopes.values()),
            "waiting_for_handler": lacking,
            "next_due_at": self._next_due_at(backlog),
            "shards_all": sum(not store.abilities.is_tail(shard.number) for shard in store.shards()),
        }

    def _process_stats(self, backlog: Iterable[Job]) -> dict[str, Any]:
        writer, engine, store = self.client.opened(), self._engine, self.client.store
        commits = writer.stats()
        number = max(1, commits.commits)
        leases = engine.leases.held if engine is not None else ()
        sizes = (
            engine.sizes() if engine is not None else dict.fromkeys(("staged", "in_memory", "waiting", "in_flight"), 0)
        )
        counts = dict(self._figures.counts)
        counts["fired"] += sizes["in_flight"]  # *counts* already has the ended firings
        is_tail = store.abilities.is_tail
        return {
            **counts,
            **sizes,
            "lateness": {**self._figures.lateness.figures(), "traces": self._figures.traces()},
            "by_target": self._figures.by_target(),
            "by_handler": self._figures.by_handler(),
            "targets": self.registry.figures(),
            "pull": self._queues(backlog),
            "leaked": [] if engine is None else engine.leaked(),
            "full_lanes": [] if engine is None else engine.full_lanes(),
            "lanes": [] if engine is None else [asdict(state) for state in engine.lanes()],
            "commits": commits.commits,
            "commit": {
                "writes": commits.writes,
                "mean_size": commits.writes / number,
                "mean_ms": commits.seconds * 1000 / number,
                "largest": commits.largest,
                "last_size": commits.last_size,
                "last_ms": commits.last_seconds * 1000,
                "retries": commits.retries,
                "failures": commits.failures,
                "waiting": writer.waiting,
                "times": writer.times.figures(),
                "sizes": [[1 << step, count] for step, count in enumerate(writer.sizes) if count],
            },
            "leases": None if engine is None else engine.leases.figures(),
            "wheel": None if engine is None else engine.wheel(),
            "owner": engine.name if engine is not None and leases else None,
            "epoch": max((lease.epoch for lease in leases), default=None),
            "shards": [lease.shard for lease in leases if not is_tail(lease.shard)],
            "tails": [lease.shard for lease in leases if is_tail(lease.shard)],
            "store": store.url,
            "loss_window": store.abilities.loss_window,
            "offset_ms": self.client.clock.offset_ms,
        }

    def explain(self, key: str) -> Explanation | None:
        from tickwheel.scheduler._explain import explain  # noqa: PLC0415  few programs ask

        return explain(self.client, self._engine, self.registry.lanes, key)

    def nodes(self) -> list[Node]:
        found, engine = self.client.nodes(), self._engine
        if engine is None:
            return found
        now = engine.heartbeat.figures()
        return [replace(each, figures=now) if each.owner == engine.name else each for each in found]

    def _queues(self, backlog: Iterable[Job]) -> dict[str, dict[str, int | None]]:
        queues: dict[str, dict[str, int | None]] = {
            name: {**each, "waiting": 0, "oldest_due_at": None} for name, each in self.registry.pulls.figures().items()
        }
        instants: defaultdict[str, list[int]] = defaultdict(list)
        for job in backlog:
            instants[job.handler].append(job.due_at)
        for name, due in instants.items():
            of_queue = queues.setdefault(name, {"ready": 0, "leased": 0, "workers": 0})
            of_queue |= {"waiting": len(due), "oldest_due_at": min(due)}
        return queues

    def _next_due_at(self, backlog: Collection[Job]) -> int | None:
        first, now = self.client.first_due(), self.client.clock.now_ms()
        if first is None or first.due_at > now or first.target != "pull":
            return None if first is None else first.due_at
        later = self.client.first_due(now + 1)
        waiting = () if self._engine is None else self._engine.waiting_except(backlog)
        return min((job.due_at for job in (*waiting, *((later,) if later else ()))), default=None)


def _warn_of_dead(answers: Sequence[Answer]) -> None:
    dead = Outcome.DEAD  # a local, because an enum look-up is slow
    for answer in answers:
        if answer.outcome is dead and answer.job is not None:
            _log.warning("%r is a dead letter: replay it, or set it with mode='restart'", answer.job.key)


def _new_engine(
    resources: Resources, registry: Registry, figures: Figures, loop: asyncio.AbstractEventLoop | None
) -> Engine:
    from tickwheel.engine.engine import Engine  # noqa: PLC0415  a client needs no engine

    return Engine(resources, registry, figures, loop)
