"""
Batches that fit into one statement. The statement is a transaction of its own.

Such a batch sets plain jobs, moves or cancels one plain job, or claims and ends jobs of an owner. The statement checks
its assumptions about the stored jobs. If one is wrong, the statement writes nothing: it fails, or returns no row. Then
`_batch.py` reads the jobs and writes the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from tickwheel.jobs.columns import ALL
from tickwheel.jobs.model import Answer, Begin, Cancel, Move, Outcome, Set, Settle, Settled, Write
from tickwheel.jobs.rows import job_of
from tickwheel.jobs.rules import BEGUN, GONE, created, is_plain_set
from tickwheel.stores._sharding import shards_of
from tickwheel.stores.postgres._arrays import ARRAY_TYPES, Array, Byteas, Int4s, Int8s, Texts

__all__ = ["Alone", "change_alone", "firings_alone", "sets_alone"]

_Row: TypeAlias = tuple[Any, ...]

_RETRY: Final = next(column for column in ALL if column.name == "retry")
_NONE: Final[dict[type[Array], Array]] = {kind: kind.of(()) for kind in ARRAY_TYPES}
_COLUMNS: Final[tuple[tuple[str, str, type[Array], Callable[[Any], Any] | None], ...]] = (
    ("counted_from", "counted", Int8s, None),
    ("due_at", "dues", Int8s, None),
    ("payload", "payloads", Byteas, None),
    ("target", "targets", Texts, None),
    ("handler", "handlers", Texts, None),
    ("retry", "retries", Texts, _RETRY.encode),
    ("expires_at", "expiries", Int8s, None),
    ("trace", "traces", Texts, None),
)
"""For each column: its parameter as one value, its parameter as an array, its type, and a conversion."""
_VALUES: Final = attrgetter("due_at", "payload", "target", "handler", "retry", "expires_at", "trace")
_SECOND: Final = itemgetter(1)
_LAST: Final = itemgetter(-1)
_DONE: Final = Settled.DONE  # a constant, as an enum look-up is slow
_NO_INTS: Final = Int4s.of(()), Int8s.of(()), Int8s.of(())


@dataclass(slots=True)
class Alone:
    """
    A batch that one statement writes.

    Attributes:
        answered: Returns the answers to the writes, from the statement's row.
        begun: Generations of the claimed jobs. A claim also needs a `slot` (see `_begun`).
        now_of: Returns the server's time, from the row. None if no job becomes pending.
        returns_job: True if the row is a job or missing; if False, the row has integers and arrays of integers.
    """

    name: str
    values: dict[str, Any]
    answered: Callable[[_Row], list[Answer]]
    noted: Collection[int] = ()
    begun: Sequence[int] = ()
    ended: Sequence[int] = ()
    now_of: Callable[[_Row], int] | None = None
    returns_job: bool = False


def sets_alone(writes: Sequence[Write], shards: int, owned: frozenset[int]) -> Alone | None:
    if len(writes) == 1:
        return _set_alone(writes[0], shards, owned)
    plain = [write for write in writes if isinstance(write, Set) and is_plain_set(write)]
    keys = [write.job.key.encode() for write in plain]
    if len(keys) < len(writes) or len(set(keys)) < len(keys):
        return None
    places = sorted(range(len(keys)), key=keys.__getitem__)
    ordered = [plain[place] for place in places]
    keys.sort()
    homes = shards_of(keys, shards)
    others = {*homes} - owned
    values: dict[str, Any] = {
        "keys": Texts.of_bytes(keys),
        "places": Int4s.of([place + 1 for place in places]),
        "shards": Int4s.of(homes),
        "others": Int4s.of(sorted(others)) if others else _NONE[Int4s],
    }
    columns = zip(*[_VALUES(write.job) for write in ordered], strict=True)
    counted = [write.counted_from for write in ordered]
    for (one, many, kind, encode), column in zip(_COLUMNS, (counted, *columns), strict=True):
        first = column[0]
        if column.count(first) == len(column):
            values[one], values[many] = _checked(encode(first) if encode else first), _NONE[kind]
        else:
            values[one], values[many] = None, kind.of([*map(encode, column)] if encode else column)
    return Alone("set_new", values, lambda row: _created(plain, row), others, now_of=_SECOND)


def _set_alone(write: Write, shards: int, owned: frozenset[int]) -> Alone | None:
    if not isinstance(write, Set) or not is_plain_set(write):
        return None
    job = write.job
    (shard,) = shards_of((job.key.encode(),), shards)
    is_noted = shard not in owned
    values = {
        "key": job.key,
        "shard": shard,
        "is_noted": is_noted,
        "counted_from": _checked(write.counted_from),
        "due_at": _checked(job.due_at),
        "payload": job.payload,
        "target": job.target,
        "handler": job.handler,
        "retry": _RETRY.encode(job.retry) if _RETRY.encode else job.retry,
        "expires_at": _checked(job.expires_at),
        "trace": job.trace,
    }
    noted = (shard,) if is_noted else ()
    return Alone("set_one", values, lambda row: [created(write, row[2], row[1])], noted, now_of=_SECOND)


def change_alone(write: Move | Cancel, shards: int, owned: frozenset[int]) -> Alone | None:
    actor = write.actor
    if write.once is not None or (actor is not None and actor.is_always):
        return None
    values: dict[str, Any] = {"key": write.key, "generation": _checked(write.if_generation)}
    if isinstance(write, Cancel):
        if write.under is not None:
            return None
        return Alone("cancel_one", values, lambda row: [Answer(Outcome.CANCELLED, job_of(row))], returns_job=True)
    (shard,) = shards_of((write.key.encode(),), shards)
    is_noted = shard not in owned
    values |= {
        "shard": shard,
        "is_noted": is_noted,
        "due_at": _checked(write.due_at),
        "counted_from": _checked(write.counted_from),
    }
    noted = (shard,) if is_noted else ()
    return Alone("move_one", values, _moved, noted, now_of=_LAST, returns_job=True)


def _moved(row: _Row) -> list[Answer]:
    return [Answer(Outcome.MOVED, job_of(row))]


def _checked(value: Any) -> Any:
    if type(value) is int:
        value.to_bytes(8, "big", signed=True)  # raises an error here, as an array does
    return value


def _created(writes: Sequence[Set], row: _Row) -> list[Answer]:
    _, now, first, numbers = row
    generations = range(first, first + len(writes)) if numbers is None else numbers
    return [created(write, generation, now) for write, generation in zip(writes, generations, strict=True)]


def firings_alone(writes: Sequence[Write], held: Mapping[int, int], owner: str | None) -> Alone | None:
    """
    Return one statement that applies all of *writes*, or None if that is impossible.

    It is possible for claims, and for acknowledgements of plain successes, by *owner* under its leases. *held* maps the
    epochs of these leases to shards.
    """
    if owner is None:
        return None
    begins: list[tuple[int, int, int]] = []
    ends: list[tuple[int, int, int]] = []
    epochs: dict[int, int] = {}
    keys: list[bytes] = []
    answers: list[Answer] = []
    for write in writes:
        if isinstance(write, Begin):
            places, answer = begins, BEGUN
            keys.append(write.job.key.encode())
        elif isinstance(write, Settle) and _is_plain_end(write):
            places, answer = ends, GONE
        else:
            return None
        shard = held.get(write.epoch)
        if shard is None:
            return None
        epochs[shard] = write.epoch
        job = write.job
        places.append((shard, job.due_at, job.generation))
        answers.append(answer)
    shards = sorted(epochs)
    values: dict[str, Any] = {
        "shards": Int4s.of(shards),
        "epochs": Int8s.of([epochs[shard] for shard in shards]),
        "owner": owner,
        "keys": Texts.of_bytes(keys) if keys else _NONE[Texts],
    }
    for name, places in (("begun", begins), ("ended", ends)):
        values[f"{name}_in"], values[f"{name}_dues"], values[name] = _places_of(places)
    begun, ended = ([generation for _, _, generation in places] for places in (begins, ends))
    return Alone("turn", values, lambda _row: answers, begun=begun, ended=ended)


def _is_plain_end(write: Settle) -> bool:
    job = write.job
    is_over = write.how is _DONE and write.due_at is None and write.record is None
    return is_over and job.recurrence is None and job.manifest is None


def _places_of(places: list[tuple[int, int, int]]) -> tuple[Array, Array, Array]:
    if not places:
        return _NO_INTS
    shards, dues, generations = zip(*sorted(places), strict=True)  # all statements lock jobs in this order
    return Int4s.of(shards), Int8s.of(dues), Int8s.of(generations)
