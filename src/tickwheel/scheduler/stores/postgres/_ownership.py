"""
How shards change hands: leases by the server's clock, shared fairly among those who are there.
"""

from __future__ import annotations

from tickwheel.scheduler.stores._contract import Lease
from tickwheel.scheduler.stores.postgres._batch import add_counts, run
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["acquire", "release", "renew"]


def acquire(connection: Connection, owner: str, lease_ms: int) -> list[Lease]:
    """
    Extend what *owner* holds, and take free shards up to its fair share.
    """
    now = _now(connection)
    connection.execute(SQL["see_node"], (owner, now + lease_ms))
    leases = renew(connection, owner, lease_ms)
    missing = _fair_share(connection, owner, now) - len(leases)
    if missing > 0:
        for shard, running in connection.execute(SQL["free_shards"], (now, missing)).fetchall():
            rescued = _rescue(connection, shard, running)
            row = connection.execute(SQL["take_shard"], (owner, now + lease_ms, shard)).fetchone()
            assert row is not None
            leases.append(Lease(shard, row[0], now + lease_ms, rescued, now))
    return sorted(leases, key=lambda lease: lease.shard)


def renew(connection: Connection, owner: str, lease_ms: int) -> list[Lease]:
    """
    Extend what *owner* holds and may keep: what is more than its fair share is left to others.
    """
    now = _now(connection)
    connection.execute(SQL["see_node"], (owner, now + lease_ms))
    held = connection.execute(SQL["held_shards"], (owner, now)).fetchall()
    share = _fair_share(connection, owner, now)
    kept, surplus = held[:share], held[share:]
    if surplus:
        connection.execute(SQL["give_up_shards"], (owner, [shard for shard, _ in surplus]))
    connection.execute(SQL["renew_shards"], (now + lease_ms, [shard for shard, _ in kept]))
    _gather_counts(connection)
    return [Lease(shard, epoch, now + lease_ms, 0, now) for shard, epoch in kept]


def release(connection: Connection, owner: str) -> None:
    """
    Free what *owner* holds at once, and count it out.
    """
    shards = [row[0] for row in connection.execute(SQL["held_shards"], (owner, 0)).fetchall()]
    connection.execute(SQL["give_up_shards"], (owner, shards))
    connection.execute(SQL["forget_nodes"], (owner, _now(connection)))


def _rescue(connection: Connection, shard: int, running: int) -> int:
    rescued = connection.execute(SQL["rescue_jobs"], (shard, running)).rowcount if running else 0
    run(connection, add_counts(rescued, -rescued, 0))
    connection.execute(SQL["delete_notes"], (shard,))
    return rescued


def _gather_counts(connection: Connection) -> None:
    """
    Add the counts that callers' transactions left in rows of their own to the others.
    """
    row = connection.execute(SQL["take_counts_apart"]).fetchone()
    if row is not None and row[0] is not None:
        run(connection, add_counts(*row))


def _fair_share(connection: Connection, owner: str, now: int) -> int:
    row = connection.execute(SQL["fair_share"], {"owner": owner, "now": now}).fetchone()
    assert row is not None
    share: int = row[0]
    return share


def _now(connection: Connection) -> int:
    row = connection.execute(SQL["now"]).fetchone()
    assert row is not None
    now: int = row[0]
    return now
