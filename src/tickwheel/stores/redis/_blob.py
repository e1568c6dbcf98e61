"""
A job as bytes: the value of its key in the hash of all jobs.

    part    bytes  contents
    place      28  due_at (plus 2**63), generation, attempt: big-endian, so that places sort by due time; then
                   checksums of the target and the lane, so that a scan can skip lanes
    state       1  0 pending, 2 dead, 3 unroutable ("aside"), 6 paused; running jobs are in another hash
    flags       2  which optional parts are present: target, shard, and each of the other columns
    since       8  first_set_at
    lengths     6  lengths of the target and the handler
    target, handler
    shard       2  the job's shard, if it differs from the key's shard when the store was created
    columns        other columns that differ from a plain job's, in order, each after its length
    payload        the rest

The scripts read some of these parts and write the shard; `CONSTANTS` has their positions and flags. A member of a set
of due jobs is a place and a key.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Any, Final

from tickwheel.jobs.columns import ALL, NAMES, PLAIN
from tickwheel.jobs.history import ACTS_MAX
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job, State
from tickwheel.jobs.rows import ASIDE, CODES, PAUSED, is_plain, job_of, row_of

__all__ = [
    "CONSTANTS",
    "LAYOUT",
    "Row",
    "blob_of",
    "instant",
    "lane_mark",
    "place_in",
    "place_of",
    "read_rows",
    "running_mark",
]

_PLACE: Final = struct.Struct(">QQI8s")
_HEAD: Final = struct.Struct(">QQI8sBHqHI")
_MARK: Final = struct.Struct(">QQI8sH")
_START: Final = struct.Struct(">QQ")
_FRAME: Final = struct.Struct(">III")
_U64: Final = struct.Struct(">Q")
_U16: Final = struct.Struct(">H")
_I64: Final = struct.Struct(">q")
_U32: Final = struct.Struct(">I")

_BIAS: Final = 2**63
_KEPT: Final = (CODES[State.DEAD], ASIDE, PAUSED)
_PENDING: Final = CODES[State.PENDING]
_RUNNING: Final = CODES[State.RUNNING]
_USUAL_TARGET: Final = "handler"
_HAS_TARGET: Final = 1
_HAS_SHARD: Final = 2
"""Flag of a stored job whose shard is stored with it. A write clears the flag, unless the job stays in that shard."""
_FIRST_COLUMN: Final = 4

_HEADED: Final = (*PLAIN, "attempt", "state")
"""The columns with a fixed position in the stored form of a job (see the module)."""
_OTHERS: Final = tuple(
    (n, column.name, _FIRST_COLUMN << bit, column.kind, column.empty)
    for bit, (n, column) in enumerate((n, column) for n, column in enumerate(ALL) if column.name not in _HEADED)
)
"""For each column without a fixed position in the stored job: its index in the row, name, flag, type and default."""
_EMPTY: Final = [column.empty for column in ALL]
_KEY, _GENERATION, _DUE_AT, _PAYLOAD, _TARGET, _HANDLER, _ATTEMPT, _STATE, _FIRST_SET_AT = (
    NAMES.index(name)
    for name in (
        *("key", "generation", "due_at", "payload", "target"),
        *("handler", "attempt", "state", "first_set_at"),
    )
)

_FLAGS_AT: Final = _PLACE.size + 1  # after the state
_SIZES_AT: Final = _FLAGS_AT + _U16.size + _I64.size
CONSTANTS: Final = "".join(
    f"local {name} = {value}\n"
    for name, value in {
        "PLACE": _PLACE.size,
        "LANE": _PLACE.size - 7,
        "STATE": _PLACE.size + 1,
        "FLAGS": _FLAGS_AT + 1,
        "SIZES": _SIZES_AT + 1,
        "HEAD": _HEAD.size,
        "HAS_TARGET": _HAS_TARGET,
        "HAS_SHARD": _HAS_SHARD,
        "ACTS_MAX": ACTS_MAX,
        "FIRST_COLUMN": _FIRST_COLUMN,
        "LAST_COLUMN": _OTHERS[-1][2],
        **{
            f"HAS_{name.upper()}": flag
            for _, name, flag, *_ in _OTHERS
            if name in {"recurrence", "error", "pause", "manifest"}
        },
    }.items()
)
"""Constants of the scripts, in Lua: lengths, positions (from 1) and flags of the stored form of a job."""

LAYOUT: Final = sha256(f"{_HEAD.format} {_MARK.format} {_OTHERS}".encode()).hexdigest()[:16]
"""Checksum of the layout of stored jobs. A store with another checksum is not read."""


@dataclass(frozen=True, slots=True)
class Row:
    """
    A job as it was read. If *shard* is None, the job is in the shard that its key had when the store was created.
    """

    job: Job
    head: bytes
    running: bytes
    shard: int | None = None


def instant(due_at: int) -> bytes:
    return _U64.pack(due_at + _BIAS)


def place_of(job: Job) -> bytes:
    return _PLACE.pack(job.due_at + _BIAS, job.generation, job.attempt, lane_mark(lane_of(job.target, job.handler)))


def place_in(start: bytes) -> tuple[int, int]:
    due_at, generation = _START.unpack(start)
    return due_at - _BIAS, generation


@lru_cache(maxsize=4_096)
def lane_mark(lane: str) -> bytes:
    """
    Return the checksums of *lane*'s target and of *lane*, which each stored job contains so that scans can skip lanes.
    """
    return target_mark(lane.partition(":")[0]) + blake2b(lane.encode(), digest_size=6).digest()


def target_mark(target: str) -> bytes:
    return blake2b(target.encode(), digest_size=2).digest()


def running_mark(job: Job, shard: int) -> bytes:
    return place_of(job) + _U16.pack(shard)


def blob_of(job: Job, shard: int | None = None) -> bytes:
    flags, state = 0, _PENDING
    target, handler = b"", job.handler.encode()
    if job.target != _USUAL_TARGET:
        flags |= _HAS_TARGET
        target = job.target.encode()
    optional = []
    if shard is not None:
        flags |= _HAS_SHARD
        optional.append(_U16.pack(shard))
    if not is_plain(job):
        row = row_of(job)
        state = row[_STATE] if row[_STATE] in _KEPT else _PENDING
        for index, _, flag, kind, empty in _OTHERS:
            value = row[index]
            if value != empty:
                flags |= flag
                encoded = _encoded(kind, value)
                optional += (_U32.pack(len(encoded)), encoded)
    head = _HEAD.pack(
        job.due_at + _BIAS,
        job.generation,
        job.attempt,
        lane_mark(lane_of(job.target, job.handler)),
        state,
        flags,
        job.first_set_at,
        len(target),
        len(handler),
    )
    return b"".join((head, target, handler, *optional, job.payload))


def read_rows(frames: bytes) -> list[Row]:
    """
    Return the jobs in *frames*. A frame has three lengths, then the key, the stored job, and the data of a running job.
    """
    rows = []
    start = 0
    while start < len(frames):
        key_size, blob_size, mark_size = _FRAME.unpack_from(frames, start)
        key_at = start + _FRAME.size
        blob_at = key_at + key_size
        mark_at = blob_at + blob_size
        start = mark_at + mark_size
        rows.append(_row_of(frames[key_at:blob_at].decode(), frames[blob_at:mark_at], frames[mark_at:start]))
    return rows


def _row_of(key: str, blob: bytes, mark: bytes) -> Row:
    due_at, generation, attempt, _, state, flags, first_set_at, target_size, handler_size = _HEAD.unpack_from(blob)
    handler_at = _HEAD.size + target_size
    at = handler_at + handler_size
    target = blob[_HEAD.size : handler_at].decode() if flags & _HAS_TARGET else _USUAL_TARGET
    handler = blob[handler_at:at].decode()
    shard = None
    if flags & _HAS_SHARD:
        (shard,) = _U16.unpack_from(blob, at)
        at += _U16.size
    row = [*_EMPTY]
    if flags >= _FIRST_COLUMN:
        for index, _, flag, kind, _ in _OTHERS:
            if flags & flag:
                (size,) = _U32.unpack_from(blob, at)
                at += _U32.size
                row[index] = _decoded(kind, blob[at : at + size])
                at += size
    if mark:
        state, attempt = _RUNNING, _MARK.unpack(mark)[2]
    row[_PAYLOAD], row[_STATE], row[_ATTEMPT] = blob[at:], state, attempt
    row[_KEY], row[_GENERATION], row[_DUE_AT] = key, generation, due_at - _BIAS
    row[_TARGET], row[_HANDLER], row[_FIRST_SET_AT] = target, handler, first_set_at
    return Row(job_of(row), blob[:at], mark, shard)


def _encoded(kind: str, value: Any) -> bytes:
    if kind == "text":
        return str(value).encode()
    return value if kind == "bytes" else _I64.pack(value)


def _decoded(kind: str, value: bytes) -> Any:
    if kind == "text":
        return value.decode()
    return value if kind == "bytes" else _I64.unpack(value)[0]
