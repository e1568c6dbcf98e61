"""
The protocol of a store, which keeps jobs until they are due.

A store is passive and synchronous. The scheduler's writer thread collects the writes of callers into batches and passes
them to `apply`. Each batch is one transaction. No store therefore needs its own code for group commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, JobQuery, Manifest, Page, Pause, Write
from tickwheel.stores._examination import Examinable, Finding
from tickwheel.stores._lane_set import LaneSet
from tickwheel.stores._reports import Aside, Cursor, Node, Scan, Shard, ShardScan

__all__ = [
    "Abilities",
    "Aside",
    "Cursor",
    "Examinable",
    "Finding",
    "Joins",
    "LaneSet",
    "Lease",
    "Node",
    "Partitioned",
    "Scan",
    "Shard",
    "ShardScan",
    "Skill",
    "Store",
    "Versioned",
]


@dataclass(frozen=True, slots=True)
class Abilities:
    """
    The abilities that a store declares, for the scheduler and the test suites.

    Attributes:
        loss_window: Text that names the acknowledged writes that a power failure may lose; "" if it loses none.
        has_notify: True if a write of another process ends `wait_for_change` before its timeout.
        is_private: True if only this object can write to the store, so that there are no jobs of other writers.
        has_many_writers: True if several threads may call `apply` concurrently, and several are faster than one.
        has_many_owners: True if several schedulers may own shards of one store.
        joins_transactions: True if a write can join the caller's own transaction.
        renew_s: Seconds between checks of leases that have no end but can be lost, for example if a file is deleted.
            None if leases have an end, or cannot be lost.
        first_tail: Lowest shard number used for tails (see `Lease`); None if there are no tails.
        partitions: Number of parts with separate commits (see `Partitioned`). Shard *n* is in part *n* modulo this.
        keeps_answers: True if `apply` reads the marks of writes (`once`) and accepts a `Keep`. If False, the store gets
            neither marks nor a `Keep`, and a service warns that idempotency keys work in one process only.
        claims_sets: True if `apply` accepts a `Claim` as the last write. Requires one owner and one partition.
    """

    loss_window: str = ""
    has_notify: bool = False
    has_many_owners: bool = False
    is_private: bool = False
    has_many_writers: bool = False
    joins_transactions: bool = False
    renew_s: float | None = None
    first_tail: int | None = None
    partitions: int = 1
    keeps_answers: bool = False
    claims_sets: bool = False

    def is_tail(self, shard: int) -> bool:
        """
        Return True if *shard* is a tail.
        """
        return self.first_tail is not None and shard >= self.first_tail


@dataclass(frozen=True, slots=True)
class Lease:
    """
    The right to fire and settle (acknowledge) the jobs of a shard.

    If an owner hands a shard over to a node that has too few shards, the running jobs stay with the old owner in a
    separate shard, the tail. The tail keeps the epoch of the jobs, and has a higher number than normal shards. A tail
    does not count towards its owner's fair share of shards, and disappears when it is empty. If the owner of a tail has
    ended, the first node that asks takes the tail over.

    Attributes:
        shard: The number of the shard; 0 in a store with one owner.
        epoch: Fencing token; it grows with every change of owner. A settle with an older epoch is refused.
        until: Store time after which another node may take the shard. None if the lease is a system lock, which ends
            with the process.
        rescued: Number of jobs that were running when the former owner ended. They are pending again, with the
            interrupted attempts counted.
        granted_at: Store time of the grant. The caller counts the length, `until - granted_at`, on the monotonic clock,
            from before the call. The caller also uses `granted_at` as a reading of the store's clock.
    """

    shard: int
    epoch: int
    until: int | None = None
    rescued: int = 0
    granted_at: int = 0


Skill: TypeAlias = tuple[str, str | None]
"""An ability of a node: a target with one of its handlers, or with None for any handler of the target."""


@runtime_checkable
class Joins(Protocol):
    """
    The methods of a store that declares `joins_transactions`: writes within the caller's transaction.

    The writes take effect if and only if the caller commits. The answers are those of `apply`, based on the data that
    the transaction sees. An error leaves the transaction unchanged. The owners of the shards are notified after the
    transaction has ended.
    """

    def join(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        """
        Apply callers' *writes* on a blocking connection.
        """

    async def join_async(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        """
        Apply callers' *writes* on an async connection.
        """


@runtime_checkable
class Partitioned(Protocol):
    """
    A store that declares `partitions`: parts that commit independently of each other.

    No two partitions assign the same generation or epoch, and within a partition these numbers grow. Partition *p* of
    *n* assigns epochs that are *p* modulo *n*.

    Attributes:
        partitions: One store for each partition, in order. Only `apply` is called on them.
    """

    partitions: Sequence[Store]

    def partition_of(self, key: str) -> int:
        """
        Return the number of the partition of *key*, which never changes. Keys with the same `{tag}` share a partition.
        """

    def heard(self) -> Collection[int]:
        """
        Return the partitions in which other nodes may have written since the last call; all partitions if unknown.

        Only the thread that calls `wait_for_change` may call this method.
        """


@runtime_checkable
class Versioned(Protocol):
    """
    A store with a cheap test for new writes, so that an idle owner need not search for jobs.
    """

    def version(self) -> object:
        """
        Return a value that identifies the present content of the store. O(1).

        Two equal values prove that nothing was written between the calls. Two different values prove nothing.
        """


class Store(Protocol):
    """
    Jobs, which can be found by key and by due time.

    Threads may call `apply` and the read methods concurrently. Unless the store declares `has_many_writers`, only one
    thread at a time calls `apply`, but not always the same thread. If the store cannot answer, a method raises a
    `StoreError`; it raises no other error. See `StoreError.is_transient`.
    """

    abilities: Abilities
    url: str
    """The URL by which the store was opened, with the password masked, for logs and pages."""

    def open(self) -> None:
        """
        Connect, and bring the schema to the current version. A newer, unknown version is refused.

        Called before every other method. Does nothing if the store is open.
        """

    def close(self) -> None:
        """
        Release the leases, end a `wait_for_change`, and disconnect. May be called twice.
        """

    def now_ms(self) -> int:
        """
        Read the store's clock.
        """

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        """
        Apply *writes* in order, in one transaction (one for each partition), and return an answer for each.

        The writes are durable on return. A refused write (wrong generation, not found) is an answer and does not affect
        other writes. Exception: if a `Declare` is refused, the later writes of its declaration are also refused.

        A store that `keeps_answers` keeps the answer of each write with a mark (`once`) in the same transaction, until
        the answer expires. A repeated write with the same mark changes nothing and gets the kept answer as `Recalled`.

        Raises:
            StoreError: If no write took effect; or, with `is_unknown`, if the outcome is unknown, because a transient
                error occurred after the commit was sent.
        """

    def get(self, key: str) -> Job | None:
        """
        Return the live job of *key*, or the dead job if no live one exists, or None.
        """

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        """
        Return the existing jobs of *keys*, in any order, with one call to each server.
        """

    def page(self, query: JobQuery) -> Page:
        """
        Return one page of the list. A job that exists during the whole listing appears exactly once.
        """

    def count(self) -> dict[str, int]:
        """
        Return the number of jobs in each state, keyed by the state's name. O(number of states).
        """

    def last_generation(self) -> int:
        """
        Return the largest generation so far. All later writes get larger generations.
        """

    def shard_of(self, key: str) -> int:
        """
        Return the home shard of *key*. The home shard of a key is constant as long as this object lives.

        A job may be in another shard: after `take_up`, after a hand-over, or if its writer assumed another number of
        shards. `due` finds it in its current shard. Any write except a `Begin` moves the job home.
        """

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        """
        Return at most *limit* pending jobs of *shard* that follow *after* and are due before *until*.

        The jobs are ordered by (due_at, generation). If other nodes later write jobs at or before *after*, `look` finds
        them. The cost depends on the result, not on the number of future jobs.
        """

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        """
        For each of *shards*, return the first *limit* pending jobs with `due_at` below *until*.

        Shards without such jobs are omitted. One query reads all shards. The scheduler calls this every two seconds.
        The cost depends on the result.
        """

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        """
        Return the due jobs and the changes for each of *cursors*, in the order of *cursors*, with one query.

        The `due` of each result has the jobs that the method `due` returns after the cursor; `following` is the next
        job. The changes, if requested, are jobs at or before the cursor that other nodes wrote since the cursor's mark.
        Changes are read before the due jobs. If this `look` misses a job, the next one therefore returns it as a
        change. A cursor without a mark gets a mark, but no changes.

        Only the shard's owner gets the changes, because the statement checks the epoch of its lease. The store forgets
        the changes that it has returned. The result may have too many jobs (the owner's own writes, or duplicates),
        never too few. The cost depends on the result and on the number of writes since the mark, not on all pending
        jobs.

        Raises:
            StoreError: If the call fails. The changes may then be lost: the store may have forgotten them.
        """

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        """
        Return the due jobs of some lanes for each of *cursors*, in the order of *cursors*.

        If *inside* is True, the result has jobs of *lanes*; if False, jobs of all other lanes. It has at most *limit*
        jobs of each shard, in the order of `due`. A scan reads at most *rows* pending jobs of each shard, and returns
        the position where it stopped. The next scan continues from there. SQLite also reads all rows that are not
        sorted yet.
        """

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        """
        Return the first *limit* pending jobs of all shards due in [*since*, *until*), sorted by (due_at, generation).
        """

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        """
        Divide the time from *since* into *steps* periods of *step_ms*; return the number of pending jobs due in each.

        The cost depends on the number of these jobs.
        """

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        """
        Return at most *limit* records of *key*, newest first; if *before* is given, only records with smaller numbers.

        The cost depends on the result. The numbers of one key's records grow in the order of commits.
        """

    def latest_dead(self, limit: int) -> list[Job]:
        """
        Return the *limit* dead jobs with the latest due times, latest first. Their payloads are b"".

        The cost depends on the result, not on the number of dead jobs.
        """

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        """
        Delete at most *limit* records of the history, oldest first; return the number, 0 if there is nothing to delete.

        First, records older than *since* (ms since the epoch) are deleted. Of the acts (callers' writes), the newest
        10,000 are kept. Of all other records, the newest *per_key* of each key are kept, and at most *total* in all.
        Any node may call this. If two nodes call it concurrently, one of them does the work.
        """

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        """
        Add *records* of events, such as the death of a node, to the history.
        """

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        """
        Return at most *limit* acts and events of all keys, newest first, with times in [*since*, *until*), in ms.

        These are the records with attempt 0, except parts of a bulk change. O(records returned).
        """

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        """
        Store the figures of a node. A row with the same owner, start and length is replaced. Costs one statement.
        """

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        """
        Return the figures of all periods of *span_ms* that start in [*since*, *until*) ms, sorted by start and owner.
        """

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        """
        Delete the rows of minutes and of quarters of an hour that start before the given times (ms).
        """

    def acquire(self, owner: str) -> list[Lease]:
        """
        Take free shards, recover the running jobs of their former owners, and return the leases of *owner*.

        Each rescued attempt gets a history record "cut_off" with the name of the former owner, or "" if that owner had
        released the shard. A store with many owners grants at most a fair share of the shards, and every free tail (see
        `Lease`). A store with one owner raises a `StoreInUseError` that names the current owner.
        """

    def renew(self, owner: str) -> list[Lease]:
        """
        Extend the leases of *owner* and return them. A lost shard is missing from the list.

        An expired lease that no other owner has taken is extended, with the same epoch. If the server was silent for
        longer than a lease, a node takes no leases of other nodes for a moment, because these nodes may be alive.
        Shards above the fair share are handed over. If jobs run in such a shard, its tail (see `Lease`) is in the list.
        """

    def release(self, owner: str) -> None:
        """
        Free the shards of *owner* immediately, so that other nodes can take them.
        """

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
        """
        Take up unroutable jobs that match *skills*: move them into *shard*, and return them in their new state.

        At most *limit* jobs are taken, all from the shard's partition. Each job is given to only one caller. The call
        skips paused jobs, jobs whose recurrence contains one of the *unreadable* texts, and jobs of the *unfit*
        generations (at most 1,000), whose payloads the caller's handlers refuse. The caller fires and settles the jobs
        under *epoch*, and the next owner of *shard* finds them there, even if their keys belong to another shard. The
        result is empty if *epoch* is outdated. The cost grows with the result, the number of skills and scopes, and the
        skipped jobs, but not with other unroutable jobs.
        """

    def aside(self) -> list[Aside]:
        """
        Return an entry for each target and handler with jobs that no node could run; at most 100 entries.
        """

    def count_paused(self) -> int:
        """
        Return the number of paused pending jobs. Counting ends at 10,000.
        """

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        """
        Pause *scope*, or resume it if *pause* is None; return True if it was already paused.

        A pause excludes the scope's jobs from `take_up`. Owners read the paused scopes every two seconds, and set aside
        the due jobs of these scopes. A second pause of a scope replaces its author and note. If the pause changes,
        *record* is stored.
        """

    def scopes(self) -> list[Pause]:
        """
        Return the pauses of all paused scopes, sorted by scope.
        """

    def manifests(self, name: str | None = None) -> list[Manifest]:
        """
        Return the records of all manifests, or of the manifest *name*, sorted by name.
        """

    def shards(self) -> list[Shard]:
        """
        Return all shards with their owners, sorted by number. Any node may ask.
        """

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        """
        Store *figures*, a JSON object, as the last report of the node *owner*. A store of one owner may ignore this.
        """

    def nodes(self) -> list[Node]:
        """
        Return the nodes that fire jobs, or that ended in the last ten minutes without releasing their shards.

        Sorted by name. Any node may ask. A store guarded by a system lock returns only the live node.
        """

    def wait_for_change(self, timeout_s: float) -> bool:
        """
        Block until another process may have written, or for *timeout_s*.

        Return True if another process may have written. The answer is only a hint, so call `look` in both cases.
        """

    def wake(self) -> None:
        """
        End the `wait_for_change` that another thread is in. Any thread may call this.

        If no thread is waiting, the next call of `wait_for_change` returns immediately.
        """

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        """
        Ask the owners of *jobs* to withdraw the claimed attempts, and wake these owners.

        If an attempt has not started, its owner makes the job pending again. If it has started, the owner calls
        `report_started`. A request is valid for five seconds; a caller that still waits repeats it. If the `attempt` of
        a job is negative, the owner is asked to stop the started attempt of that number. This request is valid for a
        minute.

        Returns:
            The generations of jobs without a live owner. Their attempts can no longer start.
        """

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        """
        Return the valid, unanswered requests to withdraw attempts in *shards*.

        The jobs have only the fields that identify the attempt: key, generation, due time and attempt number.
        """

    def report_started(self, jobs: Sequence[Job]) -> None:
        """
        Answer the withdrawal requests for *jobs*: the attempts have already started. Called by the owner of the jobs.
        """

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        """
        Return a flag for each of *jobs* whose attempt is still claimed in the store, keyed by generation.

        The flag is True if the owner has reported the attempt as started.
        """
