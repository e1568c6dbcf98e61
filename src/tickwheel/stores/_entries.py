"""
The changes of a transaction as entries: names, each with a value in bytes. Stores with one owner keep such entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from struct import Struct
from typing import Any, Final, TypeAlias

from tickwheel.jobs.columns import NAMES
from tickwheel.jobs.minutes import Minute, of_text, to_text
from tickwheel.jobs.model import HistoryRecord, Job, Manifest, Pause
from tickwheel.jobs.rows import job_of, row_of
from tickwheel.stores._onces import Kept, Place

__all__ = ["Changes", "Entry", "MinutePlace"]

Entry: TypeAlias = tuple[str, bytes | None]
"""A name and its value. The value None deletes the name."""

MinutePlace: TypeAlias = tuple[int, int, str]
"""The length, start and owner of a row of figures."""

_PAYLOAD: Final = NAMES.index("payload")
_LENGTH: Final = Struct(">I")
_TEXT: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(slots=True)
class Changes:
    """
    The changes of one transaction, or all entries of a store. In a dict, the value None means that its key is deleted.
    """

    generation: int | None = None
    epoch: int | None = None
    jobs: dict[str, Job | None] = field(default_factory=dict)
    records: dict[int, HistoryRecord | None] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    scopes: dict[str, Pause | None] = field(default_factory=dict)
    answers: dict[Place, Kept | None] = field(default_factory=dict)
    minutes: dict[MinutePlace, Minute | None] = field(default_factory=dict)

    def entries(self) -> Iterator[Entry]:
        if self.generation is not None:
            yield "generation", str(self.generation).encode()
        if self.epoch is not None:
            yield "epoch", str(self.epoch).encode()
        for key, job in self.jobs.items():
            yield f"job/{key}", None if job is None else _job_bytes(job)
        for number, record in self.records.items():
            yield f"record/{number}", None if record is None else _text(record[1:])
        for name, manifest in self.manifests.items():
            yield f"manifest/{name}", _text(astuple(manifest))
        for scope, pause in self.scopes.items():
            yield f"scope/{scope}", None if pause is None else _text(astuple(pause))
        for place, kept in self.answers.items():
            yield f"answer/{_TEXT.encode(place)}", None if kept is None else kept.to_bytes()
        for row, minute in self.minutes.items():
            yield f"minute/{_TEXT.encode(row)}", None if minute is None else to_text(minute).encode()

    def add(self, name: str, data: bytes) -> None:
        table, _, key = name.partition("/")
        match table:
            case "generation":
                self.generation = int(data)
            case "epoch":
                self.epoch = int(data)
            case "job":
                self.jobs[key] = _job_of(data)
            case "record":
                self.records[int(key)] = HistoryRecord(int(key), *json.loads(data))
            case "manifest":
                self.manifests[key] = Manifest(*json.loads(data))
            case "scope":
                self.scopes[key] = Pause(*json.loads(data))
            case "answer":
                token, part = json.loads(key)
                self.answers[token, part] = Kept.from_bytes(data)
            case "minute":
                span_ms, at, owner = json.loads(key)
                self.minutes[span_ms, at, owner] = of_text(owner, at, span_ms, data.decode())
            case _:
                what = f"no entry of a store is named {name!r}"
                raise ValueError(what)


def _text(values: Any) -> bytes:
    return _TEXT.encode(list(values)).encode()


def _job_bytes(job: Job) -> bytes:
    row = list(row_of(job))
    row[_PAYLOAD] = None
    text = _text(row)
    return _LENGTH.pack(len(text)) + text + job.payload


def _job_of(data: bytes) -> Job:
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    row = json.loads(data[_LENGTH.size : end])
    row[_PAYLOAD] = data[end:]
    return job_of(row)
