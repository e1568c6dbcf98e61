"""
Ownership of shards: leases on the server's clock, shared fairly among the live nodes.

If an owner hands over a shard in which jobs run, the running jobs move to a tail: a shard that keeps the old owner and
epoch. A renewal or a takeover costs two round trips for any number of shards and jobs: one for a read, one for a
transaction that is sent as a whole.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tickwheel.stores._deadlines import call_s
from tickwheel.stores._reports import KEPT_MS
from tickwheel.stores.contract import Lease
from tickwheel.stores.postgres._connections import Connections
from tickwheel.stores.postgres._queries import SQL

__all__ = ["FIRST_TAIL", "CutOff", "View", "keep", "release", "rescue_again", "still_running", "view"]

FIRST_TAIL: Final = 1_000_000
"""First shard number of tails. The SQL statements contain the same number."""


class CutOff(NamedTuple):
    """
    An attempt of a former owner. The row of its job was locked when the shard was taken over.
    """

    shard: int
    key: str
    generation: int
    attempt: int


_STUCK: Final = 2.0
"""A session that is silent for this multiple of a call's time limit counts as stopped in the middle of a pipeline."""


class View(NamedTuple):
    """
    The state of the leases before an owner renews its own leases. *share* is the owner's fair share, in shards.
    """

    is_same_server: bool
    durability: tuple[Any, ...]
    until: int
    share: int
    held: list[int]


def view(
    connections: Connections, owner: str, lease_ms: int, shards: int, *, is_guarded: bool, is_taking: bool
) -> View:
    """
    Record *owner* as alive, and return the state of the leases (see `View`), in one round trip.

    First ends the sessions of clients that stopped in the middle of a pipeline, because they may hold locks on leases.
    Then shortens leases that were written before the clock was set back. If *is_taking* is True, expires leases whose
    guard session has ended. *shards* is the minimum number of shards of the store.
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
    numbers = [number for (number,) in held.fetchall()]
    return View(server.fetchall() == [(True,)], durability.fetchall()[0], lease_until, shares, numbers)


def keep(
    connections: Connections, owner: str, lease_ms: int, seen: View, slot: int, *, is_taking: bool
) -> tuple[list[Lease], list[CutOff]]:
    """
    Renew the leases of *owner* and, if *is_taking* is True, take free shards, in one round trip.

    Leases beyond the owner's fair share are released. Rows of running jobs that other sessions have locked are skipped.
    The second result has their attempts. Their keys are stored in row *slot* of the lists of claimed jobs; a later call
    recovers these jobs.
    """
    shards = [number for number in seen.held if number < FIRST_TAIL]
    surplus = shards[seen.share :]
    taken = tried = None
    with connections.writing() as connection:
        connection.execute(SQL["held_shards"], (owner,))
        if surplus:
            connection.execute(SQL["leave_tails"], {"shards": surplus, "owner": owner})
            connection.execute(SQL["give_up_shards"], (owner, surplus))
        connection.execute(SQL["end_tails"], (owner,))
        renewed = connection.execute(SQL["renew_shards"], (seen.until, owner))
        connection.execute(SQL["gather_counts"])
        if is_taking:
            missing = max(0, seen.share - len(shards))
            values = {"owner": owner, "until": seen.until, "lease_ms": lease_ms, "missing": missing}
            taken = connection.execute(SQL["take_shards"], values)
            connection.execute(SQL["delete_notes"], (owner,))
            tried = connection.execute(SQL["rescue_jobs"], {"owner": owner, "slot": slot})
            connection.execute(SQL["forget_begun"])
    rescued, locked = _rescued(tried.fetchall() if tried else [])
    rows = renewed.fetchall() + (taken.fetchall() if taken else [])
    leases = [Lease(shard, epoch, until, rescued.get(shard, 0), until - lease_ms) for shard, epoch, until in rows]
    return sorted(leases, key=lambda lease: lease.shard), locked


def rescue_again(connections: Connections, locked: list[CutOff]) -> tuple[int, list[CutOff]]:
    shards, keys, generations, attempts = map(list, zip(*locked, strict=True))
    values = {"shards": shards, "keys": keys, "generations": generations, "attempts": attempts}
    with connections.writing() as connection:
        tried = connection.execute(SQL["rescue_again"], values)
    rescued, still = _rescued(tried.fetchall())
    return sum(rescued.values()), still


def still_running(connections: Connections, owner: str) -> list[tuple[int, int]]:
    with connections.reading() as connection:
        return connection.execute(SQL["still_running"], (owner,)).fetchall()


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
