from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from tickwheel.jobs.history import ACTS_MAX
from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, Minute, of_text, to_text
from tickwheel.jobs.model import HistoryRecord
from tickwheel.stores.sqlite._connections import Connections
from tickwheel.stores.sqlite._queries import SQL, insert_rows

__all__ = ["acts", "add_records", "forget_minutes", "history", "keep_minutes", "minutes", "prune"]

_EVER = 2**63 - 1


def history(connection: sqlite3.Connection, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
    rows = connection.execute(SQL["history"], (key, _EVER if before is None else before, limit))
    return [HistoryRecord(*row) for row in rows]


def add_records(connection: sqlite3.Connection, records: Sequence[HistoryRecord]) -> None:
    for record in records:
        connection.execute(SQL["insert_record"], record[1:])


def acts(connection: sqlite3.Connection, since: int, until: int, limit: int) -> list[HistoryRecord]:
    return [HistoryRecord(*row) for row in connection.execute(SQL["acts"], (since, until, limit))]


def keep_minutes(connection: sqlite3.Connection, kept: Sequence[Minute]) -> None:
    values = [value for each in kept for value in (each.span_ms, each.at, each.owner, to_text(each))]
    connection.execute(insert_rows("keep_minute", len(kept)), values)


def minutes(connection: sqlite3.Connection, since: int, until: int, span_ms: int) -> list[Minute]:
    return [of_text(*row) for row in connection.execute(SQL["minutes"], (span_ms, since, until))]


def forget_minutes(connection: sqlite3.Connection, minutes_from: int, quarters_from: int) -> None:
    connection.execute(SQL["forget_minutes"], (MINUTE_MS, minutes_from, QUARTER_MS, quarters_from))


def prune(connections: Connections, since: int, per_key: int, total: int, limit: int) -> int:
    with connections.reading() as connection:
        statement, rows = _surplus(connection, since, per_key, total, limit)
    gone = 0
    if rows:
        with connections.writing() as connection:
            for row in rows:
                if gone < limit:
                    values = (*row, limit - gone) if statement == "shorten_history" else row
                    gone += connection.execute(SQL[statement], values).rowcount
    return gone


def _surplus(
    connection: sqlite3.Connection, since: int, per_key: int, total: int, limit: int
) -> tuple[str, list[tuple[Any, ...]]]:
    old: int = connection.execute(SQL["count_old_history"], (limit, since)).fetchone()[0]
    if old:
        return "delete_history", connection.execute(SQL["front_of_history"], (old,)).fetchall()
    acts = connection.execute(SQL["surplus_acts"], (limit, ACTS_MAX)).fetchall()
    if acts:
        return "delete_act", acts
    long = connection.execute(SQL["long_histories"], (per_key, per_key, per_key, limit)).fetchall()
    if long:
        return "shorten_history", long
    surplus = min(connection.execute(SQL["count_history"]).fetchone()[0] - total, limit)
    return "delete_others", connection.execute(SQL["front_of_others"], (surplus,)).fetchall() if surplus > 0 else []
