from __future__ import annotations

import json
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from tickwheel.jobs.columns import NAMES
from tickwheel.jobs.model import Answer, Job, Outcome, Recalled, Write
from tickwheel.jobs.once import Keep, Once
from tickwheel.jobs.rows import job_of, row_of
from tickwheel.jobs.rules import is_undecided

__all__ = ["PRUNED_AT_ONCE", "Kept", "Onces", "Place", "once_of"]

Place: TypeAlias = tuple[str, str]
"""The idempotency token of a request, and the name of a write within the request."""

PRUNED_AT_ONCE: Final = 2
"""Maximum number of expired answers that are deleted when a new answer is stored."""

_PAYLOAD: Final = NAMES.index("payload")
_GENERATION: Final = NAMES.index("generation")
_HEAD: Final = Struct(">qq32s")
_LENGTH: Final = Struct(">I")
_TEXT: Final = json.JSONEncoder(separators=(",", ":"))


class Kept(NamedTuple):
    """
    A stored answer to one write, or a stored reply to a whole request. A repeated request gets it again.

    Attributes:
        asked: The digest of the request.
        until: Store time at which the answer expires.
        generation: The generation of the job in the answer, or 0. A server that assigns generations fills it in.
        data: The rest of the answer; b"" while the request has only been claimed (see `Keep`).
    """

    asked: str
    until: int
    generation: int
    data: bytes

    def to_bytes(self) -> bytes:
        """
        Return the stored form.
        """
        return _HEAD.pack(self.generation, self.until, self.asked.encode()) + self.data

    @classmethod
    def from_bytes(cls, data: bytes) -> Kept:
        """
        Return the answer that `to_bytes` has stored.
        """
        generation, until, asked = _HEAD.unpack_from(data)
        return cls(asked.decode(), until, generation, data[_HEAD.size :])


def once_of(write: Write) -> Once | None:
    return getattr(write, "once", None)


class Onces:
    """
    The stored answers to marked writes (see `Once`) that a batch needs.

    Attributes:
        changed: The new answers, by `Place`. None deletes a stored answer.
    """

    __slots__ = ("_asked", "_now", "_rows", "changed")

    def __init__(self, stored: Iterable[tuple[Place, Kept]], now: int) -> None:
        self._now = now
        self._rows: dict[Place, Kept] = {place: kept for place, kept in stored if kept.until > now}
        self._asked = {token: kept.asked for (token, _), kept in self._rows.items()}
        self.changed: dict[Place, Kept | None] = {}

    def answer(self, write: Write) -> Answer | None:
        """
        Return the answer to *write* if its idempotency key (see `Once`) decides it; None if the write must be applied.
        """
        once = once_of(write)
        if once is None:
            return None
        if self._asked.get(once.token, once.asked) != once.asked:
            return Answer(Outcome.KEY_REUSED)
        kept = self._rows.get((once.token, once.part))
        if isinstance(write, Keep):
            return self._keep(write, kept)
        return None if kept is None else _answer_of(kept, write)

    def note(self, write: Write, answer: Answer) -> None:
        """
        Store *answer* for repetitions of *write*, if *write* is marked (see `Once`) and the answer is final.
        """
        once = once_of(write)
        if once is not None and not is_undecided(write, answer):
            self._put(once, *_data_of(write, answer))

    def _keep(self, write: Keep, kept: Kept | None) -> Answer:
        once, data = write.once, write.data
        if kept is not None and kept.data:
            return Recalled(Outcome.KEPT, None, kept.data)
        if data is None:
            if kept is not None:
                del self._rows[once.token, once.part]
                self.changed[once.token, once.part] = None
        elif kept is not None and not data:
            return Answer(Outcome.TOO_LATE)
        else:
            self._put(once, 0, data)
        return Answer(Outcome.CREATED)

    def _put(self, once: Once, generation: int, data: bytes) -> None:
        kept = Kept(once.asked, self._now + once.lasts_ms, generation, data)
        self._rows[once.token, once.part] = self.changed[once.token, once.part] = kept
        self._asked[once.token] = once.asked


def _data_of(write: Write, answer: Answer) -> tuple[int, bytes]:
    job = answer.job
    row, generation, payload = None, 0, b""
    if job is not None:
        row = list(row_of(job))
        generation, payload = row[_GENERATION], row[_PAYLOAD]
        row[_GENERATION] = row[_PAYLOAD] = None
    is_sent = job is not None and payload == _sent(write)
    text = _TEXT.encode([answer.outcome.value, is_sent, row]).encode()
    return generation, _LENGTH.pack(len(text)) + text + (b"" if is_sent else payload)


def _answer_of(kept: Kept, write: Write) -> Answer:
    (length,) = _LENGTH.unpack_from(kept.data)
    end = _LENGTH.size + length
    word, is_sent, row = json.loads(kept.data[_LENGTH.size : end])
    job: Job | None = None
    if row is not None:
        row[_GENERATION], row[_PAYLOAD] = kept.generation, _sent(write) if is_sent else kept.data[end:]
        job = job_of(row)
    return Recalled(Outcome(word), job)


def _sent(write: Write) -> bytes | None:
    job: Job | None = getattr(write, "job", None)
    return None if job is None else job.payload
