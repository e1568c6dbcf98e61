from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from tickwheel.jobs.model import HistoryRecord, Pause
from tickwheel.stores._scopes import unpaused
from tickwheel.stores.contract import Aside, Skill
from tickwheel.stores.sqlite._joining import Joined
from tickwheel.stores.sqlite._queries import SQL

__all__ = ["aside", "scopes", "set_scope", "unpaused_skills"]

_NAMES_MAX: Final = 100


def set_scope(connection: sqlite3.Connection, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
    was_paused = connection.execute(SQL["delete_scope"], (scope,)).rowcount > 0
    if pause is not None:
        connection.execute(SQL["insert_scope"], (scope, pause.at, pause.by, pause.note))
    if record is not None and (was_paused or pause is not None):
        connection.execute(SQL["insert_record"], record[1:])
    return was_paused


def scopes(connection: sqlite3.Connection | Joined) -> list[Pause]:
    return [Pause(*row) for row in connection.execute(SQL["scopes"])]


def aside(connection: sqlite3.Connection) -> list[Aside]:
    found: list[Aside] = []
    target = ""
    while len(found) < _NAMES_MAX:
        # The index leads from one name to the next, so a name with many jobs does not hide other names.
        target = connection.execute(SQL["target_aside"], (target,)).fetchone()[0]
        if target is None:
            break
        for handler in _handlers_aside(connection, target, _NAMES_MAX - len(found)):
            row = connection.execute(SQL["count_aside"], (target, handler) * 2).fetchone()
            found.append(Aside(target, handler, *row))
    return found


def _handlers_aside(connection: sqlite3.Connection | Joined, target: str, limit: int) -> list[str]:
    return [row[0] for row in connection.execute(SQL["handlers_aside"], (target, target, limit))]


def unpaused_skills(connection: sqlite3.Connection | Joined, skills: Sequence[Skill], limit: int) -> Sequence[Skill]:
    paused = {pause.scope for pause in scopes(connection)}
    return unpaused(skills, paused, lambda target: _handlers_aside(connection, target, limit + len(paused)))
