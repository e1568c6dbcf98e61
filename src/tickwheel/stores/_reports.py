from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from tickwheel.jobs.model import Job
from tickwheel.jobs.rows import in_int64

__all__ = ["KEPT_MS", "Aside", "Cursor", "Node", "Scan", "Shard", "ShardScan", "ahead_of", "owners_of"]

KEPT_MS: Final = 600_000
"""Time for which a node is still reported after its leases have ended, for operators."""

_LAST: Final = 2**63 - 1

_Due: TypeAlias = Callable[[int, int, tuple[int, int] | None, int], list[Job]]


@dataclass(frozen=True, slots=True)
class Shard:
    """
    A part of the store, and its owner.

    Attributes:
        number: The shard's number; 0 in a store with one owner. Tails (see `Lease`) have the highest numbers.
        owner: The owner of the shard's lease, or None. With a system lock as the lease, a killed process is shown as
            the owner until another process takes over.
        epoch: Epoch of the current or last lease; 0 before the first lease.
        until: Store time at which the lease ends unless it is renewed; None if the shard is free or locked.
    """

    number: int
    owner: str | None
    epoch: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """
    A process that fires jobs, or did recently.

    Attributes:
        owner: The name under which the node holds leases.
        until: Store time at which the node counts as dead unless it renews; None if a system lock guards the store.
        heard_at: Store time of the node's last report, or None.
        figures: The node's last report, with counts of firings and of current work; or None.
    """

    owner: str
    until: int | None = None
    heard_at: int | None = None
    figures: Mapping[str, Any] | None = None

    def is_dead(self, now: int) -> bool:
        """
        Return True if the node's leases have ended at *now*, in ms of the store's clock.
        """
        return self.until is not None and self.until < now


@dataclass(frozen=True, slots=True)
class Aside:
    """
    The unroutable jobs of one handler, which wait for a node that has the handler.

    Attributes:
        count: Number of the jobs; a store may stop counting at 10,000.
        since: Due time of the earliest job.
    """

    target: str
    handler: str
    count: int
    since: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """
    The position up to which an owner has read a shard.

    Attributes:
        epoch: Epoch of the owner's lease, as proof of ownership.
        after: A due time and generation. The owner has read every pending job up to this position.
        mark: The mark that the last `look` returned; None before the first `look`.
    """

    shard: int
    epoch: int
    after: tuple[int, int]
    mark: int | None = None


@dataclass(frozen=True, slots=True)
class ShardScan:
    """
    The result of a `look` into one shard.

    Attributes:
        changed: Pending jobs before the cursor that other processes wrote, in any order. The owner may know some.
        mark: The mark for the next cursor. The next `look` returns the changes since this mark.
        due: The pending jobs after the cursor, by (due_at, generation).
        following: The first pending job after `due`, whatever its due time, or None.
    """

    changed: list[Job]
    mark: int
    due: list[Job]
    following: Job | None

    @classmethod
    def of(cls, changed: list[Job], mark: int, ahead: list[Job], until: int, limit: int) -> Self:
        """
        Make the result of a `look` from *ahead*, the sorted jobs after the cursor; at most *limit* are put into `due`.
        """
        due = [job for job in ahead[:limit] if job.due_at < until]
        return cls(changed, mark, due, ahead[len(due)] if len(due) < len(ahead) else None)


@dataclass(frozen=True, slots=True)
class Scan:
    """
    The jobs of some lanes in a part of a shard, by (due_at, generation).

    *reached* is the position up to which the scan has read; None if it has read everything.
    """

    due: list[Job]
    reached: tuple[int, int] | None

    @classmethod
    def of(cls, due: list[Job], limit: int, end: tuple[int, int] | None) -> Self:
        """
        Return a scan that found the jobs *due*. *end* is the position where it stopped, or None after the last job.

        If *due* has *limit* jobs, the scan stopped at the last of them.
        """
        return cls(due, (due[-1].due_at, due[-1].generation) if due and len(due) >= limit else end)


def owners_of(shards: Sequence[Shard]) -> list[Node]:
    """
    Return the owners of *shards* as nodes, sorted by name.
    """
    ends = {shard.owner: shard.until for shard in shards if shard.owner is not None}
    return [Node(owner, until) for owner, until in sorted(ends.items())]


def ahead_of(cursor: Cursor, due: _Due, until: int, limit: int) -> list[Job]:
    """
    Return the jobs after *cursor* that `ShardScan.of` needs. *due* is the method `due` of the store.
    """
    jobs = due(cursor.shard, until, cursor.after, limit + 1)
    if len(jobs) <= limit:
        jobs += due(cursor.shard, _LAST, max(cursor.after, (in_int64(until - 1), _LAST)), 1)
    return jobs
