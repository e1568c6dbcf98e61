"""
The protocol of a store: where far jobs wait.

A store is passive and synchronous: the scheduler's writer thread gathers what callers ask for and gives it to `apply`
in batches, so group commit is written once, above all stores, and one batch is one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, JobQuery, Manifest, Page, Pause, Write
from tickwheel.stores._examination import Examinable, Finding
from tickwheel.stores._reports import Aside, Cursor, Node, Scan, Shard, Sight

__all__ = [
    "Abilities",
    "Aside",
    "Cursor",
    "Examinable",
    "Finding",
    "Joins",
    "Lease",
    "Node",
    "Partitioned",
    "Scan",
    "Shard",
    "Sight",
    "Skill",
    "Store",
]


@dataclass(frozen=True, slots=True)
class Abilities:
    """
    The abilities that a store declares; suites and the scheduler read it instead of guessing.

    Attributes:
        loss_window: Description of the answered writes that a power cut may lose, for an operator; "" for none.
        has_notify: True if `wait_for_change` wakes before its timeout when another process wrote.
        is_private: True if only this object can write to it, so that scans for other writers' jobs are unnecessary.
        has_many_writers: True if two threads may call `apply` at once; it is faster so.
        has_many_owners: True if several schedulers may own shards of one store.
        joins_transactions: True if a write can join the caller's own transaction.
        renew_s: Interval of renewing leases without an end, which can still be lost: a file may be deleted. None
            where they cannot.
        first_tail: The least number of a shard that is a tail, which see `Lease`; None where there are no tails.
        partitions: How many parts have a commit of their own, which see `Partitioned`; the number of a shard modulo it
            says in which one it is.
        keeps_answers: True if `apply` reads the marks of writes (`once`) and takes a `Keep`. Another store is given
            neither, and a service on it says so when it starts: idempotency keys then hold in one process alone.
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
        shard: Which; a store of one owner has shard 0 only. What runs in a shard that its owner hands over to another,
            because that one has less than its share, stays with the owner in a shard of its own: the tail, with a
            number above all others, and the epoch under which that was begun. A tail counts for nobody's share; it is
            gone once nothing is left in it, and if its owner is gone, the first node that asks takes it over.
        epoch: Grows with every change of owner; a settle of an older one is refused.
        until: Store time after which another may take it; None where a lock of the system holds it, for as long as the
            process lives.
        rescued: How many jobs the former owner had begun and not settled; they are pending again, with their attempts
            kept.
        granted_at: Store time of the grant. `until - granted_at` is the lease's length, to be counted from before the
            call on the monotonic clock; against the caller's wall clock it is a sample of the offset.
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

    They take effect if and only if the caller commits, and are answered as `apply` answers them, as far as the
    transaction sees. An error leaves the transaction as it was. The shards' owners are notified once it has ended.

    Raises:
        TransactionError: If there is no transaction on that connection which can be joined.
    """

    def join(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        """
        Do *writes* of callers on a connection that blocks.
        """

    async def join_async(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        """
        Do *writes* of callers on a connection that is awaited.
        """


@runtime_checkable
class Partitioned(Protocol):
    """
    The parts of a store that declares `partitions`: each has commits of its own, which wait for no other.

    A generation or an epoch that one of them gives is given by no other one, and larger than what it gave before; an
    epoch modulo their number is that of the partition.

    Attributes:
        partitions: The stores of one partition each, in their order. Only `apply` is called on them.
    """

    partitions: Sequence[Store]

    def partition_of(self, key: str) -> int:
        """
        Return the number of the partition that *key* is in, always the same; keys with one `{tag}` are in one.
        """

    def heard(self) -> Collection[int]:
        """
        Return in which partitions others may have written when `wait_for_change` returned True: all, if it is unknown.

        Only the thread that waits asks.
        """


class Store(Protocol):
    """
    Jobs by key and by instant.

    `apply` and the reads may be called from different threads at once; `apply` itself by one thread at a time,
    unless it declares `has_many_writers`.
    Everything raises `StoreError` (transient or not, it says) when the store cannot answer, and nothing else.
    """

    abilities: Abilities
    url: str
    """The URL that it was opened by, with the password masked, for logs and pages."""

    def open(self) -> None:
        """
        Connect, and bring the schema to the current version; an unknown newer one is refused.

        Before everything else; what is open already stays as it is.
        """

    def close(self) -> None:
        """
        Give leases back, end a `wait_for_change`, and disconnect. Twice is allowed.
        """

    def now_ms(self) -> int:
        """
        Read the store's clock.
        """

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        """
        Do all *writes*, in order, in one transaction (of each partition), durable on return; answer each.

        A refused write (wrong generation, not found) is an answer and stops none of the others, but for a `Declare`:
        the writes under the version that it would have given do not count.
        A store that `keeps_answers` keeps that of each write with a mark in the same transaction, until its time is
        over; a write under a mark that has one changes nothing and gets it again, as `Recalled`.
        If it raises, none of them took effect, or, for a transient error after the commit was sent, it is not known:
        `StoreError` says so.
        """

    def get(self, key: str) -> Job | None:
        """
        Return the live job of *key*, or else its dead one, or None.
        """

    def page(self, query: JobQuery) -> Page:
        """
        Return one page; a job that exists during the whole listing appears exactly once.
        """

    def count(self) -> dict[str, int]:
        """
        Return how many jobs are in each state, by state name. At most O(number of states) work.
        """

    def last_generation(self) -> int:
        """
        Return the largest generation that was given so far: whatever is written from now on has a larger one.
        """

    def shard_of(self, key: str) -> int:
        """
        Return the shard that *key* belongs to, as long as this object lives: its home.

        A job may be in another one: where it was taken up, where it was left at a hand-over, or where it was put by
        a process that knew another number of shards. `due` says where it is, and any write but a begin brings it home.
        """

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        """
        Return pending jobs of *shard* with `due_at` below *until*, by (due_at, generation).

        At most *limit*, from just after *after*. What others write behind *after* is not met; `look` brings it.
        Costs by what it returns, not by what is in the future.
        """

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        """
        Return the first *limit* pending jobs with `due_at` below *until* of each of *shards* that has any, in no order.

        One question for all shards, asked every other second: it costs by what it returns.
        """

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[Sight]:
        """
        Return what there is to see in the shards of *cursors*, in their order: one question for all of them.

        From each cursor on that is at most *limit* jobs with `due_at` below *until*, as `due` returns them, and the one
        that follows. *with_changes* it is also what others wrote at or before the cursor since its mark, which is read
        first: so whatever the scan misses is there for the next look. A cursor without a mark gets none of it, and the
        mark of this moment.

        Only a shard's owner gets what others wrote, which proves itself by the epoch of its lease: to all others there
        is nothing, and nothing is forgotten by their asking. That is looked at in the statement that forgets.
        It may be more (jobs of one's own, or the same ones twice), never less.
        Costs by what it returns and by what was written since, not by what is pending.

        Raises:
            StoreError: If it fails; what others wrote may then be forgotten.
        """

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: Collection[str], *, inside: bool, rows: int
    ) -> list[Scan]:
        """
        Return what is due in some lanes in the shards of *cursors*, in their order.

        From each cursor on that is at most *limit* pending jobs with `due_at` below *until*, in the order of `due`:
        those of *lanes*, which `lane_of` names, or without *inside* those of all other lanes. A scan reads at most
        *rows* pending jobs of each shard (SQLite: and all of the slots that are not sorted yet) and says up to where;
        the caller goes on from there. So it costs by what it reads and returns, and a full lane is passed over once.
        """

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        """
        Return the first *limit* pending jobs of all shards due from *since* to before *until*, by (due_at, generation).
        """

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        """
        Return how many pending jobs fall due in each of *steps* steps from *since* on; costs by how many these are.
        """

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        """
        Return the past of *key*, the newest first: at most *limit* records, with numbers below *before*, if given.

        Costs by what it returns. Numbers grow by the order of commits, as far as one key is concerned.
        """

    def latest_dead(self, limit: int) -> list[Job]:
        """
        Return the *limit* dead jobs that were due last, the latest first, without their payloads: these are b"".

        Costs by what it returns, not by how many are dead.
        """

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        """
        Delete at most *limit* records of the history, the oldest first; return how many, 0 where nothing is to go.

        First goes what is older than *since* (ms since the epoch), then all but the newest *per_key* records of each
        key, then the oldest while there are more than *total*. Anybody may call it; of two at once one does it.
        """

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        """
        Add to the history *records* of events, such as the death of a node.
        """

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        """
        Return the acts and events of all keys from *since* to before *until* (ms), the newest first, at most *limit*.

        These are the records of the history whose attempt is 0, but for those that are part of a bulk act.
        O(records returned).
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
        Take the shards that are free, rescue what their former owner left running, and return what *owner* now holds.

        Of each attempt that is rescued, the history gets a record of the outcome "cut_off", by that owner, or by "" if
        it had released the shard.
        Where there may be many owners it takes no more than its fair share, and all free tails; where there is one,
        `StoreInUseError` says who it is.
        """

    def renew(self, owner: str) -> list[Lease]:
        """
        Extend what *owner* holds and return it; a shard that was lost is missing from the list.

        A lease that expired and that no other owner has taken is extended under its epoch. A node that was not answered
        for longer than a lease takes no lease of another for a moment, since that owner may live and was not answered
        either.

        One that is handed over, for being more than the fair share, leaves its tail in the list if anything runs in it.
        """

    def release(self, owner: str) -> None:
        """
        Hand over: free the owner's shards for others at once.
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

        At most *limit*, of the shard's partition, each to one caller, none whose scope is paused, none with one of the
        *unreadable* texts in its recurrence, which its caller could not follow, and none of the generations in *unfit*,
        at most 1,000, whose payloads its handlers could not take. The caller begins and settles them under *epoch*,
        whatever shard their keys belong to; the next owner of *shard* finds them there. None where *epoch* is not the
        shard's any more.
        Costs by what it returns and by the number of skills and scopes, not by what else was set aside, but for what is
        unreadable or unfit.
        """

    def aside(self) -> list[Aside]:
        """
        Return what was set aside, by target and handler; at most 100 of these.
        """

    def count_paused(self) -> int:
        """
        Return how many pending jobs are paused; counting ends at 10,000.
        """

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        """
        Pause the jobs of *scope*, or with None let them go on; return True if they were paused.

        It keeps other nodes from `take_up`; the owners, who read the scopes every other second, set aside what is due.
        A second pause of a scope has the new words. With a change, *record* goes into the history.
        """

    def scopes(self) -> list[Pause]:
        """
        Return the pauses of all scopes that are paused, in the order of these.
        """

    def manifests(self, name: str | None = None) -> list[Manifest]:
        """
        Return the records of all manifests, or of the one with that *name*, in the order of their names.
        """

    def shards(self) -> list[Shard]:
        """
        Return all shards by their numbers, each with its owner; anybody may ask, and nothing changes by it.
        """

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        """
        Keep *figures*, which JSON can carry, as the last of *owner*; it has to be among the nodes.

        Where there can be only one owner, nothing need be kept.
        """

    def nodes(self) -> list[Node]:
        """
        Return who fires, by their names, and who did until ten minutes ago and has not released; anybody may ask.

        Where a lock of the system replaces leases, only who lives.
        """

    def wait_for_change(self, timeout_s: float) -> bool:
        """
        Block until another process may have written, or *timeout_s*; return True if it may have.

        A hint, never the truth: after True and after a timeout alike, ask `look`.
        """

    def wake(self) -> None:
        """
        End a `wait_for_change` of another thread, or the next one, at once. From any thread.
        """

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        """
        Request that the owners of *jobs* withdraw the attempts that are counted, and wake them.

        An owner gives a job back whose attempt has not started, and otherwise answers by `report_started`. A request
        holds for five seconds, and who waits repeats it: the next try is counted as the same attempt, and would be
        given back for a caller who is gone. A job whose `attempt` is below zero is a request of another kind, which
        holds for a minute: that the attempt of this number without its sign, which has started, is asked to stop.

        Returns:
            The generations of those that no living owner has: none of their attempts starts any more.
        """

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        """
        Return what was requested of the owner of *shards*, still holds, and is not answered.

        Of a job there is what names the attempt: key, generation, instant, and the attempt that is counted.
        """

    def report_started(self, jobs: Sequence[Job]) -> None:
        """
        Answer that these attempts have started.
        """

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        """
        Return the generations of those whose attempt still counts, each with whether its owner said that it started.
        """
