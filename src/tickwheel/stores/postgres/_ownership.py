"""
Ownership of shards: leases by the server's clock, shared fairly among the living nodes.

A shard that its owner hands over while jobs run in it leaves a tail: a shard of the running jobs, with their owner and
epoch. A renewal or a takeover takes two round trips, whatever the number of shards and jobs: a read, and a transaction
that is sent as a whole. So no shard stays locked while an answer is under way.
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
"""First number of tails; the SQL statements contain it, too."""


class CutOff(NamedTuple):
    """
    An attempt of a former owner whose job row was locked during the takeover of its shard.
    """

    shard: int
    key: str
    generation: int
    attempt: int


_STUCK: Final = 2.0
"""Time without data, in time limits of a call, after which a client has stopped in the middle of its pipeline."""


class View(NamedTuple):
    """
    The state of the leases before an owner renews its own.

    Attributes:
        is_same_server: True if the server is the one of the last renewal.
        durability: The row of the statement of that name.
        until: The end of the leases after the renewal.
        share: The number of shards that is the owner's fair share.
        held: The shards that it holds, each with True if any job may run in it.
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
    Record *owner* as alive, and return its view of at least *shards* shards: one round trip.

    Clients that stopped in the middle of a pipeline are terminated first, including this owner's own session on a dead
    connection: they may hold locks that the leases need. Leases written before the clock was set back are shortened so
    that they expire in time. If *is_taking*, leases of owners whose guard session is gone have expired.
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
    Renew the leases of *owner*, and if *is_taking* acquire free ones: one round trip.

    Leases beyond its fair share are released; it acquires up to its share, and all free draining shards. It does not
    wait for row locks: attempts whose rows were locked are returned as well, to be rescued later.
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
    Rescue the attempts that were *locked*; leave a note of each; return the number rescued, and those still locked.
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
