"""
Engines and stores, each with one fault that the simulation must find.

Each function returns a context manager that introduces the fault and removes it at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from clock_mutants import (
    counts_delays_by_its_own_clock,
    follows_the_wall_clock,
    knows_clocks_a_thousandth_apart,
    sees_no_step,
    stops_until_the_clock_is_set,
    takes_a_rate_for_a_step,
    takes_a_retry_for_outdated,
    trusts_ends_of_a_later_clock,
)
from equipment_mutants import (
    ends_what_it_cannot_read,
    waits_for_a_statement_that_hangs,
)
from series_mutants import (
    begins_again_when_set,
    forgets_the_scheduled_due_time,
    lets_it_run_on,
    makes_up_for_nothing,
    skips_a_run,
)
from simulation import Plan, _cluster, _table
from simulation._cluster import Cluster
from simulation._table import Table

from tickwheel.engine import _claims, _lanes, _prefetch, _watcher, _workers
from tickwheel.engine._claims import ClaimBatcher
from tickwheel.engine._completion import Completer
from tickwheel.engine._dispatch import Dispatcher
from tickwheel.engine._prefetch import Prefetcher
from tickwheel.engine._shares import Shares
from tickwheel.engine._staged import StagedJobs
from tickwheel.engine._staged_job import Phase
from tickwheel.engine._staging import Loader, OverdueSweeper, PauseFilter
from tickwheel.engine.engine import Engine
from tickwheel.engine.resources import ThreadStarter
from tickwheel.host import store_clock as _storeclock
from tickwheel.host import writer
from tickwheel.host.hooks import Hooks
from tickwheel.host.registry import Registry
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import AttemptState
from tickwheel.scheduler import _core
from tickwheel.scheduler._core import Core
from tickwheel.stores import LaneSet

__all__ = ["MUTANTS", "ON_A_FILE", "RARE", "SLOWLY", "SOON", "TOGETHER", "WHOLE_DAYS"]

Mutant = Callable[[], AbstractContextManager[Any]]


def settles_without_epoch() -> Any:
    """
    Fault: the store accepts begin and settle operations with any epoch.
    """
    return mock.patch.object(Table, "is_fenced", return_value=False)


def cursor_from_now() -> Any:
    """
    Fault: after each read, the prefetcher moves its scan position beyond the horizon.
    """
    read_on = Prefetcher._read_on

    def careless(self: Any, shards: Any, until: int, *, has_changes: bool) -> Any:
        soonest = read_on(self, shards, until, has_changes=has_changes)
        for shard in shards.values():
            shard.cursor = (int(self._clock.now()) + self._horizon_ms + 1_000, _prefetch._LAST)
        return soonest

    return both(mock.patch.object(Prefetcher, "_read_on", careless), never_looks_back())


def knows_itself_by_host_and_pid() -> Any:
    """
    Fault: an owner's name consists only of host and process id, which a restart in place does not change.
    """
    return mock.patch.object(_core, "one_life", lambda name, _: name)


def is_somebody_else_at_each_start() -> Any:
    """
    Fault: each attempt to start uses a new owner name, so it does not recognise a lease of the attempt before.
    """
    start = Core._start

    def careless(self: Any, loop: Any) -> None:
        self._life = (0, "")
        start(self, loop)

    return mock.patch.object(Core, "_start", careless)


def drops_an_arm() -> Any:
    """
    Fault: one staged job in fifty gets no timer.
    """
    add = ClaimBatcher.add
    number = itertools.count(1)

    def careless(self: Any, entries: Any) -> None:
        add(self, [entry for entry in entries if next(number) % 50])

    return mock.patch.object(ClaimBatcher, "add", careless)


def fires_early() -> Any:
    """
    Fault: the engine's estimate of the store's clock is two milliseconds ahead.
    """
    clock = _storeclock.StoreClock
    now, earliest = clock.now, clock.earliest
    return both(
        mock.patch.object(clock, "now", lambda self: now(self) + 2.0),
        mock.patch.object(clock, "earliest", lambda self: earliest(self) + 2.0),
    )


def fires_twice() -> Any:
    """
    Fault: one firing in fifty is dispatched twice.
    """
    fire, start = Dispatcher.fire, StagedJobs.start
    number = itertools.count(1)

    def careless(self: Any, entries: Any) -> Any:
        fire(self, entries + [entry for entry in entries if next(number) % 50 == 0])

    def blind(self: Any, entry: Any) -> bool:
        return start(self, entry) or entry.phase is Phase.RUNNING

    return both(mock.patch.object(Dispatcher, "fire", careless), mock.patch.object(StagedJobs, "start", blind))


def forgets_the_rescue() -> Any:
    """
    Fault: attempts that a former owner left running are not recovered.
    """
    return mock.patch.object(_table, "rescued", lambda job: job)


def hears_nothing() -> Any:
    """
    Fault: the owner gets no notification of other processes' writes, and overdue jobs are not swept.
    """
    return both(mock.patch.object(Cluster, "changes", return_value=([], 0)), never_looks_back())


def takes_notes_unfenced() -> Any:
    """
    Fault: the store hands the notifications of a shard to any caller, even to an owner with an old epoch.
    """
    return mock.patch.object(Cluster, "_may_take", return_value=True)


def takes_a_standby_for_its_primary() -> Any:
    """
    Fault: a failover is not detected, so generations and epochs continue from the standby's sequences.
    """
    return mock.patch.object(Cluster, "_notices_failover", return_value=False)


def starts_over_when_emptied() -> Any:
    """
    Fault: a store whose tables were emptied initialises them again.

    Generations and epochs then begin at 1.
    """
    return mock.patch.object(Cluster, "_leaps_when_emptied", return_value=False)


def hands_over_what_runs() -> Any:
    """
    Fault: a shard is handed over together with its running jobs.
    """
    return mock.patch.object(Cluster, "_leave_tail")


def refuses_ends_in_a_tail() -> Any:
    """
    Fault: the acknowledgement of a job in a draining shard is rejected, as if its owner had lost the lease.
    """
    is_fenced = Table.is_fenced

    def careless(self: Any, write: Any) -> bool:
        return is_fenced(self, write) or self.place_of(write.job.key) >= _cluster._FIRST_TAIL

    return mock.patch.object(Table, "is_fenced", careless)


def begins_what_it_cannot_run() -> Any:
    """
    Fault: a node claims every job, even if it lacks the handler.
    """
    return mock.patch.object(Registry, "can_run", return_value=True)


def takes_nothing_up() -> Any:
    """
    Fault: if one node has marked a job as unroutable, no other node claims the job, so the job never runs.
    """
    return mock.patch.object(Loader, "take_up")


def never_looks_back() -> Any:
    """
    Fault: there is no regular sweep.

    So a job whose notification was lost is never found.
    """
    return both(mock.patch.object(OverdueSweeper, "sweep"), mock.patch.object(_watcher, "_NOTIFIED_S", 1e6))


def reads_the_scopes_once() -> Any:
    """
    Fault: an owner reads the paused scopes once, at its start.
    """
    return mock.patch.object(PauseFilter, "refresh_pauses", lambda self: setattr(self, "_paused", frozenset()))


@contextmanager
def both(*faults: AbstractContextManager[Any]) -> Iterator[None]:
    """
    Introduce several faults at once.
    """
    with ExitStack() as stack:
        for fault in faults:
            stack.enter_context(fault)
        yield


def answers_before_the_commit() -> Any:
    """
    Fault: a request to set a job is answered before it is committed.
    """
    fail = writer.Writer._fail

    def careless(self: Any, entries: Any, size: int, error: Exception) -> None:
        kept = [entry for entry in entries if not is_a_set(entry)]
        for entry in entries:
            if entry not in kept:
                entry[1]([invented(write) for write in entry[0]])
        if kept:
            fail(self, kept, size, error)

    return mock.patch.object(writer.Writer, "_fail", careless)


def is_a_set(entry: Any) -> bool:
    """
    Return True if *entry* sets a job, and a caller waits for its answer.
    """
    return all(type(write).__name__ == "Set" for write in entry[0])


def invented(write: Any) -> Any:
    """
    Return a false answer, which the store never gave.
    """
    from tickwheel.jobs.model import Answer, Outcome  # noqa: PLC0415 - here alone

    return Answer(Outcome.CREATED, write.job)


def settles_what_never_ran() -> Any:
    """
    Fault: one attempt in fifty is reported as a success, however it ended.
    """
    attempt = Dispatcher.attempt
    number = itertools.count(1)

    def careless(self: Any, entry: Any, now: Any = None) -> Any:
        if next(number) % 50:
            return attempt(self, entry, now)
        self._completer.add(entry, self._judge(entry, self._clock.monotonic(), None))
        return False

    return mock.patch.object(Dispatcher, "attempt", careless)


def ends_with_its_thread() -> Any:
    """
    Fault: an unexpected error of the store ends the thread that made the call.
    """
    failed = Hooks.failed

    def careless(self: Any, action: str, error: Exception) -> None:
        if not isinstance(error, StoreError):
            raise error
        failed(self, action, error)

    return mock.patch.object(Hooks, "failed", careless)


def takes_a_thread_for_started() -> Any:
    """
    Fault: a thread counts as started even if the system refused to start it.
    """
    start = ThreadStarter.start

    def careless(self: Any, *args: Any) -> bool:
        start(self, *args)
        return True

    return mock.patch.multiple(ThreadStarter, start=careless, _retry=lambda *_: None)


def loses_an_end() -> Any:
    """
    Fault: one acknowledgement in fifty is never written.
    """
    post = Completer._post
    number = itertools.count(1)

    def careless(self: Any, batch: Any) -> None:
        kept = [each for each in batch if next(number) % 50]
        if kept:
            post(self, kept)
        else:
            self._batcher_of(batch[0]).go_on()

    return mock.patch.object(Completer, "_post", careless)


def gives_back_twice() -> Any:
    """
    Fault: if a withdrawal is requested again, an attempt that was already withdrawn is withdrawn a second time.
    """
    withdraw = StagedJobs.withdraw

    def careless(self: Any, job: Any, *, is_current: bool) -> Any:
        found = withdraw(self, job, is_current=is_current)
        return found and (*found[:2], found[1] is AttemptState.WITHDRAWN)

    return mock.patch.object(StagedJobs, "withdraw", careless)


def says_cancelled() -> Any:
    """
    Fault: if a running job is cancelled, the store answers "cancelled" and removes the job.
    """
    from tickwheel.jobs import rules as _rules  # noqa: PLC0415 - here alone

    real = _rules._cancel

    def careless(write: Any, job: Any) -> Any:
        answer, after = real(write, job)
        if answer.outcome == "too_late":
            return type(answer)(type(answer.outcome).CANCELLED, job), None
        return answer, after

    return mock.patch.object(_rules, "_cancel", careless)


def tries_again_what_was_stopped() -> Any:
    """
    Fault: a running job that was asked to stop is retried if its node dies or its attempt fails.
    """
    from tickwheel.jobs import rules as _rules  # noqa: PLC0415 - here alone

    real = _rules._cancel

    def careless(write: Any, job: Any) -> Any:
        answer, after = real(write, job)
        return answer, job if answer.outcome == "stopping" and after is not None else after

    return mock.patch.object(_rules, "_cancel", careless)


def has_no_bulkhead() -> Any:
    """
    Fault: one handler may occupy all workers, and there are no spare workers for other handlers.
    """
    return both(
        mock.patch.object(_workers, "share_of", lambda places: places),
        mock.patch.object(_workers, "loan_of", return_value=0),
        mock.patch.object(_lanes, "share_of", lambda places: places),
        mock.patch.object(_lanes.Lanes, "_has_share", return_value=True),
        mock.patch.object(_claims, "loan_of", return_value=0),
    )


def has_no_shares() -> Any:
    """
    Fault: the jobs of one handler may take all the room for staged jobs.
    """
    return both(
        mock.patch.object(StagedJobs, "is_full", return_value=False),
        mock.patch.object(Shares, "crowds", return_value=False),
    )


def lends_nothing() -> Any:
    """
    Fault: there are no spare workers for a lane that has no running job.
    """
    return both(*(mock.patch.object(where, "loan_of", return_value=0) for where in (_workers, _lanes, _claims)))


def forgets_the_position_of_a_lane() -> Any:
    """
    Fault: after a takeover, the scan of a full lane starts at a wrong position, so that it misses waiting jobs.
    """
    own = Prefetcher.own

    def careless(self: Any, leases: Any) -> None:
        own(self, leases)
        end = _prefetch._end(int(self._clock.now()) + self._horizon_ms)
        for shard in self._shards.values():
            for lane in self._shares.lanes:
                shard.lanes.setdefault(lane, end)

    return both(mock.patch.object(Prefetcher, "own", careless), looks_past_a_lane())


def looks_past_a_lane() -> Any:
    """
    Fault: a full lane is never scanned from the beginning, only from its scan position.
    """
    look = OverdueSweeper.sweep

    def careless(self: Any, epochs: Any, crowded: LaneSet | None = None) -> None:
        lanes = crowded or LaneSet()
        look(self, epochs, replace(lanes, names=[*lanes.names, "handler:slow"]))

    return both(mock.patch.object(OverdueSweeper, "sweep", careless), mock.patch.object(_prefetch, "_SWEEP_S", 1e6))


def keeps_what_is_leased() -> Any:
    """
    Fault: an owner that has lost a shard keeps the leases of jobs that it gave to workers.
    """
    return mock.patch.object(Engine, "_let_go")


RARE = {
    "gives_back_twice": 10,
    "starts_over_when_emptied": 14,
    "keeps_what_is_leased": 8,
    "forgets_the_scheduled_due_time": 8,
    "knows_clocks_a_thousandth_apart": 24,
    "takes_a_rate_for_a_step": 24,
    "ends_what_it_cannot_read": 30,
    "waits_for_a_statement_that_hangs": 26,
    "lends_nothing": 19,
    "forgets_the_position_of_a_lane": 18,
}
"""For the rare faults, the seed of the first day on which the fault can show."""

WHOLE_DAYS = {
    "stops_until_the_clock_is_set": Plan(3, asks=1_600, breaks=80),
    "trusts_ends_of_a_later_clock": Plan(4),
    "takes_a_retry_for_outdated": Plan(4),
}
"""
For the faults that need a whole day, the first day that can show the fault.
"""

AT_ONCE = {
    "cursor_from_now": Plan(0, 0.25, 20, 4, last_s=900),
    "forgets_the_rescue": Plan(4, 0.25, 20, 8, last_s=900),
    "gives_back_twice": Plan(10, 0.25, 20, 8, last_s=900),
    "is_somebody_else_at_each_start": Plan(3, 0.25, 20, 8, last_s=900),
    "loses_an_end": Plan(0, 0.25, 20, 4, last_s=900),
    "never_looks_back": Plan(4, 0.25, 20, 4, last_s=900),
    "refuses_ends_in_a_tail": Plan(10, 0.25, 20, 8, last_s=900),
}
"""
For some faults, the plan of a quarter of an hour that shows the fault.
"""

SOON = {
    "settles_without_epoch": 0,
    "drops_an_arm": 0,
    "forgets_the_rescue": 2,
    "hears_nothing": 6,
    "fires_twice": 4,
    "is_somebody_else_at_each_start": 1,
    "starts_over_when_emptied": 14,
    "hands_over_what_runs": 14,
    "refuses_ends_in_a_tail": 4,
    "takes_nothing_up": 6,
    "keeps_what_is_leased": 56,
    "never_looks_back": 4,
    "answers_before_the_commit": 4,
    "forgets_the_scheduled_due_time": 8,
    "takes_a_thread_for_started": 32,
    "starts_what_is_queued": 2,
    "gives_back_twice": 26,
    "takes_notes_unfenced": 50,
    "tries_again_what_was_stopped": 1,
    "takes_a_retry_for_outdated": 36,
    "trusts_ends_of_a_later_clock": 28,
    "follows_the_wall_clock": 1,
    "sees_no_step": 1,
    "has_no_bulkhead": 1,
    "has_no_shares": 1,
    "counts_delays_by_its_own_clock": 20,
    "knows_clocks_a_thousandth_apart": 24,
    "takes_a_rate_for_a_step": 24,
    "ends_what_it_cannot_read": 30,
    "waits_for_a_statement_that_hangs": 26,
    "lends_nothing": 19,
}
"""
For some faults, the seed of an hour that shows the fault. For the others it is 0.
"""

SLOWLY = {"knows_itself_by_host_and_pid": 0, "forgets_the_position_of_a_lane": 18}
"""For some faults, the seed of two hours that show the fault."""

ON_A_FILE = {
    "sees_no_step",
    "follows_the_wall_clock",
    "is_somebody_else_at_each_start",
    "has_no_bulkhead",
    "has_no_shares",
}
"""
Faults that show with a store in a file.
"""


TOGETHER = (
    (Plan(10, 0.25, 20, 8, last_s=900), ("refuses_ends_in_a_tail", "forgets_the_rescue")),
    (Plan(18, 0.25, 20, 8, last_s=900), ("hands_over_what_runs",)),
    (Plan(14, 1.0, 40, 8, last_s=900), ("starts_over_when_emptied", "loses_an_end")),
    (Plan(56, 1.0, 40, 8), ("keeps_what_is_leased",)),
    (Plan(40, 1.0, 40, 8), ("forgets_the_scheduled_due_time",)),
    (Plan(2, 1.0, 40, 8), ("starts_what_is_queued", "lets_it_run_on")),
    (Plan(0, 1.0, 40, 8, last_s=900), ("ends_with_its_thread",)),
    (Plan(32, 1.0, 40, 8, last_s=900), ("takes_a_thread_for_started",)),
    (Plan(5, 1.0, 40, 8), ("follows_the_wall_clock", "tries_again_what_was_stopped", "has_no_bulkhead")),
    (
        Plan(24, 1.0, 40, 8),
        ("knows_clocks_a_thousandth_apart", "takes_a_rate_for_a_step", "counts_delays_by_its_own_clock"),
    ),
    (
        Plan(0, 1.0, 40, 8, last_s=900),
        (
            "settles_without_epoch",
            "drops_an_arm",
            "fires_early",
            "skips_a_run",
            "says_cancelled",
            "begins_what_it_cannot_run",
        ),
    ),
    (
        Plan(0, 1.0, 40, 8),
        (
            "fires_twice",
            "reads_the_scopes_once",
            "makes_up_for_nothing",
            "starts_what_is_armed",
            "takes_a_standby_for_its_primary",
        ),
    ),
    (
        Plan(4, 1.0, 40, 8),
        (
            "settles_what_never_ran",
            "answers_before_the_commit",
            "begins_again_when_set",
            "takes_nothing_up",
        ),
    ),
)
"""Pairs of a day and the faults that this day shows."""


def starts_what_is_armed() -> Any:
    """
    Fault: a job that is cancelled, moved or replaced just before its due time keeps its timer.
    """
    return forgets_to_withdraw(lambda entry: entry.call is None)


def starts_what_is_queued() -> Any:
    """
    Fault: a job that is cancelled, moved or replaced while it waits for a worker stays in the queue.
    """
    return forgets_to_withdraw(lambda entry: entry.call is not None)


def forgets_to_withdraw(is_kept: Callable[[Any], bool]) -> Any:
    """
    Fault: withdrawals have no effect on the entries for which *is_kept* returns True.
    """
    withdraw = StagedJobs.withdraw

    def careless(self: Any, job: Any, *, is_current: bool) -> Any:
        found = withdraw(self, job, is_current=is_current)
        if found is not None and not found[0].has_started and is_kept(found[0]):
            found[0].phase = Phase.BEGUN
        return found

    return mock.patch.object(StagedJobs, "withdraw", careless)


MUTANTS: dict[str, tuple[Mutant, set[str]]] = {
    "settles_without_epoch": (settles_without_epoch, {"zombie"}),
    "cursor_from_now": (cursor_from_now, {"lost", "late"}),
    "knows_itself_by_host_and_pid": (knows_itself_by_host_and_pid, {"silent"}),
    "is_somebody_else_at_each_start": (is_somebody_else_at_each_start, {"silent"}),
    "drops_an_arm": (drops_an_arm, {"lost", "late"}),
    "fires_early": (fires_early, {"early"}),
    "fires_twice": (fires_twice, {"twice"}),
    "forgets_the_rescue": (forgets_the_rescue, {"lost"}),
    "hears_nothing": (hears_nothing, {"lost", "late"}),
    "takes_notes_unfenced": (takes_notes_unfenced, {"zombie"}),
    "takes_a_standby_for_its_primary": (takes_a_standby_for_its_primary, {"repeated"}),
    "starts_over_when_emptied": (starts_over_when_emptied, {"repeated"}),
    "hands_over_what_runs": (hands_over_what_runs, {"beside"}),
    "refuses_ends_in_a_tail": (refuses_ends_in_a_tail, {"answer"}),
    "begins_what_it_cannot_run": (begins_what_it_cannot_run, {"handler"}),
    "takes_nothing_up": (takes_nothing_up, {"silent"}),
    "reads_the_scopes_once": (reads_the_scopes_once, {"scope"}),
    "keeps_what_is_leased": (keeps_what_is_leased, {"zombie"}),
    "never_looks_back": (never_looks_back, {"lost", "late"}),
    "answers_before_the_commit": (answers_before_the_commit, {"answer", "lost"}),
    "settles_what_never_ran": (settles_what_never_ran, {"ended"}),
    "skips_a_run": (skips_a_run, {"series"}),
    "makes_up_for_nothing": (makes_up_for_nothing, {"series"}),
    "forgets_the_scheduled_due_time": (forgets_the_scheduled_due_time, {"series"}),
    "begins_again_when_set": (begins_again_when_set, {"series"}),
    "lets_it_run_on": (lets_it_run_on, {"series"}),
    "ends_with_its_thread": (ends_with_its_thread, {"lost", "late", "silent"}),
    "takes_a_thread_for_started": (takes_a_thread_for_started, {"lost", "late", "silent"}),
    "loses_an_end": (loses_an_end, {"lost"}),
    "starts_what_is_armed": (starts_what_is_armed, {"overtaken"}),
    "starts_what_is_queued": (starts_what_is_queued, {"overtaken"}),
    "gives_back_twice": (gives_back_twice, {"overtaken"}),
    "says_cancelled": (says_cancelled, {"answer"}),
    "tries_again_what_was_stopped": (tries_again_what_was_stopped, {"overtaken"}),
    "stops_until_the_clock_is_set": (stops_until_the_clock_is_set, {"overtaken"}),
    "trusts_ends_of_a_later_clock": (trusts_ends_of_a_later_clock, {"silent"}),
    "takes_a_retry_for_outdated": (takes_a_retry_for_outdated, {"silent"}),
    "sees_no_step": (sees_no_step, {"silent", "clock"}),
    "follows_the_wall_clock": (follows_the_wall_clock, {"clock"}),
    "counts_delays_by_its_own_clock": (counts_delays_by_its_own_clock, {"short", "answer"}),
    "knows_clocks_a_thousandth_apart": (knows_clocks_a_thousandth_apart, {"early"}),
    "takes_a_rate_for_a_step": (takes_a_rate_for_a_step, {"clock", "series"}),
    "ends_what_it_cannot_read": (ends_what_it_cannot_read, {"series"}),
    "waits_for_a_statement_that_hangs": (waits_for_a_statement_that_hangs, {"silent", "late", "lost"}),
    "has_no_bulkhead": (has_no_bulkhead, {"silent"}),
    "has_no_shares": (has_no_shares, {"silent"}),
    "lends_nothing": (lends_nothing, {"silent"}),
    "forgets_the_position_of_a_lane": (forgets_the_position_of_a_lane, {"silent", "lost"}),
}
"""For each fault, its function and the expected kinds of violation."""
