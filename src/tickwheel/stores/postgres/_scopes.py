from __future__ import annotations

from collections.abc import Sequence

from tickwheel.jobs.model import HistoryRecord, Job, Pause
from tickwheel.jobs.rows import job_of
from tickwheel.stores._scopes import unpaused
from tickwheel.stores.contract import Skill
from tickwheel.stores.postgres._connections import Connection, Connections
from tickwheel.stores.postgres._history import columns_of
from tickwheel.stores.postgres._queries import SQL

__all__ = ["scopes", "set_scope", "take_up"]


def set_scope(connection: Connection, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
    if pause is None:
        row = connection.execute(SQL["resume_scope"], (scope,)).fetchone()
    else:
        row = connection.execute(SQL["pause_scope"], (scope, pause.at, pause.by, pause.note)).fetchone()
    was_paused = row == (True,)
    if record is not None and (was_paused or pause is not None):
        connection.execute(SQL["insert_records"], columns_of([record]))
    return was_paused


def scopes(connection: Connection) -> list[Pause]:
    return [Pause(*row) for row in connection.execute(SQL["scopes"]).fetchall()]


def take_up(
    connections: Connections,
    lease: tuple[int, int, str | None],
    skills: Sequence[Skill],
    limit: int,
    left_out: tuple[Sequence[str], Sequence[int]],
) -> list[Job]:
    with connections.reading() as connection:
        if connection.execute(SQL["has_aside"]).fetchone() != (True,):
            return []
        wanted = _unpaused_skills(connection, skills, limit)
    targets, handlers = [target for target, _ in wanted], [handler for _, handler in wanted]
    values: dict[str, object] = {"targets": targets, "handlers": handlers, "limit": limit}
    values["unreadable"], values["unfit"] = map(list, left_out)
    with connections.writing() as connection:
        connection.execute(SQL["hold_lease"], lease)
        taken = connection.execute(
            SQL["take_up"], {**values, **dict(zip(("shard", "epoch", "owner"), lease, strict=True))}
        )
    return [job_of(row) for row in taken.fetchall()]


def _unpaused_skills(connection: Connection, skills: Sequence[Skill], limit: int) -> Sequence[Skill]:
    paused = {pause.scope for pause in scopes(connection)}

    def handlers_of(target: str) -> list[str]:
        values = {"target": target, "limit": limit + len(paused)}
        return [row[0] for row in connection.execute(SQL["handlers_aside"], values).fetchall()]

    return unpaused(skills, paused, handlers_of)
