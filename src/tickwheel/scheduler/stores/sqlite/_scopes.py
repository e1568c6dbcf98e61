"""
The scopes that are paused: the table `tickwheel_scope`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from tickwheel.scheduler.model import HistoryRecord, Pause
from tickwheel.scheduler.stores._scopes import unpaused
from tickwheel.scheduler.stores.contract import Skill
from tickwheel.scheduler.stores.sqlite._joining import Joined
from tickwheel.scheduler.stores.sqlite._queries import SQL

__all__ = ["scopes", "set_scope", "unpaused_skills"]


def set_scope(connection: sqlite3.Connection, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
    """
    Pause *scope*, or let it go on; return whether it was paused.
    """
    was_paused = connection.execute(SQL["delete_scope"], (scope,)).rowcount > 0
    if pause is not None:
        connection.execute(SQL["insert_scope"], (scope, pause.at, pause.by, pause.note))
    if record is not None and (was_paused or pause is not None):
        connection.execute(SQL["insert_record"], record[1:])
    return was_paused


def scopes(connection: sqlite3.Connection | Joined) -> list[Pause]:
    """
    Return all pauses.
    """
    return [Pause(*row) for row in connection.execute(SQL["scopes"])]


def unpaused_skills(connection: sqlite3.Connection | Joined, skills: Sequence[Skill], limit: int) -> Sequence[Skill]:
    """
    Return *skills* without what is paused, as far as *limit* jobs need them.
    """
    paused = {pause.scope for pause in scopes(connection)}

    def handlers_of(target: str) -> list[str]:
        values = (target, target, limit + len(paused))
        return [row[0] for row in connection.execute(SQL["handlers_aside"], values)]

    return unpaused(skills, paused, handlers_of)
