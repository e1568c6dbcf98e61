"""
Ownership of shards: leases by the server's clock, shared fairly among the nodes that are there.

A shard that its owner hands over while jobs run in it leaves a tail: a shard of its own with what runs, under the owner
and the epoch under which that was begun.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tickwheel.stores._reports import KEPT_MS
from tickwheel.stores.contract import Lease
from tickwheel.stores.postgres._batch import add_counts, run
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL

__all__ = ["FIRST_TAIL", "CutOff", "acquire", "release", "renew", "rescue_again"]

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


def acquire(connection: Connection, owner: str, lease_ms: int, *, is_guarded: bool) -> tuple[list[Lease], list[CutOff]]:
    """
    Extend what *owner* holds, and take free shards up to its fair share, and all free tails.

    Free are also those of owners whose guards are gone.

    It takes as many round trips for many as for one, and waits for no row of what it takes: attempts that could not be
    rescued because of that are returned, too.
    """
    now = _cut(connection)
    connection.execute(SQL["expire_deserted"], {"owner": owner})
    leases, missing, has_free_tails = _keep(connection, owner, now, lease_ms, is_guarded=is_guarded)
    free: list[tuple[int, int]] = []
    if missing > 0:
        free += connection.execute(SQL["free_shards"], (now, missing)).fetchall()
    if has_free_tails:
        free += connection.execute(SQL["free_tails"], (now,)).fetchall()
    locked: list[CutOff] = []
    if free:
        taken, locked = _take(connection, owner, now, lease_ms, free)
        leases += taken
    return sorted(leases, key=lambda lease: lease.shard), locked


def renew(connection: Connection, owner: str, lease_ms: int, *, is_guarded: bool) -> list[Lease]:
    """
    Extend what *owner* holds and may keep: what is more than its fair share is left to others.
    """
    return _keep(connection, owner, _cut(connection), lease_ms, is_guarded=is_guarded)[0]


def rescue_again(connection: Connection, locked: list[CutOff]) -> tuple[int, list[CutOff]]:
    """
    Rescue the attempts that were *locked*; return how many were, with a note of each, and which are locked still.
    """
    shards, keys, generations, attempts = map(list, zip(*locked, strict=True))
    values = {"shards": shards, "keys": keys, "generations": generations, "attempts": attempts}
    rescued, still = _rescued(connection, "rescue_again", values)
    if rescued:
        connection.execute(SQL["write_shards"], (list(rescued), [-number for number in rescued.values()]))
    return sum(rescued.values()), still


def release(connection: Connection, owner: str) -> None:
    """
    Free what *owner* holds at once, and count it out.
    """
    shards = [row[0] for row in connection.execute(SQL["held_shards"], (owner,)).fetchall()]
    connection.execute(SQL["give_up_shards"], (owner, shards))
    _end_tails(connection, shards)
    connection.execute(SQL["forget_nodes"], (owner, _now(connection) - KEPT_MS))


def _keep(
    connection: Connection, owner: str, now: int, lease_ms: int, *, is_guarded: bool
) -> tuple[list[Lease], int, bool]:
    """
    Extend what is held, and return it, how many shards are missing, and whether there are free tails.
    """
    node = {"owner": owner, "until": now + lease_ms, "lease_ms": lease_ms, "is_guarded": is_guarded}
    connection.execute(SQL["see_node"], node)
    held = connection.execute(SQL["held_shards"], (owner,)).fetchall()
    row = connection.execute(SQL["fair_share"], {"owner": owner, "now": now}).fetchone()
    assert row is not None
    share, has_free_tails = row
    shards = [row for row in held if row[0] < FIRST_TAIL]
    if surplus := shards[share:]:
        if busy := [shard for shard, _, has_running in surplus if has_running]:
            connection.execute(SQL["leave_tails"], (busy,))
        connection.execute(SQL["give_up_shards"], (owner, [row[0] for row in surplus]))
        held = connection.execute(SQL["held_shards"], (owner,)).fetchall()
    ended = _end_tails(connection, [row[0] for row in held])
    kept = {shard: epoch for shard, epoch, _ in held if shard not in ended}
    connection.execute(SQL["renew_shards"], (now + lease_ms, list(kept)))
    _gather_counts(connection)
    leases = [Lease(shard, epoch, now + lease_ms, 0, now) for shard, epoch in kept.items()]
    return leases, share - len(shards), has_free_tails


def _end_tails(connection: Connection, shards: list[int]) -> set[int]:
    """
    Delete those of the tails among *shards*, which are locked, that have no job any more; return them.
    """
    tails = [shard for shard in shards if shard >= FIRST_TAIL]
    return {row[0] for row in connection.execute(SQL["end_tails"], (tails,)).fetchall()} if tails else set()


def _take(
    connection: Connection, owner: str, now: int, lease_ms: int, free: list[tuple[int, int]]
) -> tuple[list[Lease], list[CutOff]]:
    """
    Take *free* shards, which are locked, and rescue the jobs that run there: as many as the number beside each.
    """
    shards, running = map(list, zip(*free, strict=True))
    rescued: dict[int, int] = {}
    locked: list[CutOff] = []
    if any(running):
        rescued, locked = _rescued(connection, "rescue_jobs", (shards, running))
    connection.execute(SQL["delete_notes"], (shards,))
    until, left = now + lease_ms, [each.shard for each in locked]
    values = {"owner": owner, "until": until, "lease_ms": lease_ms, "left": left, "shards": shards}
    taken = connection.execute(SQL["take_shards"], values).fetchall()
    return [Lease(shard, epoch, until, rescued.get(shard, 0), now) for shard, epoch in taken], locked


def _rescued(connection: Connection, name: str, values: Any) -> tuple[dict[int, int], list[CutOff]]:
    rescued: dict[int, int] = {}
    locked: list[CutOff] = []
    for shard, number, *attempt in connection.execute(SQL[name], values).fetchall():
        if number:
            rescued[shard] = number
        else:
            locked.append(CutOff(shard, *attempt))
    run(connection, add_counts(sum(rescued.values()), -sum(rescued.values()), 0))
    return rescued, locked


def _gather_counts(connection: Connection) -> None:
    """
    Add the counts that callers' transactions left in rows of their own to the others.
    """
    row = connection.execute(SQL["take_counts_apart"]).fetchone()
    if row is not None and row[0] is not None:
        run(connection, add_counts(*row))


def _cut(connection: Connection) -> int:
    """
    Let leases that were written before the clock was set back end in time, and return the clock.
    """
    return _now(connection, "cut_leases")


def _now(connection: Connection, statement: str = "now") -> int:
    row = connection.execute(SQL[statement]).fetchone()
    assert row is not None
    now: int = row[0]
    return now
