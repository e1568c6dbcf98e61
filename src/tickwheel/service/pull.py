"""
Pull workers: lease what is due, in one long poll; acknowledge, refuse or extend it.

A worker that goes away while it waits takes nothing with it: firings are leased when they are answered, not before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from tickwheel.scheduler import AsyncScheduler, JobLease
from tickwheel.service.bodies import AckBody, ExtendBody, LeaseBody, NackBody
from tickwheel.service.documents import JobDocument, Moment, instant, job_document
from tickwheel.service.guard import expired, remaining_s
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import read_body
from tickwheel.service.options import ServiceOptions
from tickwheel.service.replies import document_reply
from tickwheel.service.strict_json import decode

__all__ = ["EndedDocument", "ExtendedDocument", "LeasesDocument", "Pulls"]

_LEASE: Final = msgspec.json.Decoder(LeaseBody)
_ACK: Final = msgspec.json.Decoder(AckBody)
_NACK: Final = msgspec.json.Decoder(NackBody)
_EXTEND: Final = msgspec.json.Decoder(ExtendBody)


class LeaseDocument(Struct, frozen=True):
    """
    One firing in a worker's hands: `job` is as it was before; `attempt` is this one.
    """

    fire_id: str
    attempt: int
    is_last_attempt: bool
    until: Moment
    job: JobDocument


class LeasesDocument(Struct, frozen=True):
    """
    The firings that were leased, in the order of their instants; none, where none fell due in time.
    """

    leases: list[LeaseDocument]


class EndedDocument(Struct, frozen=True):
    """
    The outcome of the end of a lease.
    """

    outcome: Literal["acknowledged", "refused"]


class ExtendedDocument(Struct, frozen=True):
    """
    The new end of a lease.
    """

    until: Moment


class Pulls:
    """
    The operations of workers, one method each.
    """

    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions) -> None:
        """
        Hand out the firings of *scheduler*.
        """
        self._scheduler = scheduler
        self._options = options
        self._waiting: set[asyncio.Future[Sequence[JobLease]]] = set()
        self._is_closing = False

    def end(self) -> None:
        """
        Answer all that wait with what there is: nothing; called on the loop when a stop begins.
        """
        self._is_closing = True
        for waiting in self._waiting:
            waiting.cancel()

    async def lease(self, call: Request) -> Reply:
        """
        Lease due firings of a queue, waiting for the first.

        A queue holds the jobs with `"target": "pull"` and its name as their `handler`. Each firing is to be ended with
        `:ack` or `:nack` before its lease is over; otherwise the attempt has failed, and is repeated by the job's retry
        policy. Without a firing in the time given, `leases` is empty: ask again.
        """
        body = decode(await read_body(call, self._options.body_bytes_max), _LEASE)
        wait = 0.0 if self._is_closing else body.wait
        leasing = self._scheduler.lease(body.queue, limit=body.limit, wait=wait, seconds=body.seconds)
        leases = await self._unless_gone(asyncio.ensure_future(leasing), call)
        return document_reply(LeasesDocument([_document(lease) for lease in leases]))

    async def ack(self, call: Request) -> Reply:
        """
        End a leased firing as done.

        The same request again is answered alike. A late one is refused with 409, which says what has become of it.
        """
        body = decode(await read_body(call, self._options.body_bytes_max), _ACK)
        await self._scheduler.ack(body.fire_id)
        return document_reply(EndedDocument("acknowledged"))

    async def nack(self, call: Request) -> Reply:
        """
        End a leased firing as a failed attempt, or for good.
        """
        body = decode(await read_body(call, self._options.body_bytes_max), _NACK)
        await self._scheduler.nack(body.fire_id, delay=body.delay, error=body.error, is_dead=body.is_dead)
        return document_reply(EndedDocument("refused"))

    async def extend(self, call: Request) -> Reply:
        """
        Let a lease end later: so many seconds from now. It may say how far the firing has come.
        """
        body = decode(await read_body(call, self._options.body_bytes_max), _EXTEND)
        until = await self._scheduler.extend(body.fire_id, body.seconds, progress=body.progress, note=body.note)
        return document_reply(ExtendedDocument(instant(until)))

    async def _unless_gone(self, waiting: asyncio.Future[Sequence[JobLease]], call: Request) -> Sequence[JobLease]:
        """
        Return what *waiting* brings, [] if the service stops first.

        Raises:
            ClientDisconnect: If the worker goes away first.
            ProblemError: `unauthorized`, if its token expires first.
        """
        gone = asyncio.ensure_future(_gone(call.receive))
        both: tuple[asyncio.Future[Any], ...] = (waiting, gone)
        self._waiting.add(waiting)
        try:
            await asyncio.wait(both, timeout=remaining_s(call), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                if not gone.done():
                    raise expired(time.time())  # it is that token which ended the wait
                raise ClientDisconnect
            return [] if waiting.cancelled() else waiting.result()
        finally:
            self._waiting.discard(waiting)
            for task in both:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await gone


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _document(lease: JobLease) -> LeaseDocument:
    return LeaseDocument(
        lease.fire_id, lease.attempt, lease.is_last_attempt, instant(lease.until), job_document(lease.job)
    )
