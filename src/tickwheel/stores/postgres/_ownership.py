"""
Ownership of shards: leases by the server's clock, shared fairly among the nodes that are there.

A shard that its owner hands over while jobs run in it leaves a tail: a shard of its own with what runs, under the owner
and the epoch under which that was begun.

A renewal or a takeover is two round trips, whatever the number of shards and jobs: a look, and a transaction that goes
to the server as a whole. So no shard stays locked while an answer is on its way.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tickwheel.stores._deadlines import call_s
from tickwheel.stores._reports import KEPT_MS
from tickwheel.stores.contract import Lease
from tickwheel.stores.postgres._connections import Connections
from tickwheel.stores.postgres._queries import SQL

__all__ = ["FIRST_TAIL", "CutOff", "View", "keep", "release", "rescue_again", "view"]

FIRST_TAIL: Final = 1_000_000
"""The numbers of tails begin here; the statements know it, too."""


class CutOff(NamedTuple):
    """
    An attempt of a former owner whose job another transaction held locked when its shard was taken over.
    """

    shard: int
    key: str
    generation: int
    attempt: int


_STUCK: Final = 2.0
"""A client that sends nothing for the time of two calls has stopped in the middle of its pipeline."""


class View(NamedTuple):
    """
    The state of the leases as an owner sees it before it renews its own.

    Attributes:
        is_same_server: Whether the server is the one of the last time.
        durability: The row of the statement of that name.
        until: The end of its leases once they are renewed.
        share: How many shards are its fair share.
        held: The shards that it holds, each with whether anything may run in it.
    """

    is_same_server: bool
    durability: tuple[Any, ...]
    until: int
    share: int
    held: list[tuple[int, bool]]


def view(
    connections: Connections, owner: str, lease_ms: int, shards: int, *, is_guarded: bool, is_taking: bool
) -> View:
    """
    Note that *owner* is there, and return what it sees of at least so many *shards*: one round trip.

    A client that has stopped in the middle of a pipeline is ended first, be it this one's own on a line that went
    silent: it may hold locks that the leases need. Leases that were written before the clock was set back are cut so
    that they end in time; where *is_taking*, those of owners whose guards are gone have ended.
    """
    stuck_ms = min(lease_ms, int(_STUCK * call_s(lease_ms / 1000) * 1000))
    with connections.writing() as connection:
        server = connection.execute(SQL["is_same_server"], (shards,))
        durability = connection.execute(SQL["durability"])
        connection.execute(SQL["end_stuck"], (stuck_ms,))
        connection.execute(SQL["cut_leases"])
        if is_taking:
            connection.execute(SQL["expire_deserted"], {"owner": owner})
        node = {"owner": owner, "lease_ms": lease_ms, "is_guarded": is_guarded}
        until = connection.execute(SQL["see_node"], node)
        share = connection.execute(SQL["fair_share"], {"owner": owner})
        held = connection.execute(SQL["seen_shards"], (owner,))
    (lease_until,), (shares,) = until.fetchall()[0], share.fetchall()[0]
    return View(server.fetchall() == [(True,)], durability.fetchall()[0], lease_until, shares, held.fetchall())


def keep(
    connections: Connections, owner: str, lease_ms: int, seen: View, *, is_taking: bool
) -> tuple[list[Lease], list[CutOff]]:
    """
    Extend what *owner* holds and may keep, and where *is_taking* take what is free: one round trip.

    What is more than its fair share is left to others; what it takes is that share, and all free tails. It waits for no
    row of what it takes: attempts that could not be rescued because of that are returned, too.
    """
    shards = [row for row in seen.held if row[0] < FIRST_TAIL]
    surplus = shards[seen.share :]
    taken = tried = None
    with connections.writing() as connection:
        connection.execute(SQL["held_shards"], (owner,))
        if surplus:
            connection.execute(SQL["leave_tails"], ([shard for shard, is_busy in surplus if is_busy], owner))
            connection.execute(SQL["give_up_shards"], (owner, [shard for shard, _ in surplus]))
        connection.execute(SQL["end_tails"], (owner,))
        renewed = connection.execute(SQL["renew_shards"], (seen.until, owner))
        connection.execute(SQL["gather_counts"])
        if is_taking:
            missing = max(0, seen.share - len(shards))
            values = {"owner": owner, "until": seen.until, "lease_ms": lease_ms, "missing": missing}
            taken = connection.execute(SQL["take_shards"], values)
            connection.execute(SQL["delete_notes"], (owner,))
            tried = connection.execute(SQL["rescue_jobs"], (owner,))
    rescued, locked = _rescued(tried.fetchall() if tried else [])
    rows = renewed.fetchall() + (taken.fetchall() if taken else [])
    leases = [Lease(shard, epoch, until, rescued.get(shard, 0), until - lease_ms) for shard, epoch, until in rows]
    return sorted(leases, key=lambda lease: lease.shard), locked


def rescue_again(connections: Connections, locked: list[CutOff]) -> tuple[int, list[CutOff]]:
    """
    Rescue the attempts that were *locked*; return how many were, with a note of each, and which are locked still.
    """
    shards, keys, generations, attempts = map(list, zip(*locked, strict=True))
    values = {"shards": shards, "keys": keys, "generations": generations, "attempts": attempts}
    with connections.writing() as connection:
        tried = connection.execute(SQL["rescue_again"], values)
    rescued, still = _rescued(tried.fetchall())
    return sum(rescued.values()), still


def release(connections: Connections, owner: str) -> None:
    with connections.writing() as connection:
        connection.execute(SQL["held_shards"], (owner,))
        connection.execute(SQL["end_tails"], (owner,))
        connection.execute(SQL["give_up_all"], (owner,))
        connection.execute(SQL["forget_nodes"], (owner, KEPT_MS))


def _rescued(rows: list[Any]) -> tuple[dict[int, int], list[CutOff]]:
    rescued: dict[int, int] = {}
    locked: list[CutOff] = []
    for shard, number, *attempt in rows:
        if number:
            rescued[shard] = number
        else:
            locked.append(CutOff(shard, *attempt))
    return rescued, locked
