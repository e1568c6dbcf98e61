"""
A job as bytes: the value of its key in the hash of all jobs.

    place      20  due_at (plus 2**63), generation, attempt: big-endian, so that places sort as jobs fall due
    state       1  0, 2, 3 where it was set aside, or 6 where it is pending and paused; that a job runs is not written
                   here, but in the hash of what runs
    flags       1  which of the optional fields there are
    since       8  first_set_at
    lengths     6  of target and handler, which follow
    shard       2  where it is, if that is not the shard that its key had when the store was made
    optional       expires_at; retry, recurrence, error, trace and pause, each behind its length
    payload        the rest

The scripts read the place, the state, the flags of a recurrence and a shard, both of these, the target
and the handler, and write the shard; a member of a set of what is due is a place and a key.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from tickwheel.scheduler.columns import pause_text
from tickwheel.scheduler.model import Job, State
from tickwheel.scheduler.stores._rows import ASIDE, CODES, PAUSED, job_of, row_of

__all__ = ["Row", "blob_of", "instant", "place_of", "read_rows", "running_mark"]

_PLACE: Final = struct.Struct(">QQI")
_HEAD: Final = struct.Struct(">QQIBBqHI")
_MARK: Final = struct.Struct(">QQIH")
_FRAME: Final = struct.Struct(">III")
_U64: Final = struct.Struct(">Q")
_U16: Final = struct.Struct(">H")
_I64: Final = struct.Struct(">q")
_U32: Final = struct.Struct(">I")

_BIAS: Final = 2**63
_KEPT: Final = (CODES[State.DEAD], ASIDE, PAUSED)
_RUNNING: Final = CODES[State.RUNNING]
_USUAL_TARGET: Final = "handler"
_HAS_TARGET: Final = 1
_HAS_EXPIRY: Final = 2
_FIRST_TEXT: Final = 4
"""The bit of the first of four optional texts."""
_HAS_SHARD: Final = 64
"""Kept while it is pending there or runs; whatever writes the job otherwise leaves it out."""
_HAS_PAUSE: Final = 128


@dataclass(frozen=True, slots=True)
class Row:
    """
    A job as it was read.

    Attributes:
        job: What it says.
        head: Its bytes before the payload, which no two versions of a job share.
        running: What the hash of what runs has of it, or nothing.
        shard: Where it is, or None for the shard that its key had when the store was made.
    """

    job: Job
    head: bytes
    running: bytes
    shard: int | None = None


def instant(due_at: int) -> bytes:
    """
    Return *due_at* as bytes that sort like it.
    """
    return _U64.pack(due_at + _BIAS)


def place_of(job: Job) -> bytes:
    """
    Return the place of *job* among what is due.
    """
    return _PLACE.pack(job.due_at + _BIAS, job.generation, job.attempt)


def running_mark(job: Job, shard: int) -> bytes:
    """
    Return what is noted of *job* while it runs, with the attempt that was begun.
    """
    return _MARK.pack(job.due_at + _BIAS, job.generation, job.attempt, shard)


def blob_of(job: Job, shard: int | None = None) -> bytes:
    """
    Return *job* as bytes, without its key; *shard* is where it is, if that is not the one that its key had at first.

    Raises:
        struct.error: If a number is too large.
        UnicodeError: If a text cannot be encoded.
    """
    row = row_of(job)
    payload, retry, expires_at, state, first_set_at = row[3], row[7], row[8], row[10], row[13]
    flags = 0
    target, handler = b"", job.handler.encode()
    if job.target != _USUAL_TARGET:
        flags |= _HAS_TARGET
        target = job.target.encode()
    optional = []
    if shard is not None:
        flags |= _HAS_SHARD
        optional.append(_U16.pack(shard))
    if expires_at is not None:
        flags |= _HAS_EXPIRY
        optional.append(_I64.pack(expires_at))
    bit = _FIRST_TEXT
    for text in (retry, row[9], row[11], row[12]):
        if text is not None:
            flags |= bit
            encoded = text.encode()
            optional.append(_U32.pack(len(encoded)) + encoded)
        bit <<= 1
    if job.pause is not None:
        flags |= _HAS_PAUSE
        pause = pause_text(job.pause).encode()
        optional.append(_U32.pack(len(pause)) + pause)
    head = _HEAD.pack(
        job.due_at + _BIAS,
        job.generation,
        job.attempt,
        state if state in _KEPT else 0,
        flags,
        first_set_at,
        len(target),
        len(handler),
    )
    return b"".join((head, target, handler, *optional, payload))


def read_rows(frames: bytes) -> list[Row]:
    """
    Return the jobs in *frames*, each of which is three lengths, the key, the blob, and the running mark.
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
    due_at, generation, attempt, state, flags, first_set_at, target_size, handler_size = _HEAD.unpack_from(blob)
    handler_at = _HEAD.size + target_size
    at = handler_at + handler_size
    target = blob[_HEAD.size : handler_at].decode() if flags & _HAS_TARGET else _USUAL_TARGET
    handler = blob[handler_at:at].decode()
    shard = None
    if flags & _HAS_SHARD:
        (shard,) = _U16.unpack_from(blob, at)
        at += _U16.size
    expires_at = None
    retry = recurrence = error = trace = None
    if flags & _HAS_EXPIRY:
        (expires_at,) = _I64.unpack_from(blob, at)
        at += _I64.size
    if flags >= _FIRST_TEXT:
        texts: list[str | None] = []
        for bit in (_FIRST_TEXT, _FIRST_TEXT << 1, _FIRST_TEXT << 2, _FIRST_TEXT << 3):
            text = None
            if flags & bit:
                (size,) = _U32.unpack_from(blob, at)
                at += _U32.size
                text = blob[at : at + size].decode()
                at += size
            texts.append(text)
        retry, recurrence, error, trace = texts
    pause = None
    if flags & _HAS_PAUSE:
        (size,) = _U32.unpack_from(blob, at)
        at += _U32.size
        pause = blob[at : at + size].decode()
        at += size
    if mark:
        state, attempt = _RUNNING, _MARK.unpack(mark)[2]
    job = job_of(
        (
            key,
            generation,
            due_at - _BIAS,
            blob[at:],
            target,
            handler,
            attempt,
            retry,
            expires_at,
            recurrence,
            state,
            error,
            trace,
            first_set_at,
            pause,
        )
    )
    return Row(job, blob[:at], mark, shard)
