"""
Writes that join the caller's own transaction: they take effect if and only if the caller commits it.

They go past the writer, straight to the caller's connection. What they make pending is told to the scheduler that
fires it once the transaction has ended; the store follows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tickwheel.scheduler import checks
from tickwheel.scheduler.model import ANY_CLAIM, Answer, Cancel, Move, Set, Write
from tickwheel.scheduler.stores import Joins
from tickwheel.scheduler.verbs.requests import SetRequest, When, due_at

__all__ = ["Joining", "Within", "cancels", "moves"]


class Joining:
    """
    Writes about to be done on a connection.
    """

    def __init__(self, store: Joins, connection: object, writes: Sequence[Write]) -> None:
        self._store, self._connection, self._writes = store, connection, writes

    def now(self) -> list[Answer]:
        """
        Do them on a connection that blocks.
        """
        return self._store.join(self._connection, self._writes) if self._writes else []

    async def awaited(self) -> list[Answer]:
        """
        Do them on a connection that is awaited.
        """
        return await self._store.join_async(self._connection, self._writes) if self._writes else []


class Within:
    """
    The verbs within the transaction of *connection*.

    Args:
        store: Where the jobs are.
        connection: The caller's.
        set_write: Makes the write of a request, by the store's time.
        now_ms: Reads that.
    """

    def __init__(
        self,
        store: Joins,
        connection: object,
        set_write: Callable[[SetRequest, int], Set],
        now_ms: Callable[[], int],
    ) -> None:
        self._store, self._connection = store, connection
        self._set_write, self._now_ms = set_write, now_ms

    def set_many(self, requests: Iterable[SetRequest]) -> Joining:
        """
        Set jobs; all are checked first.
        """
        now = self._now_ms()
        writes = [replace(self._set_write(request, now), over=ANY_CLAIM) for request in requests]
        return Joining(self._store, self._connection, writes)

    def move(self, keys: Iterable[str], when: When, if_generation: int | None = None) -> Joining:
        """
        Move jobs to one instant.
        """
        return Joining(self._store, self._connection, moves(keys, when, if_generation, self._now_ms()))

    def cancel(self, keys: Iterable[str], if_generation: int | None = None) -> Joining:
        """
        Cancel jobs.
        """
        return Joining(self._store, self._connection, cancels(keys, if_generation))


def moves(keys: Iterable[str], when: When, if_generation: int | None, now: int, era: int | None = None) -> list[Write]:
    """
    Return the writes that move jobs to one instant, with the clock's *era* if it counts elapsed time.
    """
    due, generation = due_at(when.delay, when.at, now), checks.check_generation(if_generation)
    counted_in = era if when.at is None else None
    return [Move(key, due, generation, counted_in) for key in checks.check_keys(keys)]


def cancels(keys: Iterable[str], if_generation: int | None) -> list[Write]:
    """
    Return the writes that cancel jobs.
    """
    generation = checks.check_generation(if_generation)
    return [Cancel(key, generation) for key in checks.check_keys(keys)]
