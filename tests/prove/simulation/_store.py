"""
The store of a simulated scheduler: a real store behind a bad line.

A call may be slow in either direction, fail before or after its effect, take effect long after its caller gave up, or
be answered twice. While the machine is cut off, every call fails. All effects are recorded in the history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

from simulation._interleaver import Interleaver
from simulation._machine import SimulatedMachine
from simulation._threads import Event
from simulation._worlds import World
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, JobQuery, Manifest, Page, Pause, Write
from tickwheel.jobs.rows import PLACE
from tickwheel.stores._reports import ahead_of
from tickwheel.stores.contract import Abilities, Aside, Cursor, LaneSet, Lease, Node, Scan, Shard, ShardScan, Skill

__all__ = ["Line", "SimulatedStore"]

_T = TypeVar("_T")
_MS: Final = 1_000_000
_LOST_AT_START: Final = 0.25


class How(StrEnum):
    """
    How a call fails: before it takes effect, afterwards, or afterwards with an unexpected error.
    """

    BEFORE = "before"
    AFTER = "after"
    TRIPPED = "tripped"


class TripError(Exception):
    """
    An unexpected error of a store, as from a driver that mishandles a lost connection.
    """


@dataclass(slots=True)
class Line:
    """
    The quality of one machine's network line.

    The numbers are shares of all calls, except `tripping`, which is a share of the failing calls.
    """

    slow: float = 0.0
    failing: float = 0.0
    failing_after: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    tripping: float = 0.0
    hanging: float = 0.0
    is_cut: bool = False
    is_bad: bool = False


class SimulatedStore:
    """
    The store as one machine sees it, over its bad network line.
    """

    def __init__(
        self,
        world: World,
        machine: SimulatedMachine,
        line: Line,
        dice: random.Random,
        watched: tuple[list[str], tuple[int, How] | None],
    ) -> None:
        """
        Connect *machine* with *world*.

        Args:
            world: The holder of the data.
            machine: The machine at this end of the line.
            line: The quality of the line; other code changes it during the day.
            dice: The source of the random numbers.
            watched: A list that gets the name of each call, and the number and kind of the planned failure, or None.
        """
        self._calls, failing = watched
        self._failing_call, self._how = failing or (0, How.BEFORE)
        self._world = world
        self._machine = machine
        self._run: Interleaver = machine.run
        self._line = line
        self._dice = dice
        self._heard = Event()
        self._has_acquired = False
        self.has_lost_leases = False
        """True if the answer that granted the first leases after a start was lost. The node resets it."""
        self._inner: Any = None  # a Connection, once it is open
        self.abilities: Abilities = world.abilities
        self.url = f"simulated://{machine.name}"

    # ---- the line --------------------------------------------------------------------------------------------------

    def _call(self, name: str, function: Callable[[], _T], *, can_repeat: bool = False) -> _T:
        line, dice = self._line, self._dice
        self._calls.append(name)
        if len(self._calls) == self._failing_call:
            self._fail_once(name, function)
        self._travel()
        if line.is_cut:
            self._give_up(name, is_unknown=False)
        roll = dice.random()
        if roll < line.failing:
            self._fail(name, is_unknown=dice.random() < 0.5)
        if roll < line.failing + line.late and not can_repeat:
            self._run.spawn("late", self._later(function), None)
            self._fail(name, is_unknown=True)
        if line.hanging and dice.random() < line.hanging:
            self._run.sleep(int(1e9 * self._hangs_s()))
            self._fail(name, is_unknown=True)
        result = self._at_once(function)
        if can_repeat and dice.random() < line.repeated:
            result = self._at_once(function)
        self._travel()
        if line.is_cut:
            self._give_up(name, is_unknown=True)
        if dice.random() < line.failing_after:
            self._fail(name, is_unknown=True)
        return result

    def _hangs_s(self) -> float:
        """
        Return how long a call with a hanging statement takes: until its deadline.
        """
        return 1 + 4 * self._dice.random()

    def _fail_once(self, name: str, function: Callable[[], object]) -> None:
        """
        Make the call *name* fail in the planned way, before or after its effect.
        """
        if self._how is not How.BEFORE:
            self._at_once(function)
        if self._how is How.TRIPPED:
            raise TripError(name)
        self._fail(name, is_unknown=self._how is How.AFTER)

    def _at_once(self, function: Callable[[], _T]) -> _T:
        run = self._run
        run.check()
        run.atomic += 1
        try:
            return function()
        finally:
            run.atomic -= 1

    def _later(self, function: Callable[[], object]) -> Callable[[], None]:
        """
        Return a function that runs *function* after the caller has given up.
        """
        wait_ns = int(self._dice.choice((0.01, 0.5, 5.0, 40.0)) * 1e9)

        def call() -> None:
            self._run.sleep(wait_ns)
            self._run.atomic += 1
            try:
                function()
            except StoreError:
                pass
            finally:
                self._run.atomic -= 1

        return call

    def _travel(self) -> None:
        roll = self._dice.random()
        if roll < self._line.slow:
            self._run.sleep(int(self._dice.choice((20, 200, 2_000, 15_000)) * _MS * self._dice.random()))
        elif roll < 0.3:  # almost a third of all calls take a noticeable time
            self._run.sleep(int(2 * _MS * self._dice.random()))

    def _fail(self, name: str, *, is_unknown: bool) -> None:
        what = f"{name} failed"
        if self._line.tripping and self._dice.random() < self._line.tripping:
            raise TripError(what)
        raise StoreError(what, "try again", is_transient=True, is_unknown=is_unknown and name == "apply")

    def _give_up(self, name: str, *, is_unknown: bool) -> None:
        self._run.sleep(int(1e9 * (1 + 4 * self._dice.random())))
        self._fail(name, is_unknown=is_unknown)

    # ---- the protocol ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        if self._inner is None:
            self._inner = self._at_once(lambda: self._world.connect(self._machine, self._heard))

    def close(self) -> None:
        self._heard.set()
        self._at_once(lambda: self._world.disconnect(self._inner))

    def crash(self) -> None:
        """
        Disconnect, as a killed process does.
        """
        if self._inner is not None:
            self._at_once(lambda: self._world.crash(self._inner))

    def now_ms(self) -> int:
        return self._call("now_ms", self._world.now_ms)

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        return self._call("apply", lambda: self._world.apply(self._inner, writes))

    def get(self, key: str) -> Job | None:
        found: Job | None = self._read("get", key)
        return found

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        return list(self._read("get_many", keys))

    def last_generation(self) -> int:
        return int(self._read("last_generation"))

    def page(self, query: JobQuery) -> Page:
        found: Page = self._read("page", query)
        return found

    def count(self) -> dict[str, int]:
        return dict(self._read("count"))

    def shard_of(self, key: str) -> int:
        return self._world.shard_of(key)

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        return list(self._read("due", shard, until, after, limit))

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        return dict(self._read("overdue", shards, until, limit))

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        """
        Read changes and due jobs in two queries, as PostgreSQL does. Any event may happen between them.
        """
        changed: list[tuple[list[Job], int]] = [([], cursor.mark or 0) for cursor in cursors]
        if with_changes:
            changed = self._call("changes", lambda: [self._world.changes(self._inner, each) for each in cursors])
        due = partial(self._world.read, self._inner, "due")
        ahead = self._call("look", lambda: [ahead_of(cursor, due, until, limit) for cursor in cursors])
        return [ShardScan.of(*found, jobs, until, limit) for found, jobs in zip(changed, ahead, strict=True)]

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        def found(cursor: Cursor) -> Scan:
            jobs = self._world.read(self._inner, "due", cursor.shard, until, cursor.after, rows)
            due = [job for job in jobs if lanes.has(job.target, job.handler) is inside][:limit]
            return Scan.of(due, limit, PLACE(jobs[-1]) if len(jobs) == rows else None)

        return self._call("scan", lambda: [found(cursor) for cursor in cursors])

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        return list(self._read("upcoming", since, until, limit))

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        return list(self._read("count_due", since, step_ms, steps))

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        return list(self._read("history", key, before, limit))

    def latest_dead(self, limit: int) -> list[Job]:
        return list(self._read("latest_dead", limit))

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        count: int = self._read("prune", since, per_key, total, limit)
        return count

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        self._call("add_records", lambda: self._world.read(self._inner, "add_records", records))

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        return list(self._read("acts", since, until, limit))

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        self._read("keep_minutes", minutes)

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        return list(self._read("minutes", since, until, span_ms))

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        self._read("forget_minutes", minutes_from, quarters_from)

    def take_up(
        self,
        shard: int,
        epoch: int,
        skills: Sequence[Skill],
        limit: int,
        unreadable: Sequence[str] = (),
        *,
        unfit: Sequence[int] = (),
    ) -> list[Job]:
        return self._call(
            "take_up",
            lambda: self._world.take_up(self._inner, shard, epoch, skills, limit, unreadable=unreadable, unfit=unfit),
        )

    def aside(self) -> list[Aside]:
        return list(self._read("aside"))

    def count_paused(self) -> int:
        return int(self._read("count_paused"))

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        was_paused: bool = self._call(
            "set_scope", lambda: self._world.set_scope(self._inner, scope, pause, record), can_repeat=True
        )
        return was_paused

    def scopes(self) -> list[Pause]:
        return list(self._read("scopes"))

    def manifests(self, name: str | None = None) -> list[Manifest]:
        return list(self._read("manifests", name))

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        return self._call(
            "request_withdrawal", lambda: self._world.request_withdrawal(self._inner, jobs), can_repeat=True
        )

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        return self._call(
            "withdrawal_requests", lambda: self._world.withdrawal_requests(self._inner, shards), can_repeat=False
        )

    def report_started(self, jobs: Sequence[Job]) -> None:
        self._call("report_started", lambda: self._world.report_started(self._inner, jobs), can_repeat=True)

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        return self._call("attempts", lambda: self._world.attempts(self._inner, jobs), can_repeat=False)

    def acquire(self, owner: str) -> list[Lease]:
        """
        Acquire shards. Sometimes the first answer after a start is lost.
        """
        leases = self._call("acquire", lambda: self._world.acquire(self._inner, owner), can_repeat=True)
        is_first, self._has_acquired = not self._has_acquired, True
        if is_first and self._dice.random() < _LOST_AT_START:
            self.has_lost_leases = True
            self._fail("acquire", is_unknown=True)
        return leases

    def renew(self, owner: str) -> list[Lease]:
        return self._call("renew", lambda: self._world.renew(self._inner, owner), can_repeat=True)

    def release(self, owner: str) -> None:
        self._call("release", lambda: self._world.release(self._inner, owner), can_repeat=True)

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        """
        Ignore the figures of a node, because no guarantee depends on them.
        """

    def nodes(self) -> list[Node]:
        """
        Return no nodes.
        """
        return []

    def shards(self) -> list[Shard]:
        return list(self._read("shards"))

    def wait_for_change(self, timeout_s: float) -> bool:
        was_heard = self._heard.wait(timeout_s)
        self._heard.clear()
        return was_heard

    def wake(self) -> None:
        self._heard.set()

    def _read(self, name: str, *arguments: Any) -> Any:
        return self._call(name, lambda: self._world.read(self._inner, name, *arguments), can_repeat=True)
