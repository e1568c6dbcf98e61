"""
Internal: stores a service's replies to requests with idempotency keys, in the store of the service's scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tickwheel.client.client import Client
from tickwheel.jobs.model import Answer, Keep
from tickwheel.scheduler._async import AsyncScheduler

__all__ = ["Keeper", "keeper_of"]


@dataclass(frozen=True, slots=True)
class Keeper:
    """
    Stores the replies to a service's requests, so that a repeated request gets the stored reply.

    *keep* stores one reply. *is_whole* is True if the store has one transaction for all writes of a request. If False,
    a request must claim its idempotency key before its first write.
    """

    is_whole: bool  # if False, two requests with one idempotency key may write to different partitions
    keep: Callable[[Keep], Awaitable[Answer]]


def keeper_of(scheduler: AsyncScheduler) -> Keeper | None:
    client = scheduler._core.client  # noqa: SLF001  an attribute in the same package
    if not isinstance(client, Client) or not client.store.abilities.keeps_answers:
        return None

    async def keep(write: Keep) -> Answer:
        if client.is_stale:
            await asyncio.to_thread(client.refresh)
        return await scheduler._replies.awaitable(client.keep(write))  # noqa: SLF001  an attribute in the same package

    return Keeper(client.store.abilities.partitions == 1, keep)
