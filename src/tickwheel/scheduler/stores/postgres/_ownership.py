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
    Extend what *owner* holds, and take free shards up to its fair share; in as many round trips for many as for one.
    """
    now = _now(connection)
    leases, share = _keep(connection, owner, now, lease_ms)
    if share > len(leases):
        leases += _take(connection, owner, now, lease_ms, share - len(leases))
    return sorted(leases, key=lambda lease: lease.shard)


def renew(connection: Connection, owner: str, lease_ms: int) -> list[Lease]:
    """
    Extend what *owner* holds and may keep: what is more than its fair share is left to others.
    """
    return _keep(connection, owner, _now(connection), lease_ms)[0]


def release(connection: Connection, owner: str) -> None:
    """
    Free what *owner* holds at once, and count it out.
    """
    shards = [row[0] for row in connection.execute(SQL["held_shards"], (owner, 0)).fetchall()]
    connection.execute(SQL["give_up_shards"], (owner, shards))
    connection.execute(SQL["forget_nodes"], (owner, _now(connection)))


def _keep(connection: Connection, owner: str, now: int, lease_ms: int) -> tuple[list[Lease], int]:
    """
    Extend what is held, and return it with the fair share.
    """
    connection.execute(SQL["see_node"], (owner, now + lease_ms))
    held = connection.execute(SQL["held_shards"], (owner, now)).fetchall()
    held.sort(key=lambda row: not row[2])  # those in which nothing runs go first: what runs elsewhere is fired again
    row = connection.execute(SQL["fair_share"], {"owner": owner, "now": now}).fetchone()
    assert row is not None
    share: int = row[0]
    kept, surplus = held[:share], held[share:]
    if surplus:
        connection.execute(SQL["give_up_shards"], (owner, [row[0] for row in surplus]))
    connection.execute(SQL["renew_shards"], (now + lease_ms, [row[0] for row in kept]))
    _gather_counts(connection)
    return [Lease(shard, epoch, now + lease_ms, 0, now) for shard, epoch, _ in kept], share


def _take(connection: Connection, owner: str, now: int, lease_ms: int, number: int) -> list[Lease]:
    free = connection.execute(SQL["free_shards"], (now, number)).fetchall()
    if not free:
        return []
    shards, running = map(list, zip(*free, strict=True))
    rescued: dict[int, int] = {}
    if any(running):
        rescued.update(connection.execute(SQL["rescue_jobs"], (shards, running)).fetchall())
    run(connection, add_counts(sum(rescued.values()), -sum(rescued.values()), 0))
    connection.execute(SQL["delete_notes"], (shards,))
    taken = connection.execute(SQL["take_shards"], (owner, now + lease_ms, shards)).fetchall()
    return [Lease(shard, epoch, now + lease_ms, rescued.get(shard, 0), now) for shard, epoch in taken]


def _gather_counts(connection: Connection) -> None:
    """
    Add the counts that callers' transactions left in rows of their own to the others.
    """
    row = connection.execute(SQL["take_counts_apart"]).fetchone()
    if row is not None and row[0] is not None:
        run(connection, add_counts(*row))


def _now(connection: Connection) -> int:
    row = connection.execute(SQL["now"]).fetchone()
    assert row is not None
    now: int = row[0]
    return now
