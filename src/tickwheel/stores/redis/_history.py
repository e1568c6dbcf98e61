"""
The history: records as JSON arrays that begin with their times, so that scripts can read the times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.jobs.model import HistoryRecord

__all__ = ["acts", "history", "packed_records"]

_TEXT: Final = json.JSONEncoder(separators=(",", ":"))


def packed_records(records: Sequence[HistoryRecord]) -> list[bytes]:
    return [part for record in records for part in (record.key.encode(), _member_of(record))]


def history(call: Callable[..., Any], base: str, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
    place = f"{base}:history:{key}".encode()
    last = b"+inf" if before is None else b"(%d" % before
    members = call("ZRANGE", place, last, "-inf", "BYSCORE", "REV", "LIMIT", 0, limit)
    return [_record_of(key, bytes(member)) for member in members]


def acts(call: Callable[..., Any], base: str, since: int, until: int, limit: int) -> list[HistoryRecord]:
    members = call("ZRANGE", f"{base}:acts", b"(%d" % until, since, "BYSCORE", "REV", "LIMIT", 0, limit)
    found: list[HistoryRecord] = []
    for member in members:
        number, size, rest = bytes(member).split(b" ", 2)
        found.append(_record_of(rest[: int(size)].decode(), b"%s %s" % (number, rest[int(size) :])))
    return found


def _member_of(record: HistoryRecord) -> bytes:
    values = list(record[3:])
    while values[-1] is None:  # scripts write records the same way
        values.pop()
    return _TEXT.encode((record.at, *values)).encode()


def _record_of(key: str, member: bytes) -> HistoryRecord:
    number, _, text = member.partition(b" ")
    at, *rest = json.loads(text)
    return HistoryRecord(int(number), at, key, *rest)
