"""
Writes in the caller's own transaction, which take effect if and only if the caller commits that transaction.

The writes bypass the writer and use the caller's connection. When the transaction has ended, the store notifies the
firing scheduler of pending jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tickwheel.host.joined_connections import unwrapped, unwrapped_async
from tickwheel.host.store_clock import StoreClock
from tickwheel.jobs.model import ANY_ATTEMPT, Actor, Answer, Set, Write
from tickwheel.jobs.requests import SetRequest
from tickwheel.jobs.verbs import SetWrites, Verb, writes_of
from tickwheel.stores import Joins

__all__ = ["Joining", "TransactionClient"]


class Joining:
    def __init__(self, store: Joins, connection: object, writes: Sequence[Write]) -> None:
        self._store, self._connection, self._writes = store, connection, writes

    def now(self) -> list[Answer]:
        return self._store.join(unwrapped(self._connection), self._writes) if self._writes else []

    async def awaited(self) -> list[Answer]:
        if not self._writes:
            return []
        return await self._store.join_async(await unwrapped_async(self._connection), self._writes)


class TransactionClient:
    def __init__(
        self,
        store: Joins,
        connection: object,
        set_writes: SetWrites,
        clock: StoreClock,
        *,
        actor: Actor | None,
        owner: str,
    ) -> None:
        self._store, self._connection = store, connection
        self._set_writes, self._clock, self._actor, self._owner = set_writes, clock, actor, owner

    def submit(self, verb: Verb) -> Joining:
        now, _, latest = self._clock.reading_for_delay()
        writes = writes_of(
            verb,
            self._over_any,
            now,
            None,
            latest,
            is_estimate=self._clock.is_sampled,
            actor=self._actor,
            owner=self._owner,
        )
        return Joining(self._store, self._connection, writes)

    def _over_any(
        self, requests: Iterable[SetRequest], now: int, clock_step: int | None, latest: int | None
    ) -> list[Set]:
        return [replace(write, over=ANY_ATTEMPT) for write in self._set_writes(requests, now, clock_step, latest)]
