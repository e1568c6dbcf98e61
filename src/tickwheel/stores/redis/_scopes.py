"""
The paused scopes, in one hash of JSON arrays: time, author and reason.
"""

from __future__ import annotations

import json
from typing import Final

from tickwheel.jobs.model import HistoryRecord, Pause
from tickwheel.stores.redis._connections import Connections
from tickwheel.stores.redis._history import packed_records

__all__ = ["scopes", "set_scope"]

_TEXT: Final = json.JSONEncoder(separators=(",", ":"))


def set_scope(connections: Connections, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
    text = "" if pause is None else _TEXT.encode([pause.at, pause.by, pause.note])
    kept = () if record is None else packed_records([record])
    return bool(connections.run("scope", scope, text, *kept, is_write=True))


def scopes(connections: Connections, base: str) -> list[Pause]:
    facts = connections.call("HGETALL", f"{base}:scopes")
    pauses: list[Pause] = []
    for scope, text in zip(facts[::2], facts[1::2], strict=True):
        at, by, note = json.loads(text)
        pauses.append(Pause(at, by, note, bytes(scope).decode()))
    return sorted(pauses, key=lambda pause: pause.scope)
