"""
The protocol of a store, in which far jobs wait.

A store is passive and synchronous: the scheduler's writer thread batches the writes of callers and passes them to
`apply`, so group commit is written once, above all stores, and one batch is one transaction.
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
    The abilities that a store declares; suites and the scheduler read them instead of guessing.

    Attributes:
        loss_window: Description of the acknowledged writes that a power failure may lose; "" for none.
        has_notify: True if `wait_for_change` wakes before its timeout when another process wrote.
        is_private: True if only this object can write to it, so that scans for other writers' jobs are unnecessary.
        has_many_writers: True if two threads may call `apply` at once, which is then faster.
        has_many_owners: True if several schedulers may own shards of one store.
        joins_transactions: True if a write can join the caller's own transaction.
        renew_s: Interval of renewing leases without an end, which can still be lost, for example by deleting a file;
            None if they cannot.
        first_tail: Lowest shard number used for tails (see `Lease`); None if there are no tails.
        partitions: Number of parts with separate commits (see `Partitioned`); a shard's number modulo it is its
            partition.
        keeps_answers: True if `apply` reads the marks of writes (`once`) and takes a `Keep`. Other stores get
            neither; a service on one warns at its start that idempotency keys hold in one process only.
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

    def is_tail(self, shard: int) -> bool:
        """
        Return True if *shard* is a tail.
        """
        return self.first_tail is not None and shard >= self.first_tail


@dataclass(frozen=True, slots=True)
class Lease:
    """
    The right to fire and settle the jobs of a shard.

    Attributes:
        shard: Its number; 0 in a store of one owner. If an owner hands a shard over to a node with less than its share,
            its running jobs stay with it in a shard of their own: the tail, with a number above all others and their
            epoch. A tail does not count towards a share; it disappears once it is empty, and if its owner has ended,
            the first node that asks takes it over.
        epoch: Grows with every change of owner; a settle with an older one is refused.
        until: Store time after which another node may take it; None if a system lock holds it for the process's life.
        rescued: Number of jobs that the former owner had begun and not settled; they are pending again, with their
            attempts.
        granted_at: Store time of the grant. `until - granted_at` is the lease's length, which counts on the monotonic
            clock from before the call; compared with the caller's wall clock it is a sample of the offset.
    """

    shard: int
    epoch: int
    until: int | None = None
    rescued: int = 0
    granted_at: int = 0


Skill: TypeAlias = tuple[str, str | None]
"""An ability of a node: a target with one of its handlers, or with None for any handler of that target."""


@runtime_checkable
class Joins(Protocol):
    """
    The methods of a store that declares `joins_transactions`: writes within the caller's transaction.

    They take effect if and only if the caller commits; answers are those of `apply`, as far as the transaction sees. An
    error leaves the transaction as it was. The shards' owners are notified once it has ended.

    Raises:
        TransactionError: If the connection has no transaction that can be joined.
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

    No two partitions give the same generation or epoch, and each gives larger ones than before; an epoch modulo their
    number is its partition.

    Attributes:
        partitions: The stores of one partition each, in order. Only `apply` is called on them.
    """

    partitions: Sequence[Store]

    def partition_of(self, key: str) -> int:
        """
        Return the number of the partition of *key*, always the same; keys with the same `{tag}` share one.
        """

    def heard(self) -> Collection[int]:
        """
        Return the partitions that other nodes may have written when `wait_for_change` returned True; all, if unknown.

        Only the waiting thread calls it.
        """


@runtime_checkable
class Versioned(Protocol):
    """
    A store that knows at once that nothing was written to it, so that an idle owner need not search it for jobs.
    """

    def version(self) -> object:
        """
        Return a value that differs from all earlier ones if any process has committed a change in between.

        Two equal values prove that nothing was written; two different ones prove nothing. O(1).
        """


class Store(Protocol):
    """
    Jobs by key and by due time.

    `apply` and the reads may be called from different threads at once; `apply` itself by one thread at a time, though
    not always the same, unless the store declares `has_many_writers`. Every method raises `StoreError` if the store
    cannot answer, and nothing else; see its `is_transient`.
    """

    abilities: Abilities
    url: str
    """The URL that it was opened by, with the password masked, for logs and pages."""

    def open(self) -> None:
        """
        Connect, and bring the schema to the current version; an unknown newer one is refused.

        Called before everything else; it does nothing if the store is open.
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
        Apply all *writes*, in order, in one transaction (of each partition), durable on return; answer each.

        A refused write (wrong generation, not found) is an answer and affects no other write, except a refused
        `Declare`: the writes under the version that it would have given are not valid.

        A store that `keeps_answers` keeps the answer of each marked write in the same transaction, until its time is
        over; a repeat under the same mark changes nothing and gets it as `Recalled`.

        If it raises, no write took effect, or, after a transient error once the commit was sent, that is unknown:
        `StoreError.is_unknown`.
        """

    def get(self, key: str) -> Job | None:
        """
        Return the live job of *key*, or else its dead one, or None.
        """

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        """
        Return the jobs of *keys* that exist, in any order, by one call to each server.
        """

    def page(self, query: JobQuery) -> Page:
        """
        Return one page; a job that exists during the whole listing appears exactly once.
        """

    def count(self) -> dict[str, int]:
        """
        Return the number of jobs in each state, by state name. At most O(number of states) work.
        """

    def last_generation(self) -> int:
        """
        Return the largest generation so far: all later writes get larger ones.
        """

    def shard_of(self, key: str) -> int:
        """
        Return the home shard of *key*, constant as long as this object lives.

        A job may be in another shard: after a take-up or a hand-over, or if its writer knew another number of shards.
        `due` shows where it is, and any write except a begin moves it home.
        """

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        """
        Return pending jobs of *shard* with `due_at` below *until*, by (due_at, generation).

        At most *limit*, from just after *after*. `look` returns later writes of other nodes behind *after*. The cost
        depends on the result, not on the number of future jobs.
        """

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        """
        Return the first *limit* pending jobs with `due_at` below *until* of each of *shards* that has any, in no order.

        One query for all shards, made every other second: the cost depends on the result.
        """

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        """
        Return the due jobs, and the changes, of the shards of *cursors*, in their order, by one query.

        From each cursor that is at most *limit* jobs with `due_at` below *until*, as `due` returns them, and the job
        that follows. If *with_changes*, also jobs that other nodes wrote at or before the cursor since its mark; they
        are read first, so the next look finds whatever the scan misses. A cursor without a mark gets no changes, and a
        current mark.

        Only a shard's owner, proven by the epoch of its lease, gets the changes, which are then forgotten; the same
        statement checks the epoch. The result may have too many jobs (one's own, or duplicates), never too few. The
        cost depends on the result and on the number of writes since the mark, not on the number of pending jobs.

        Raises:
            StoreError: If it fails; the changes may then be forgotten.
        """

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        """
        Return due jobs of some lanes in the shards of *cursors*, in their order.

        From each cursor that is at most *limit* pending jobs with `due_at` below *until*, in the order of `due`, of the
        *lanes*, or if not *inside* of all other lanes. A scan reads at most *rows* pending jobs of each
        shard (SQLite: and all slots that are not sorted yet) and returns its position, from which the caller continues.
        So the cost depends on the rows read and returned, and a full lane is passed over once.
        """

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        """
        Return the first *limit* pending jobs of all shards due from *since* to before *until*, by (due_at, generation).
        """

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        """
        Return the number of pending jobs due in each of *steps* steps from *since*; the cost depends on these numbers.
        """

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        """
        Return at most *limit* records of *key*, the newest first, with numbers below *before*, if given.

        The cost depends on the result. Numbers grow in the order of commits, for one key.
        """

    def latest_dead(self, limit: int) -> list[Job]:
        """
        Return the *limit* dead jobs with the latest due times, the latest first; their payloads are b"".

        The cost depends on the result, not on the number of dead jobs.
        """

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        """
        Delete at most *limit* records of the history, the oldest first; return their number, 0 if none must go.

        First go records older than *since* (ms since the epoch), then all but the newest 10,000 of the log of acts,
        then all but the newest *per_key* other records of each key, then the oldest others while there are more than
        *total*. Any node may call it; of two concurrent calls one does the work.
        """

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        """
        Add to the history *records* of events, such as the death of a node.
        """

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        """
        Return the acts and events of all keys from *since* to before *until* (ms), the newest first, at most *limit*.

        These are the records with attempt 0, except parts of a bulk act. O(records returned).
        """

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        """
        Keep the figures of a node; a row of the same owner, start and length is replaced. One statement.
        """

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        """
        Return the rows of that length that start from *since* to before *until* (ms), by start and owner.
        """

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        """
        Delete the minutes and the quarters of an hour that start before these instants (ms).
        """

    def acquire(self, owner: str) -> list[Lease]:
        """
        Take free shards, rescue (recover) the running jobs of their former owner, and return the leases of *owner*.

        The history gets a record "cut_off" of each rescued attempt, by the former owner, or by "" if it had released
        the shard. A store of many owners gives at most a fair share of the shards, and in addition every free tail (see
        `Lease`). A store of one owner raises a `StoreInUseError` that names the current owner.
        """

    def renew(self, owner: str) -> list[Lease]:
        """
        Extend the leases of *owner* and return them; a lost shard is missing from the list.

        An expired lease that no other owner has taken is extended under its epoch. A node that got no answer for longer
        than a lease takes no lease of another node for a moment, since that owner may live and have got no answer
        either. A shard that is handed over, because it exceeds the fair share, leaves its tail in the list if a job
        runs in it.
        """

    def release(self, owner: str) -> None:
        """
        Free the owner's shards for others at once.
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
        Move jobs that were set aside and that *skills* can run into *shard*, and return them as they now are.

        It takes at most *limit* jobs, all from the shard's partition; each job goes to one caller only. It leaves out
        paused jobs, jobs whose recurrence contains one of the *unreadable* texts, and those with a generation in
        *unfit* (at most 1,000, whose payloads the caller's handlers refuse). The caller begins and settles them under
        *epoch*, whatever the shard of their keys; the next owner of *shard* finds them there. The result is empty if
        *epoch* is outdated. The cost grows with the result, with the numbers of skills and scopes, and with the
        unreadable and unfit jobs, but not with other jobs that were set aside.
        """

    def aside(self) -> list[Aside]:
        """
        Return the unroutable jobs by target and handler; at most 100 entries.
        """

    def count_paused(self) -> int:
        """
        Return the number of paused pending jobs; counting ends at 10,000.
        """

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        """
        Pause the jobs of *scope*, or with None resume them; return True if they were paused.

        It keeps other nodes from `take_up`; the owners, which read the scopes every other second, set due jobs aside. A
        second pause of a scope replaces its texts. If anything changes, *record* is added to the history.
        """

    def scopes(self) -> list[Pause]:
        """
        Return the pauses of all paused scopes, sorted by scope.
        """

    def manifests(self, name: str | None = None) -> list[Manifest]:
        """
        Return the records of all manifests, or of the one with that *name*, sorted by name.
        """

    def shards(self) -> list[Shard]:
        """
        Return all shards by number, each with its owner; any node may ask.
        """

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        """
        Keep *figures*, a JSON object, as the last report of *owner*, which must be among the nodes.

        A store of one owner may ignore it.
        """

    def nodes(self) -> list[Node]:
        """
        Return the nodes that fire, by name, and those that did within ten minutes and have not released.

        Any node may ask. A store guarded by a system lock returns only the living one.
        """

    def wait_for_change(self, timeout_s: float) -> bool:
        """
        Block until another process may have written, or *timeout_s*; return True if it may have.

        It is a hint: call `look` after True and after a timeout alike.
        """

    def wake(self) -> None:
        """
        End a `wait_for_change` of another thread, or the next one, at once. From any thread.
        """

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        """
        Request that the owners of *jobs* withdraw their counted attempts, and wake them.

        An owner gives a job back whose attempt has not started, and otherwise answers by `report_started`. A request is
        valid for five seconds, and a waiting caller repeats it: the next try counts as the same attempt, and must not
        be given back for a caller that is gone. A job with a negative `attempt` requests that the started attempt of
        that number is asked to stop; it is valid for a minute.

        Returns:
            The generations of jobs without a living owner: none of their attempts starts any more.
        """

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        """
        Return the valid, unanswered requests to the owner of *shards*.

        The jobs have only the fields that identify the attempt: key, generation, instant, and the number of the
        attempt.
        """

    def report_started(self, jobs: Sequence[Job]) -> None:
        """
        Answer that these attempts have started.
        """

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        """
        Return the generations whose attempt still counts, each with True if its owner reported that it started.
        """
