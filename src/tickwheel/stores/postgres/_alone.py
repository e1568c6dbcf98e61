"""
Batches that one statement writes, which is a transaction of its own: plain sets, and the firings of an owner.

The statement checks its guesses, and fails if one of them was wrong. Then nothing is written, and `_batch.py` writes
the batch, with reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeAlias

from tickwheel.jobs.columns import ALL
from tickwheel.jobs.model import Answer, Begin, Set, Settle, Settled, Write
from tickwheel.jobs.rules import BEGUN, GONE, created, is_plain_set
from tickwheel.stores.postgres._arrays import Array, Byteas, Int4s, Int8s, Texts

__all__ = ["Alone", "firings_alone", "sets_alone"]

_Row: TypeAlias = tuple[Any, ...]

_RETRY: Final = next(column for column in ALL if column.name == "retry")
_FIRST: Final = itemgetter(0)
_DONE: Final = Settled.DONE  # an enum is slow to look into
_NO_INTS: Final = Int4s.of(()), Int8s.of(()), Int8s.of(())


@dataclass(slots=True)
class Alone:
    """
    A batch of one statement.

    Attributes:
        name: The name of the statement.
        values: Its values.
        answered: Returns the answers to the writes, given the row that the statement returns.
        noted: The shards whose owners are to be notified.
    """

    name: str
    values: dict[str, Any]
    answered: Callable[[_Row], list[Answer]]
    noted: Collection[int] = ()


def sets_alone(writes: Sequence[Write], shard_of: Callable[[str], int], owned: frozenset[int]) -> Alone | None:
    """
    Return the statement for *writes* if all are plain sets of different keys, which may have no jobs; else None.

    The owner of the shards *owned* learns of these writes without a note.
    """
    plain: list[Set] = []
    for write in writes:
        if not (isinstance(write, Set) and is_plain_set(write)):
            return None
        plain.append(write)
    keys = [write.job.key for write in plain]
    places: Sequence[int] = range(1, len(keys) + 1)
    ordered = plain
    if len(keys) > 1:
        if len(set(keys)) < len(keys):
            return None
        keys, places, ordered = map(list, zip(*sorted(zip(keys, places, plain, strict=True), key=_FIRST), strict=True))
    jobs = [write.job for write in ordered]
    shards = [*map(shard_of, keys)]
    values = {
        "keys": Texts.of(keys),
        "places": Int4s.of(places),
        "dues": Int8s.of([job.due_at for job in jobs]),
        "counted": Int8s.of([write.counted_from for write in ordered]),
        "payloads": Byteas.of([job.payload for job in jobs]),
        "targets": Texts.of([job.target for job in jobs]),
        "handlers": Texts.of([job.handler for job in jobs]),
        "retries": _retries_of([job.retry for job in jobs]),
        "expiries": Int8s.of([job.expires_at for job in jobs]),
        "traces": Texts.of([job.trace for job in jobs]),
        "shards": Int4s.of(shards),
        "owned": Int4s.of(sorted(owned)),
    }
    return Alone("set_new", values, lambda row: _created(plain, row), set(shards) - owned)


def _retries_of(policies: list[Any]) -> Array:
    default, empty, encode = _RETRY.default, _RETRY.empty, _RETRY.encode
    assert encode is not None
    if all(policy is default for policy in policies):
        return Texts.of([empty] * len(policies))
    return Texts.of([empty if policy is default else encode(policy) for policy in policies])


def _created(writes: Sequence[Set], row: _Row) -> list[Answer]:
    _, now, first, numbers = row
    generations = range(first, first + len(writes)) if numbers is None else numbers
    return [created(write, generation, now) for write, generation in zip(writes, generations, strict=True)]


def firings_alone(writes: Sequence[Write], held: Mapping[int, int], owner: str | None) -> Alone | None:
    """
    Return the statement for *writes* if all are begins and plain ends of *owner*, under leases that it has; else None.

    *held* has the shards by the epochs of these leases.
    """
    if owner is None:
        return None
    begins: list[tuple[int, int, int]] = []
    ends: list[tuple[int, int, int]] = []
    epochs: dict[int, int] = {}
    answers: list[Answer] = []
    for write in writes:
        if isinstance(write, Begin):
            places, answer = begins, BEGUN
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
    running = Counter(map(_FIRST, begins))
    running.subtract(map(_FIRST, ends))
    shards = sorted(epochs)
    values: dict[str, Any] = {
        "shards": Int4s.of(shards),
        "epochs": Int8s.of([epochs[shard] for shard in shards]),
        "running": Int8s.of([running[shard] for shard in shards]),
        "owner": owner,
    }
    for name, places in (("begun", begins), ("ended", ends)):
        values[f"{name}_in"], values[f"{name}_dues"], values[name] = _places_of(places)
    return Alone("turn", values, lambda _row: answers)


def _is_plain_end(write: Settle) -> bool:
    job = write.job
    is_over = write.how is _DONE and write.due_at is None and write.record is None
    return is_over and job.recurrence is None and job.manifest is None


def _places_of(places: list[tuple[int, int, int]]) -> tuple[Array, Array, Array]:
    if not places:
        return _NO_INTS
    shards, dues, generations = zip(*sorted(places), strict=True)  # the order of all locks on jobs
    return Int4s.of(shards), Int8s.of(dues), Int8s.of(generations)
