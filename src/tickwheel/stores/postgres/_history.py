from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel.jobs.history import ACTS_MAX
from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, Minute, of_text, to_text
from tickwheel.jobs.model import HistoryRecord
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL

__all__ = ["acts", "columns_of", "forget_minutes", "history", "keep_minutes", "minutes", "prune"]

_EVER = 2**63 - 1


def columns_of(records: Sequence[HistoryRecord]) -> list[list[Any]]:
    return [list(column) for column in list(zip(*records, strict=True))[1:]]  # the server assigns the numbers


def history(connection: Connection, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
    values = {"key": key, "before": _EVER if before is None else before, "limit": limit}
    return [HistoryRecord(*row) for row in connection.execute(SQL["history"], values).fetchall()]


def acts(connection: Connection, since: int, until: int, limit: int) -> list[HistoryRecord]:
    values = {"since": since, "until": until, "limit": limit}
    return [HistoryRecord(*row) for row in connection.execute(SQL["acts"], values).fetchall()]


def keep_minutes(connection: Connection, kept: Sequence[Minute]) -> None:
    rows = [(each.span_ms, each.at, each.owner, to_text(each)) for each in kept]
    connection.execute(SQL["keep_minutes"], [list(column) for column in zip(*rows, strict=True)])


def minutes(connection: Connection, since: int, until: int, span_ms: int) -> list[Minute]:
    values = {"span_ms": span_ms, "since": since, "until": until}
    return [of_text(*row) for row in connection.execute(SQL["minutes"], values).fetchall()]


def forget_minutes(connection: Connection, minutes_from: int, quarters_from: int) -> None:
    connection.execute(SQL["forget_minutes"], (MINUTE_MS, minutes_from, QUARTER_MS, quarters_from))


def prune(connection: Connection, since: int, per_key: int, total: int, limit: int) -> int:
    if connection.execute(SQL["may_prune"]).fetchone() != (True,):
        return 0
    old = connection.execute(SQL["count_old_history"], (limit, since)).fetchone()
    if old and old[0]:
        return connection.execute(SQL["delete_history"], old).rowcount
    acts = connection.execute(SQL["delete_acts"], (limit, ACTS_MAX)).rowcount
    if acts:
        return acts
    long = connection.execute(SQL["long_histories"], {"most": per_key, "limit": limit}).fetchall()
    if long:
        keys, numbers = map(list, zip(*long, strict=True))
        return connection.execute(SQL["shorten_histories"], (keys, numbers, limit)).rowcount
    there = connection.execute(SQL["count_history"]).fetchone()
    surplus = min(there[0] - total, limit) if there else 0
    return connection.execute(SQL["delete_others"], (surplus,)).rowcount if surplus > 0 else 0
